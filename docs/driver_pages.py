"""docs/drivers-reference.md, and the steps of a deployment in docs/deploying.md."""

from collections.abc import Iterable, Iterator

from docs.markdown import Lines, code, table
from drivers.builtin import HARDWARE_TYPES, INTERFACES
from drivers.core.interface import Interface
from drivers.core.interface_kinds import Deploy
from drivers.core.registry import Registry, load
from drivers.core.steps import Flow, Step


def drivers() -> Lines:
    registry = load(HARDWARE_TYPES, [hardware.name for hardware in HARDWARE_TYPES], INTERFACES)
    yield "# Drivers\n"
    yield "The built-in hardware types. [drivers.md](drivers.md) describes how to write one.\n"
    yield "## Hardware types\n"
    yield "Values of a node's `driver`, with their interfaces, the default first.\n"
    for name, kinds in registry.types.items():
        yield f"### {name}\n"
        yield from table(
            ("kind", "interfaces"),
            ((kind, code(*interfaces)) for kind, interfaces in kinds.items()),
        )
    names = ", ".join(
        f"{interface.kind} interface `{interface.name}`"
        f" by `[DEFAULT]enabled_{interface.kind}_interfaces`"
        for interface in _interfaces(registry)
        if interface.opt_in
    )
    yield f"Off unless a setting enables them: {names}.\n"
    yield "## Settings of a node\n"
    yield "Keys of `driver_info`, by the interface that reads them.\n"
    for interface in _interfaces(registry):
        if interface.properties:
            yield f"### {interface.kind}: {interface.name}\n"
            rows = ((code(key), text) for key, text in interface.properties.items())
            yield from table(("key", "meaning"), rows)
    yield "## Steps\n"
    yield "Higher priorities run first; a step of priority 0 runs only if it is requested by"
    yield "name. The agent's own steps are not listed here: the agent lists them after its boot.\n"
    for interface in _interfaces(registry):
        if interface.steps:
            yield f"### {interface.kind}: {interface.name}\n"
            head = (
                "step",
                *Flow,
                "arguments",
                "abortable",
                "needs the ramdisk",
                "after a death",
                "action",
            )
            yield from table(head, (_step(interface, step) for step in interface.steps.values()))
    yield "## Frames\n"
    yield "Framework steps before and after the steps of each flow. Rows that a node does not"
    yield "need are left out.\n"
    for interface in _interfaces(registry):
        if isinstance(interface, Deploy) and interface.frames:
            yield f"### {interface.kind}: {interface.name}\n"
            head = ("flow", "before", "after", "when it fails")
            yield from table(
                head,
                (
                    (flow, _rows(frame.before), _rows(frame.after), _rows(frame.on_failure))
                    for flow, frame in interface.frames.items()
                ),
            )


def _interfaces(registry: Registry) -> list[Interface]:
    """Return every interface once, by kind and name."""
    interfaces = {
        (kind, name): interface
        for kinds in registry.types.values()
        for kind, by_name in kinds.items()
        for name, interface in by_name.items()
    }
    return [interfaces[key] for key in sorted(interfaces)]


def _step(interface: Interface, step: Step) -> Iterator[str]:
    yield code(step.name)
    for flow in Flow:
        yield f"{step.priorities[flow]:g}" if flow in step.priorities else ""
    yield ", ".join(f"`{arg.name}`{' (required)' if arg.required else ''}" for arg in step.args)
    yield _by_flow(step, 0)
    yield _by_flow(step, 1)
    yield step.resume
    yield _action(interface, step.name)


def _action(interface: Interface, method: str) -> str:
    """Return the first line of a method's docstring."""
    doc = getattr(type(interface), method).__doc__ or ""
    return doc.strip().partition("\n")[0]


def _by_flow(step: Step, index: int) -> str:
    """Return "yes", "no", or the flows for which it is yes."""
    yes = [flow for flow, flags in step.by_flow.items() if flags[index]]
    return "no" if not yes else "yes" if len(yes) == len(step.by_flow) else ", ".join(yes)


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    return " · ".join(f"{interface}.{method}" for interface, method in rows)


def deploy_flow() -> Lines:
    direct = load(HARDWARE_TYPES, ["redfish"], INTERFACES).types["redfish"]["deploy"]["direct"]
    frame, flow = direct.frames[Flow.DEPLOY], Flow.DEPLOY
    steps = [step for step in direct.steps.values() if step.priorities.get(flow)]
    yield f"1. Preparation: {_rows(frame.before)}."
    yield "2. The steps, by decreasing priority:\n"
    yield from table(
        ("priority", "step", "action"),
        (
            (f"{step.priorities[flow]:g}", code(f"deploy.{step.name}"), _action(direct, step.name))
            for step in sorted(steps, key=lambda step: -step.priorities[flow])
        ),
    )
    yield f"3. The end: {_rows(frame.after)}, and the node is `active`."
    yield f"4. After a failure: {_rows(frame.on_failure)}, and the node is `deploy failed`.\n"
