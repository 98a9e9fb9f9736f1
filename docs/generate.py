"""
The pages of the documentation that are read off the code.

`python -m docs.generate` writes them; `--check` writes nothing, names those that are stale, and
exits 1 if there are any.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from app import log, options
from app.api import rules, versions
from app.flows import FLOWS, ProvisionFlow
from app.main import create_app
from app.runtime import Runtime
from app.settings import Settings
from app.settings import load as load_settings
from app.states import MACHINE, VERBS, WITHOUT_INSTANCE, Event, Kind, State, of_kind
from drivers.builtin import HARDWARE_TYPES, INTERFACES
from drivers.core.interface import Interface
from drivers.core.kinds import Deploy
from drivers.core.registry import Registry, load
from drivers.core.steps import Flow, Step
from workers.cli import toml

HERE = Path(__file__).parent
HEAD = "<!-- Written by `make docs`; what is changed here is lost. -->\n"

Lines = Iterator[str]


def table(head: Sequence[str], rows: Iterable[Iterable[object]]) -> Lines:
    """A Markdown table, and an empty line after it."""
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(str(cell).replace("|", r"\|") for cell in row) + " |"
    yield ""


def code(*words: object) -> str:
    return ", ".join(f"`{word}`" for word in words)


# states.md

KINDS: Mapping[Kind, tuple[str, str]] = {
    Kind.STABLE: ("nothing happens until somebody asks", "fill:#d5f0d5"),
    Kind.BUSY: ("a conductor acts; the node is reserved for it", "fill:#d5e4f7"),
    Kind.WAIT: ("the agent or the BMC acts; a deadline runs", "fill:#fdf3cf"),
    Kind.HOLD: ("an operator acts; no deadline", "fill:#ece0f6"),
    Kind.FAILED: ("an operator decides; `last_error` says what went wrong", "fill:#f9d9d5"),
}


def states() -> Lines:
    yield "# The states of a node\n"
    yield "All of it follows from one table, [app/states.py](../app/states.py).\n"
    yield from table(
        ("kind", "who acts", "states"),
        ((kind, KINDS[kind][0], code(*_in_order(of_kind(kind)))) for kind in Kind),
    )
    yield "## Where things go when all goes well\n"
    good = set(Event) - {Event.FAIL}
    yield from diagram(_reached(State.ENROLL, good) & of_kind(Kind.STABLE, Kind.BUSY), good)
    yield "## Each flow, with its waits, holds and failures\n"
    for busy in _in_order(of_kind(Kind.BUSY)):
        yield f"### {busy}\n"
        turns = {Event.WAIT, Event.HOLD, Event.FAIL, Event.UNHOLD}
        family = {busy, *(to for event, to in MACHINE[busy].moves.items() if event in turns)}
        yield from diagram(family, set(Event), beyond=True)
    yield "## What belongs to each flow\n"
    yield "From [app/flows.py](../app/flows.py). `operations`: the kinds that start it, as"
    yield "`GET /v1/operations` has them. `event type`: of entries in the node's history. Options"
    yield "are those of `[conductor]`; the last one powers the machine off after a failure before"
    yield "the first step.\n"
    yield from table(
        (
            "flow",
            "operations",
            "steps",
            "callback timeout",
            "limit",
            "fault",
            "event type",
            "power off",
        ),
        (_facts(flow) for flow in FLOWS),
    )
    yield "What the agent may do in states of the flow, and where a node may be changed although it"
    yield "is in transition. With fast track, an agent may also look its node up, and its"
    yield f"heartbeats are recorded, in {code(*_in_order(WITHOUT_INSTANCE))}.\n"
    yield from table(
        ("flow", "lookup", "lookup, fast track only", "heartbeats", "booted again", "changes"),
        (_rights(flow) for flow in FLOWS if flow.changeable or flow.looks_up or flow.heard),
    )
    yield "## What can be asked for\n"
    yield '`PUT /v1/nodes/<node>/states/provision` with `{"target": ...}`. A node in a busy'
    yield "state is reserved: it takes nothing.\n"
    yield from table(
        ("target", "since", "in state"),
        (
            (code(verb), f"1.{versions.VERBS.get(verb, versions.MIN)}", code(*_taking(event)))
            for verb, event in VERBS.items()
        ),
    )
    yield "## Every state\n"
    yield "`target`: the target provision state on entry, unless another is given. Within a flow"
    yield "it is kept, so a manual clean aims at `manageable` throughout. Passing a state"
    yield "successfully is recorded in the node's history under the name in the last column.\n"
    yield from table(
        ("state", "kind", "target", "event → next state", "recorded as"),
        (
            (
                code(state),
                row.kind,
                code(row.target) if row.target else "",
                " · ".join(f"{event} → `{to}`" for event, to in row.moves.items()),
                row.passed or "",
            )
            for state, row in MACHINE.items()
        ),
    )


def _facts(flow: ProvisionFlow) -> Iterator[str]:
    yield flow.name
    yield code(*flow.operations)
    yield flow.step_flow or ""
    yield code(flow.callback_timeout)
    yield code(flow.limit.setting) if flow.limit else ""
    yield flow.fault or ""
    yield flow.event_type
    yield code(flow.power_off_on_failure) if flow.power_off_on_failure else ""


def _rights(flow: ProvisionFlow) -> Iterator[str]:
    yield flow.name
    for kinds in (flow.looks_up, flow.looks_up_if_kept, flow.heard):
        yield code(*_in_order(flow.states(kinds)))
    yield code(flow.wait) if flow.boots_again else ""
    yield code(*_in_order(flow.states(flow.changeable)))


def diagram(chosen: Iterable[State], events: set[Event], *, beyond: bool = False) -> Lines:
    """
    The moves from some states by some events, as mermaid.

    beyond: also those that leave these states.
    """
    chosen = _in_order(chosen)
    arrows = [
        (state, event, to)
        for state in chosen
        for event, to in MACHINE[state].moves.items()
        if event in events and (beyond or to in chosen)
    ]
    shown = _in_order({*chosen, *(to for _, _, to in arrows)})
    yield "```mermaid"
    yield "stateDiagram-v2"
    for state in shown:
        yield f'    state "{state}" as {state.name}'
    for (state, to), group in groupby(arrows, lambda arrow: (arrow[0], arrow[2])):
        yield f"    {state.name} --> {to.name}: {', '.join(event for _, event, _ in group)}"
    for kind, (_, style) in KINDS.items():
        members = [state.name for state in shown if MACHINE[state].kind is kind]
        if members:
            yield f"    classDef {kind} {style}"
            yield f"    class {', '.join(members)} {kind}"
    yield "```\n"


def _in_order(chosen: Iterable[State]) -> list[State]:
    return [state for state in MACHINE if state in set(chosen)]


def _reached(start: State, events: set[Event]) -> set[State]:
    """The states that some events lead to, one after the other, from a state on."""
    reached, edge = set(), {start}
    while edge:
        reached |= edge
        moves = [move for state in edge for move in MACHINE[state].moves.items()]
        edge = {to for event, to in moves if event in events} - reached
    return reached


def _taking(event: Event) -> list[State]:
    return [
        state for state, row in MACHINE.items() if event in row.moves and row.kind is not Kind.BUSY
    ]


# settings.md


def settings() -> Lines:
    yield "# Settings\n"
    yield "From a flag, the environment, a TOML file (`--config`, `INGOT_CONFIG`), or the default,"
    yield "in this order. Option `name` of group `group` is `INGOT_GROUP_NAME` in the environment"
    yield "(`INGOT_NAME` in group `DEFAULT`) and `name = value` under `[group]` in the file. In the"
    yield "environment lists are separated by commas, maps are `name:value` pairs. `ingot config`"
    yield "prints what is in force, and where each value came from.\n"
    for group, members in groupby(options.options(Settings), lambda each: each.group):
        yield f"## [{group}]\n"
        yield from table(
            ("option", "default", "meaning"),
            ((code(each.name), code(_default(each)), _meaning(each)) for each in members),
        )


def _default(each: options.Option) -> str:
    return "unset" if each.default is None else toml(each.default)


def _meaning(each: options.Option) -> str:
    about = each.about
    parts = [f"{about.help}."]
    if about.choices:
        parts.append(f"One of {code(*about.choices)}.")
    if about.minimum:
        parts.append(f"At least {about.minimum:g}.")
    if about.maximum:
        parts.append(f"At most {about.maximum:g}.")
    if about.deprecated:
        old = (f"[{name.replace('.', ']', 1)}" for name in about.deprecated)
        parts.append(f"Formerly {code(*old)}.")
    return " ".join(parts)


# api.md


def api() -> Lines:
    yield "# The API\n"
    yield f"OpenStack Ironic's, versions 1.{versions.MIN} to 1.{versions.MAX}, and what Ingot"
    yield f"adds. A request asks for a version with the header `{versions.HEADER}`;"
    yield f"without one it gets 1.{versions.MIN}. A running service describes parameters and bodies"
    yield "at `/docs` and `/openapi.json`. [policy.md](policy.md) says who passes a rule.\n"
    by_tag: dict[str, list[tuple[str, ...]]] = {}
    for path, methods in _openapi()["paths"].items():
        for method, about in methods.items():
            rule = code(about["x-policy"]) if "x-policy" in about else ""
            row = (method.upper(), code(path), about["x-since"], about["summary"], _answers(about))
            by_tag.setdefault(about["tags"][0], []).append((*row, rule))
    for tag, rows in by_tag.items():
        yield f"## {tag.replace('_', ' ').capitalize()}\n"
        yield from table(("method", "path", "since", "what it does", "answers", "rule"), rows)


def _answers(about: Mapping[str, Any]) -> str:
    """What an operation answers when all goes well: statuses, and the shapes that have a name."""
    shown = []
    for status, answer in about["responses"].items():
        if int(status) < 300:
            content = answer.get("content", {}).get("application/json", {})
            names = re.findall(r"/schemas/(?!Links)(\w+)", str(content))
            shown.append(f"{status} {code(*dict.fromkeys(names))}".rstrip())
    return ", ".join(shown)


def _openapi() -> dict[str, Any]:
    def send(_message: object) -> bool:
        raise AssertionError("nothing is sent while documents are written")

    registry = load((), enabled_types=[])
    runtime = Runtime(load_settings({}), None, registry, send)  # type: ignore[arg-type]
    answer = create_app(runtime).test_client().get("/openapi.json")
    document: dict[str, Any] = answer.get_json()
    return document


# policy.md


def policy() -> Lines:
    yield "# Who may do what\n"
    yield 'With `auth_strategy = "keystone"`, every request is checked against rules. Their names'
    yield "and defaults are Ironic's, their language is that of"
    yield "[oslo.policy](https://docs.openstack.org/oslo.policy/latest/), and a YAML file replaces"
    yield "any of them: `[oslo_policy]policy_file`, and files in `[oslo_policy]policy_dirs`. A file"
    yield "that changes is read again within seconds. With `noauth` and `http_basic` everything is"
    yield "allowed, and only the rules that show secrets count.\n"
    yield "```yaml"
    yield "# owners decide when their machines are serviced, members of the system do not"
    yield '"baremetal:node:set_maintenance": "rule:owner_member"'
    yield "```\n"
    yield "`admin` contains `manager`, that `member`, that `reader`. Who may not see a node is told"
    yield "that there is none; who sees it and may not do what he asks for gets a 403. Lists show"
    yield "what the caller's project owns or leases, unless the rule `..._all` passes. A change of"
    yield "several fields needs the rule of each. `scope`: the kinds of tokens that can pass a rule"
    yield "at all, unless `[oslo_policy]enforce_scope` is off. [api.md](api.md) has the rule of"
    yield "each route.\n"
    for section, members in rules.SECTIONS.items():
        yield f"## {section}\n"
        yield from table(
            ("rule", "what for", "who, by default", "scope"),
            (
                (
                    code(each.name),
                    each.guards,
                    code(each.check) if each.check else "anybody",
                    ", ".join(each.scopes),
                )
                for each in members
            ),
        )


# drivers-reference.md


def drivers() -> Lines:
    registry = load(HARDWARE_TYPES, [each.name for each in HARDWARE_TYPES], INTERFACES)
    yield "# Drivers\n"
    yield "The hardware types that come with Ingot. [drivers.md](drivers.md) says how to write"
    yield "one.\n"
    yield "## Hardware types\n"
    yield "`driver` of a node, and the interfaces that it may have, the default first.\n"
    for name, kinds in registry.types.items():
        yield f"### {name}\n"
        yield from table(
            ("kind", "interfaces"), ((kind, code(*each)) for kind, each in kinds.items())
        )
    opt_in = [each for each in _interfaces(registry) if each.opt_in]
    names = ", ".join(
        f"{each.kind} interface `{each.name}` by `[DEFAULT]enabled_{each.kind}_interfaces`"
        for each in opt_in
    )
    yield f"To be enabled by the settings: {names}.\n"
    yield "## Settings of a node\n"
    yield "Keys of `driver_info`, by the interface that reads them.\n"
    for interface in _interfaces(registry):
        if interface.properties:
            yield f"### {interface.kind}: {interface.name}\n"
            rows = ((code(key), text) for key, text in interface.properties.items())
            yield from table(("key", "meaning"), rows)
    yield "## Steps\n"
    yield "Higher priorities run first; a step of priority 0 runs only when it is asked for by"
    yield "name. The agent's own steps are not listed: it tells them when it has booted.\n"
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
                "does",
            )
            yield from table(head, (_step(interface, step) for step in interface.steps.values()))
    yield "## Frames\n"
    yield "What surrounds the steps of each flow. Rows that a node does not need are left out.\n"
    for interface in _interfaces(registry):
        if isinstance(interface, Deploy) and interface.frames:
            yield f"### {interface.kind}: {interface.name}\n"
            head = ("flow", "before", "after", "when it fails")
            yield from table(
                head,
                (
                    (flow, _rows(each.before), _rows(each.after), _rows(each.on_failure))
                    for flow, each in interface.frames.items()
                ),
            )


def _interfaces(registry: Registry) -> list[Interface]:
    """Every interface once, by kind and name."""
    found = {
        (kind, name): interface
        for kinds in registry.types.values()
        for kind, by_name in kinds.items()
        for name, interface in by_name.items()
    }
    return [found[key] for key in sorted(found)]


def _step(interface: Interface, step: Step) -> Iterator[str]:
    yield code(step.name)
    for flow in Flow:
        yield f"{step.priorities[flow]:g}" if flow in step.priorities else ""
    yield ", ".join(f"`{arg.name}`{' (required)' if arg.required else ''}" for arg in step.args)
    yield _by_flow(step, 0)
    yield _by_flow(step, 1)
    yield step.resume
    doc = getattr(type(interface), step.name).__doc__ or ""
    yield doc.strip().partition("\n")[0]


def _by_flow(step: Step, index: int) -> str:
    """ "yes", "no", or the flows for which it is yes."""
    yes = [flow for flow, flags in step.by_flow.items() if flags[index]]
    return "no" if not yes else "yes" if len(yes) == len(step.by_flow) else ", ".join(yes)


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    return " · ".join(f"{interface}.{method}" for interface, method in rows)


PAGES: Mapping[str, Callable[[], Lines]] = {
    "states.md": states,
    "settings.md": settings,
    "api.md": api,
    "policy.md": policy,
    "drivers-reference.md": drivers,
}


def render(name: str) -> str:
    """The text of a page."""
    return HEAD + "\n".join(PAGES[name]()).rstrip() + "\n"


def stale(folder: Path = HERE) -> list[str]:
    """The pages that are missing or differ from what the code says."""

    def text(path: Path) -> str | None:
        return path.read_text() if path.exists() else None

    return [name for name in PAGES if text(folder / name) != render(name)]


def main(arguments: Sequence[str]) -> int:
    log.set_up("warning", "text", role="docs")
    names = stale()
    if "--check" not in arguments:
        for name in names:
            (HERE / name).write_text(render(name))
            sys.stdout.write(f"written: docs/{name}\n")
        return 0
    for name in names:
        sys.stderr.write(f"stale: docs/{name}; run `make docs`\n")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
