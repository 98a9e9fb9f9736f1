"""Commands for compliance with baselines: the nodes of a baseline, and the baselines of a node."""

from typing import Annotated

import typer

from app.cli.commands import Node
from app.cli.rest import Api
from app.cli.terminal.output import Document, Output

OF_BASELINE = ("node_name", "node_uuid", "state", "since", "differences")
OF_NODE = ("baseline_name", "state", "since", "differences")


def nodes(
    api: Api,
    output: Output,
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help="UUID, or name")],
    *,
    state: Annotated[
        str | None, typer.Option(help="Only those that are: complies, differs or unknown")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Largest number of items")] = None,
) -> None:
    """List the nodes of a baseline, with the differences of each and their begin."""
    query = {} if state is None else {"state": state}
    items = api.every("baselines", baseline, "nodes", limit=limit, **query)
    output.items((_row(output, item) for item in items), OF_BASELINE)


def compliance(api: Api, output: Output, node: Node) -> None:
    """List the baselines of a node, with its differences from each and their begin."""
    items = api.get("nodes", node, "compliance")["compliance"]
    output.items([_row(output, item) for item in items], OF_NODE)


def _row(output: Output, item: Document) -> Document:
    if not output.people:
        return item
    return {**item, "differences": "; ".join(map(_phrase, item["differences"]))}


def _phrase(difference: Document) -> str:
    actual, expected = difference["actual"], difference["expected"]
    values = ",".join(map(str, expected)) if isinstance(expected, list) else expected
    fact = "unknown" if actual is None else actual
    return f"{difference['field']} {fact} (expected {difference['operator']} {values})"
