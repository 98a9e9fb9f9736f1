"""Commands that only read: state, operations, history, event subscription, versions."""

from importlib.metadata import version as installed
from itertools import islice
from pathlib import PurePath
from typing import Annotated

import typer

from app.cli.commands import Limit, Node
from app.cli.operation_progress import label, progress_of, seconds_of
from app.cli.rest import Api
from app.cli.terminal import times
from app.cli.terminal.output import Document, Output, moment
from app.cli.terminal.times import Since
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
SUBSCRIPTION = ("state", "subscribed_at", "tested_at", "received_at", "error")
#: Header of the root document.
RELEASE = "X-Ingot-Release"


def why(api: Api, output: Output, node: Node) -> None:
    """Explain a node's state: the awaited event, the holder of its reservation, the next action."""
    explanation = api.get("nodes", node, "why")
    output.result(
        explanation,
        joined(
            explanation["summary"],
            explanation["since"] and f"Since {moment(explanation['since'])}",
            explanation["held_by"] and f"It is reserved for {explanation['held_by']}",
            explanation["next"] and f"Next: {explanation['next']}",
            explanation["next_at"] and f"At the latest at {moment(explanation['next_at'])}",
        ),
    )


def operations(api: Api, output: Output, node: Node, since: Since = None) -> None:
    """List the operations of a node, the newest first."""
    operations = api.get("nodes", node, "operations")["operations"]
    output.items(times.recent(operations, since, in_order=True), OPERATION, BRIEFLY)


def list_operations(
    api: Api,
    output: Output,
    *,
    active: Annotated[bool | None, typer.Option(help="Only those that have not ended")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only those in this state, as failed, held, running")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only those of this kind, as clean")] = None,
    since: Since = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help=f"Largest number of items; default: {NEWEST}, with --since all"),
    ] = None,
) -> None:
    """List the operations of all nodes, the newest first."""
    if limit is None and since is None:
        limit = NEWEST
    operations = times.recent(
        api.every("operations", limit=limit, active=active, state=state, kind=kind),
        since,
        in_order=True,
    )
    if output.people:
        operations = (
            operation | {"node_name": operation["node_name"] or operation["node_uuid"]}
            for operation in operations
        )
    output.items(operations, FLEET, FLEET_BRIEFLY)


def operation(
    api: Api, output: Output, uuid: Annotated[str, typer.Argument(metavar="UUID")]
) -> None:
    """Show an operation and its steps."""
    operation = api.get("operations", uuid)
    if not output.people:
        output.item(operation)
        return
    output.item(operation, (*OPERATION, "node_uuid", "deadline_at"))
    output.say("")
    output.items([_row(step, len(operation["steps"])) for step in operation["steps"]], STEPS)


def _row(step: Document, total: int) -> Document:
    """
    Build a row of the table of steps.

    `note` is the error, the progress of a running step, or the name of a kept log.
    """
    progress = progress_of(step) if step["started_at"] and not step["finished_at"] else ""
    log = PurePath((step["result"] or {}).get("logs") or "").name
    return {
        "number": f"{step['position'] + 1}/{total}",
        "step": label(step),
        "state": step["state"],
        "tries": step["attempts"],
        "seconds": seconds_of(step),
        "conductor": step["conductor"],
        "note": step["error"] or progress or (f"agent-logs: {log}" if log else ""),
    }


def history(
    api: Api,
    output: Output,
    node: Node,
    since: Since = None,
    limit: Limit = None,
) -> None:
    """List the history of a node."""
    entries = api.every("nodes", node, "history", limit=None if since else limit, detail=True)
    output.items(islice(times.recent(entries, since), limit), HISTORY, EVENTS)


def event_subscription(api: Api, output: Output, node: Node) -> None:
    """Show whether a node's BMC sends its events to the service, and since when."""
    output.item(api.get("nodes", node, "event_subscription"), SUBSCRIPTION)


def version(api: Api, output: Output) -> None:
    """Print the versions of this command and of the service."""
    answer = api.root()
    served = answer.json()["default_version"]
    versions = {
        "client": installed("ingot"),
        "service": answer.headers.get(RELEASE),
        "api": f"{served['min_version']} to {served['version']}",
    }
    service = versions["service"] or "does not tell"
    output.result(
        versions, f"client {versions['client']}, service {service}, API {versions['api']}"
    )
