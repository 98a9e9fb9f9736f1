"""
Steps: which a node offers, and those that somebody asks for, checked against them.

A step that is asked for is a JSON object, kept with its operation: {interface, step, args, source},
in deployments with a priority, and with `child` where it is run on a child node. source: caller,
runbook or template.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.errors import Invalid
from app.models import Node, StepSource
from drivers.agent import in_band
from drivers.core import reserved
from drivers.core.errors import HardwareError
from drivers.core.steps import Flow, Step
from drivers.core.target import Target

Asked = Mapping[str, Any]
Key = tuple[str, str]

#: Where the agent's steps of a deployment may lie: it runs, and is not yet dismissed.
IN_BAND_DEPLOY = (41, 99)


def offered(target: Target, flow: Flow) -> dict[Key, Step]:
    """
    What the node's interfaces, and its agent as far as it has told, offer for a flow.

    Raises Invalid as `of_driver` does.
    """
    found = [*of_driver(target, flow), *in_band.steps_of(target, flow)]
    return {step.key: step for step in found}


def of_driver(target: Target, flow: Flow) -> list[Step]:
    """What the node's interfaces offer. Raises Invalid when one of them lists nonsense."""
    try:
        return target.driver.steps(flow, target)
    except HardwareError as error:
        raise Invalid(f"Node {target.uuid}: {error}") from error


def read(
    session: Session, node: Node, documents: Iterable[Mapping[str, Any]], source: StepSource
) -> list[dict[str, Any]]:
    """
    What is asked for, in the order in which it is to be run, once for each child node if so wished.

    Raises Invalid for a child that is none.
    """
    ordered = sorted(documents, key=lambda each: each.get("order") or 0)
    read = []
    for each in ordered:
        name = each["step"]
        plain: dict[str, Any] = {
            "interface": each.get("interface") or _interface_of(name),
            "step": name,
            "args": dict(each.get("args") or {}),
            "source": source,
        }
        if "priority" in each:
            plain["priority"] = each["priority"]
        wanted = each.get("limit_child_node_execution")
        if each.get("execute_on_child_nodes") or wanted:
            children = _children(session, node, wanted, name)
            read += [{**plain, "child": child} for child in children]
        else:
            read.append(plain)
    return read


def _interface_of(name: str) -> str:
    return "deploy" if name in ("hold", "wait") else "power"


def _children(
    session: Session, node: Node, wanted: Sequence[str] | None, step: str
) -> Sequence[str]:
    own = list(
        session.scalars(select(Node.uuid).where(Node.parent_node == node.uuid).order_by(Node.id))
    )
    for each in wanted or ():
        if each not in own:
            raise Invalid(
                f"limit_child_node_execution: {each}, named for step {step}, is no child of node"
                f" {node.uuid}"
            )
    return wanted or own


def problems(
    asked: Iterable[Asked],
    flow: Flow,
    known: Mapping[Key, Step],
    *,
    agent: bool,
    ramdisk: bool = True,
) -> list[str]:
    """
    All that is wrong with steps that are asked for, a sentence each.

    known: from `offered`. agent: it takes part and has not told its steps yet, so that unknown ones
    may be its. ramdisk: it is booted, or may be.
    """
    found = []
    seen: set[Key] = set()
    for each in asked:
        key = (each["interface"], each["step"])
        label = ".".join(key)
        if each.get("child"):
            if key[1] in reserved.METHODS and key[1] not in reserved.ON_CHILDREN:
                found.append(f"{label}: cannot be run on child nodes")
            continue
        if key[1] in reserved.METHODS:
            args = {arg.name: arg for arg in reserved.ARGS.get(key[1], ())}
            found += _wrong_args(label, each, args, enabled=True)
            continue
        step = known.get(key)
        if flow is Flow.DEPLOY:
            found += _wrong_in_deploy(label, each, step, key in seen)
        seen.add(key)
        if step is None:
            if not agent:
                found.append(f"{label}: this node has no {flow} step of that name")
            continue
        args = {arg.name: arg for arg in step.args}
        enabled = flow is not Flow.DEPLOY or each.get("priority", 0) > 0
        found += _wrong_args(label, each, args, enabled=enabled)
        if not ramdisk and step.needs_ramdisk:
            found.append(f"{label}: needs the ramdisk, which disable_ramdisk leaves out")
    return found


def _wrong_args(label: str, each: Asked, args: Mapping[str, Any], *, enabled: bool) -> list[str]:
    given = each.get("args") or {}
    found = [
        f"{label}: has no argument {name!r}; it has {', '.join(args) or 'none'}"
        for name in given
        if name not in args
    ]
    if enabled:
        missing = [name for name, arg in args.items() if arg.required and name not in given]
        found += [f"{label}: the argument {name!r} is required and missing" for name in missing]
    return found


def _wrong_in_deploy(label: str, each: Asked, step: Step | None, repeated: bool) -> list[str]:
    priority, found = each.get("priority", 0), []
    if repeated:
        found.append(f"{label}: is asked for twice")
    if label == "deploy.deploy" and priority > 0:
        found.append(f"{label}: is what every deployment begins with, and cannot be replaced")
    low, high = IN_BAND_DEPLOY
    if (step is None or step.in_band) and priority and not low <= priority <= high:
        found.append(
            f"{label}: has priority {priority:g}; it is no step of the driver's, and the agent's"
            f" run only between {low} and {high}"
        )
    return found


def needs_ramdisk(asked: Iterable[Asked], known: Mapping[Key, Step]) -> bool:
    """Whether the agent must be booted for these; steps that are not known may be the agent's."""
    for each in asked:
        if each["step"] in reserved.METHODS or each.get("child"):
            continue
        step = known.get((each["interface"], each["step"]))
        if step is None or step.needs_ramdisk:
            return True
    return False
