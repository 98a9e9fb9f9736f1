"""Command that lists and follows change events."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Annotated, Any

import typer

from app.cli.rest import Api
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document, Output, moment
from app.cli.terminal.times import Since, instant_of, moment_of

#: Newest events that are shown.
NEWEST = 20
#: Seconds that a request waits for an event.
WAIT = 20.0
FIELDS = (
    "sequence", "created_at", "type", "node_uuid", "node_name", "resource_uuid", "resource_name",
    "operation_uuid", "operation_kind", "step", "before", "after",
)  # fmt: skip
TABLE = ("created_at", "node", "type", "subject", "before", "after")


def events(
    api: Api,
    output: Output,
    *,
    node: Annotated[str | None, typer.Option(help="Only of this node: a name or UUID")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", help="Only of this type, as node.power_state")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, help="The ones that follow this number")
    ] = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of newest events")] = NEWEST,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more events, until Ctrl-C")
    ] = False,
) -> None:
    """List the newest changes of nodes, operations, steps and other resources."""
    filters, position = {"node": node, "type": kind}, after
    if since is not None:
        if after is not None:
            raise Usage("--since, --after: one of both")
        position = _number_before(api, moment_of("--since", since))
    page_events: list[Document] = []
    if position is None:
        page = api.get("events", limit=limit, **filters)
        page_events, position = page["events"], page["last"]
    elif not follow:
        page_events = list(_until_newest(api, position, filters))
    if not follow:
        output.items(
            [_row(event) for event in page_events] if output.people else page_events, FIELDS, TABLE
        )
        return
    for event in chain(page_events, _without_end(api.another(patient=True), position, filters)):
        print_event(output, event)


def _number_before(api: Api, begin: datetime) -> int:
    """
    Return the number of the last event before a time, by halving the kept ones.

    Events are numbered in the order of their commits, which is that of their times but for moments.
    """
    page = api.get("events", limit=1)
    low, high = int(page["first"]) - 1, int(page["last"])
    while low < high:
        middle = (low + high) // 2
        events = api.get("events", after=middle, limit=1)["events"]
        if not events or instant_of(events[0]["created_at"]) >= begin:
            high = middle
        else:
            low = min(max(int(events[0]["sequence"]), middle + 1), high)
    return max(low, 0)


def _until_newest(api: Api, position: int, filters: dict[str, Any]) -> Iterator[Document]:
    """Yield the events that follow a number."""
    while True:
        page = api.get("events", after=position, **filters)
        yield from page["events"]
        if page["last"] == position:
            return
        position = page["last"]


def _without_end(api: Api, position: int, filters: dict[str, Any]) -> Iterator[Document]:
    """Yield the events that follow a number, as they occur."""
    while True:
        page = api.get("events", after=position, wait=WAIT, **filters)
        yield from page["events"]
        position = page["last"]


def _row(event: Document) -> Document:
    of_subject = ("step", "operation_kind", "resource_name", "resource_uuid")
    subject = next((event[name] for name in of_subject if event[name]), "")
    return {**event, "node": event["node_name"] or event["node_uuid"] or "", "subject": subject}


def print_event(output: Output, event: Document) -> None:
    """Print an event as a line."""
    row = _row(event)
    change = " -> ".join(filter(None, (event["before"], event["after"])))
    cells = [moment(event["created_at"]), row["node"], event["type"], row["subject"], change]
    output.line(event, FIELDS, "  ".join(filter(None, cells)))
