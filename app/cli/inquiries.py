"""What is going on, what went on, and why."""

from typing import Annotated

import typer

from app.cli.commands import Node
from app.cli.following import seconds_of
from app.cli.output import Output, moment
from app.cli.rest import Api

OPERATION = ("uuid", "kind", "state", "requested_by", "created_at", "finished_at", "error")
STEPS = (
    "position", "interface", "step", "source", "state", "attempts", "conductor", "seconds",
    "error", "progress",
)  # fmt: skip
HISTORY = ("created_at", "severity", "event_type", "event", "conductor", "user")
CONDUCTORS = ("hostname", "conductor_group", "alive", "drivers", "updated_at")


def why(api: Api, out: Output, node: Node) -> None:
    """Tell what a node waits for, who holds it, since when, and what happens next."""
    found = api.get("nodes", node, "why")
    sentences = [found["summary"]]
    sentences += [f"So since {moment(found['since'])}."] if found["since"] else []
    sentences += [f"It is reserved for {found['held_by']}."] if found["held_by"] else []
    sentences += [f"Next: {found['next']}."] if found["next"] else []
    sentences += [f"At the latest at {moment(found['next_at'])}."] if found["next_at"] else []
    out.told(found, " ".join(sentences))


def operations(api: Api, out: Output, node: Node) -> None:
    """List what was asked of a node, the newest first."""
    out.items(api.get("nodes", node, "operations")["operations"], OPERATION)


def operation(api: Api, out: Output, uuid: Annotated[str, typer.Argument(metavar="UUID")]) -> None:
    """Show an operation and its steps."""
    found = api.get("operations", uuid)
    if not out.people:
        out.item(found)
        return
    out.item(found, (*OPERATION, "node_uuid", "deadline_at"))
    out.items([step | {"seconds": seconds_of(step)} for step in found["steps"]], STEPS)


def history(
    api: Api,
    out: Output,
    node: Node,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many")] = None,
) -> None:
    """List what happened to a node."""
    out.items(api.every("nodes", node, "history", limit=limit, detail=True), HISTORY)


def list_conductors(api: Api, out: Output) -> None:
    """List the conductors, and whether they are alive."""
    out.items(api.every("conductors", detail=True), CONDUCTORS)
