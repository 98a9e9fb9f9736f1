"""Commands for sanitation reports: list those of a node, show one, or write them to files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from app.cli import bulk
from app.cli.bulk import Nodes, NodeSelection, Outcome
from app.cli.commands import Limit, Node
from app.cli.rest import Api
from app.cli.terminal.errors import Failure, Usage
from app.cli.terminal.output import Document, Output

COLUMNS = ("uuid", "created_at", "result", "operation", "kind", "disks", "reasons")
BRIEFLY = ("created_at", "result", "kind", "disks", "reasons", "uuid")
DISKS = ("serial", "name", "model", "status", "method", "agent_says")
FACTS = ("result", "reasons", "node", "tenancy", "operation", "checks")


def list_reports(
    api: Api,
    output: Output,
    node: Node,
    *,
    limit: Limit = None,
) -> None:
    """List the sanitation reports of a node, the newest first; of a deleted one by its UUID."""
    output.items(map(_row, api.every("nodes", node, "sanitation", limit=limit)), COLUMNS, BRIEFLY)


def _row(item: Document) -> Document:
    report = item["report"]
    return {
        **{name: item[name] for name in ("uuid", "created_at", "result")},
        "operation": report["operation"]["uuid"],
        "kind": report["operation"]["kind"],
        "disks": len(report["disks"]),
        "reasons": " ".join(report["reasons"]),
    }


def show(
    api: Api,
    output: Output,
    node: Node,
    uuid: Annotated[
        str | None, typer.Argument(metavar="[REPORT]", help="UUID of a report; default: the newest")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option(help="Write the signed report to this new file, as JSON")
    ] = None,
) -> None:
    """Show a sanitation report of a node, or write it to a file for `ingot sanitation verify`."""
    item = _report(api, node, uuid)
    if file is not None:
        outcome = _written(item, file)
        output.result(outcome.document, outcome.text)
        return
    if not output.people:
        output.item(item)
        return
    output.item({**item["report"], "signed": item["signature"] is not None}, (*FACTS, "signed"))
    output.say("")
    output.items(item["report"]["disks"], DISKS)


def export(
    api: Api,
    output: Output,
    *,
    nodes: Nodes = None,
    folder: Annotated[Path, typer.Option(help="Folder for a new file NODE.json of each node")],
    **selection_options: object,
) -> None:
    """Write the newest sanitation report of each node to a file, for `ingot sanitation verify`."""

    def act(api: Api, node: str) -> Outcome:
        return _written(_report(api, node), folder / f"{Path(node).name}.json")

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Usage(f"--folder: {folder}: {error.strerror}") from None
    bulk.for_each_node(api, output, NodeSelection.of(nodes, selection_options), act)


def _report(api: Api, node: str, uuid: str | None = None) -> Document:
    """Return a report of a node, without a UUID the newest. Raises Failure: there is none."""
    reports = api.every("nodes", node, "sanitation", limit=None if uuid else 1)
    item = next((item for item in reports if uuid in (None, item["uuid"])), None)
    if item is None:
        raise Failure(f"{node} has no sanitation report{f' {uuid}' if uuid else ''}")
    return item


def _written(item: Document, file: Path) -> Outcome:
    """
    Write a report to a new file.

    Raises Usage: the file exists.
    Raises Failure: it cannot be written.
    """
    try:
        with file.open("x") as target:
            json.dump(item, target, indent=2)
    except FileExistsError:
        raise Usage(f"{file} exists") from None
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from None
    return Outcome({"file": str(file), "result": item["result"]}, f"{file}: {item['result']}")
