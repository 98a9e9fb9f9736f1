"""Commands for audit records: list and export."""

import csv
import json
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from app.cli.commands import option
from app.cli.fleet_file.spreadsheet import FORMULA
from app.cli.rest import Api
from app.cli.terminal import times
from app.cli.terminal.output import Document, Output
from app.text.sentences import harmless

BRIEFLY = (
    "created_at",
    "outcome",
    "action",
    "target",
    "user_name",
    "address",
    "reason",
    "requests",
)
COLUMNS = (
    "sequence", "created_at", "action", "outcome", "status", "requests", "target_type", "target",
    "target_name", "user_id", "user_name", "project_id", "project_name", "roles", "system_scope",
    "auth", "address", "user_agent", "request_id", "reason", "fields",
)  # fmt: skip
NEWEST = 100

#: Filter of the API -> what it selects. A filter is an option of both commands.
ABOUT = {
    "since": f"Only those since this time: {times.FORMS}; in UTC",
    "until": "Only those before this time",
    "user": "Only those of the user with this id",
    "project": "Only those of users of this project, by id",
    "target": "Only those about this node or resource, by UUID",
    "action": "Only this action, as update/node",
    "outcome": "Only those with this outcome: success, failure, denied, pending",
    "address": "Only those from this address",
}
FILTERS = tuple(
    option(name, Annotated[str | None, typer.Option(help=about)]) for name, about in ABOUT.items()
)


def list_records(
    api: Api,
    output: Output,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of items")] = NEWEST,
    **filters: object,
) -> None:
    """List audit records, the newest first."""
    records = api.every("audit", limit=limit, **_query(filters))
    if output.people:
        records = map(_for_people, records)
    output.items(records, COLUMNS, BRIEFLY)


def _query(filters: Document) -> Document:
    """Return the filters as the API reads them. Raises Usage."""
    moments = {name: times.iso(f"--{name}", filters[name]) for name in ("since", "until")}
    return {**filters, **moments}


def _for_people(record: Document) -> Document:
    """Return a record with names instead of identifiers, where it has them."""
    user = record["user_name"] or record["user_id"] or (record["auth"] == "agent" and "agent")
    return record | {"user_name": user or None, "target": record["target_name"] or record["target"]}


def export(
    api: Api,
    output: Output,
    *,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV instead of JSON lines")] = False,
    **filters: object,
) -> None:
    """Write all audit records, the oldest first: a JSON object a line, or CSV."""
    records = api.every("audit", sort_dir="asc", **_query(filters))
    if as_csv:
        _write_csv(records)
    else:
        for record in records:
            typer.echo(json.dumps(record))


def _write_csv(records: Iterator[Document]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS)
    for record in records:
        writer.writerow([_cell(record[name]) for name in COLUMNS])


def _cell(value: object) -> object:
    """Format a value for CSV; a text that spreadsheets would evaluate gets an apostrophe."""
    text = " ".join(value) if isinstance(value, list) else value
    if not isinstance(text, str):
        return text
    return harmless(f"'{text}" if text.startswith(FORMULA) else text)
