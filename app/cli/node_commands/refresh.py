"""Command that reads the recorded facts of machines again, and shows what has changed."""

import time
from typing import Annotated

import typer

from app.cli import bulk, operation_progress
from app.cli.bulk import Nodes, NodeSelection, Outcome
from app.cli.node_commands.verbs import Wait
from app.cli.rest import Api
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document, Output, moment
from app.text.sentences import counted

COLUMNS = ("fact", "before", "after")


def refresh(
    api: Api,
    output: Output,
    *,
    nodes: Nodes = None,
    wait: Wait = None,
    last: Annotated[
        bool, typer.Option("--last", help="Show what the last refresh of a node has found")
    ] = False,
    **selection_options: object,
) -> None:
    """Read BIOS settings, firmware and inventory again by the BMC; nothing else is changed."""
    selection = NodeSelection.of(nodes, selection_options)
    if last:
        if selection.only_node is None:
            raise Usage("--last: name one node")
        _show(output, selection.only_node, api.get("nodes", selection.only_node, "refresh"))
        return
    end = time.monotonic() + (wait or 0)
    results_by_node: dict[str, Document] = {}

    def act(api: Api, node: str) -> Outcome:
        answer = api.request("POST", "nodes", node, "refresh")
        request_id = answer.headers.get("Openstack-Request-Id")
        operation = operation_progress.find_operation(api, node, "refresh", request_id) or {}
        text = f"{node}: refresh accepted, operation {operation.get('uuid')}; --wait follows it"
        return Outcome(operation, text)

    def then(api: Api, node: str, result: Outcome) -> Outcome:
        seconds_left = max(end - time.monotonic(), 0)
        operation = operation_progress.follow(
            api, node, result.document["uuid"], seconds_left, lambda _operation: None
        )
        operation_progress.require_success(operation, node, "refresh")
        results_by_node[node] = results = api.get("nodes", node, "refresh")
        return Outcome(results, f"{node}: {_summary(results)}")

    bulk.for_each_node(api, output, selection, act, then if wait is not None else None)
    if output.people and selection.only_node in results_by_node:
        output.items(results_by_node[selection.only_node]["changes"], COLUMNS)


def _show(output: Output, node: str, results: Document) -> None:
    if not output.people:
        output.item(results)
        return
    output.say(f"{node}: read at {moment(results['read_at'])}; {_summary(results)}")
    output.items(results["changes"], COLUMNS)


def _summary(results: Document) -> str:
    parts = [
        f"{name} {part['state']}" + (f" ({part['reason']})" if part["reason"] else "")
        for name, part in sorted(results["parts"].items())
    ]
    count = results["changed"]
    return f"{counted(count, 'changed fact')}; {', '.join(parts)}"
