"""Commands that only read: state, operations, history, conductors, versions."""

from importlib.metadata import version as installed
from pathlib import PurePath
from typing import Annotated

import typer

from app.cli.commands import Node
from app.cli.operation_progress import label, progress_of, seconds_of
from app.cli.rest import Api
from app.cli.terminal.output import Document, Output, moment
from app.text.sentences import joined

OPERATION = ("uuid", "kind", "state", "requested_by", "created_at", "finished_at", "error")
#: Columns of the table; `ingot node operation UUID` shows the rest.
BRIEFLY = ("uuid", "kind", "state", "created_at", "error")
#: Operations of all nodes: for scripts, and as a table.
FLEET = ("uuid", "node_name", "kind", "state", "created_at", "error")
FLEET_BRIEFLY = ("node_name", "kind", "state", "created_at", "error", "uuid")
NEWEST = 100
STEPS = ("number", "step", "state", "tries", "seconds", "conductor", "note")
HISTORY = ("created_at", "severity", "event_type", "event", "conductor", "user")
#: Columns of the table: the text last.
EVENTS = ("created_at", "severity", "event_type", "conductor", "user", "event")
CONDUCTORS = ("hostname", "conductor_group", "alive", "drivers", "updated_at")
#: Header of the root document.
RELEASE = "X-Ingot-Release"


def why(api: Api, out: Output, node: Node) -> None:
    """Explain a node's state: the awaited event, the holder of its reservation, the next action."""
    found = api.get("nodes", node, "why")
    out.result(
        found,
        joined(
            found["summary"],
            found["since"] and f"Since {moment(found['since'])}",
            found["held_by"] and f"It is reserved for {found['held_by']}",
            found["next"] and f"Next: {found['next']}",
            found["next_at"] and f"At the latest at {moment(found['next_at'])}",
        ),
    )


def operations(api: Api, out: Output, node: Node) -> None:
    """List the operations of a node, the newest first."""
    out.items(api.get("nodes", node, "operations")["operations"], OPERATION, BRIEFLY)


def list_operations(
    api: Api,
    out: Output,
    *,
    active: Annotated[bool | None, typer.Option(help="Only those that have not ended")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only those in this state, as failed, held, running")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only those of this kind, as clean")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of items")] = NEWEST,
) -> None:
    """List the operations of all nodes, the newest first."""
    found = api.every("operations", limit=limit, active=active, state=state, kind=kind)
    if out.people:
        found = (each | {"node_name": each["node_name"] or each["node_uuid"]} for each in found)
    out.items(found, FLEET, FLEET_BRIEFLY)


def operation(api: Api, out: Output, uuid: Annotated[str, typer.Argument(metavar="UUID")]) -> None:
    """Show an operation and its steps."""
    found = api.get("operations", uuid)
    if not out.people:
        out.item(found)
        return
    out.item(found, (*OPERATION, "node_uuid", "deadline_at"))
    out.say("")
    out.items([_row(step, len(found["steps"])) for step in found["steps"]], STEPS)


def _row(step: Document, of: int) -> Document:
    """
    Build a row of the table of steps.

    `note` is the error, the progress of a running step, or the name of a kept log.
    """
    progress = progress_of(step) if step["started_at"] and not step["finished_at"] else ""
    log = PurePath((step["result"] or {}).get("logs") or "").name
    return {
        "number": f"{step['position'] + 1}/{of}",
        "step": label(step),
        "state": step["state"],
        "tries": step["attempts"],
        "seconds": seconds_of(step),
        "conductor": step["conductor"],
        "note": step["error"] or progress or (f"agent-logs: {log}" if log else ""),
    }


def history(
    api: Api,
    out: Output,
    node: Node,
    limit: Annotated[int | None, typer.Option(min=1, help="Largest number of items")] = None,
) -> None:
    """List the history of a node."""
    out.items(api.every("nodes", node, "history", limit=limit, detail=True), HISTORY, EVENTS)


def list_conductors(api: Api, out: Output) -> None:
    """List the conductors, and whether they are alive."""
    out.items(api.every("conductors", detail=True), CONDUCTORS)


def version(api: Api, out: Output) -> None:
    """Print the versions of this command and of the service."""
    answer = api.root()
    served = answer.json()["default_version"]
    found = {
        "client": installed("ingot"),
        "service": answer.headers.get(RELEASE),
        "api": f"{served['min_version']} to {served['version']}",
    }
    service = found["service"] or "does not tell"
    out.result(found, f"client {found['client']}, service {service}, API {found['api']}")
