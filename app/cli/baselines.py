"""
Commands for compliance with baselines: nodes of a baseline, baselines of a node, and the remedy.
"""

from enum import StrEnum
from typing import Annotated

import typer

from app.cli import bulk, rollouts
from app.cli.commands import Limit, Node
from app.cli.node_commands.verbs import StepsGiven
from app.cli.rest import Api
from app.cli.terminal import arguments
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document, Output

OF_BASELINE = ("node_name", "node_uuid", "state", "since", "differences")
OF_NODE = ("baseline_name", "state", "since", "differences")
#: Prefix of the fields of BIOS settings in rules.
BIOS = "bios."
Baseline = Annotated[str, typer.Argument(metavar="BASELINE", help="UUID, or name")]


class Remedy(StrEnum):
    """Verb that runs the steps of a remedy."""

    CLEAN = "clean"
    SERVICE = "service"


def nodes(
    api: Api,
    output: Output,
    baseline: Baseline,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only those that are: complies, differs or unknown")
    ] = None,
    limit: Limit = None,
) -> None:
    """List the nodes of a baseline, with the differences of each and their begin."""
    items = api.every("baselines", baseline, "nodes", limit=limit, state=state)
    output.items((_row(output, item) for item in items), OF_BASELINE)


def compliance(api: Api, output: Output, node: Node) -> None:
    """List the baselines of a node, with its differences from each and their begin."""
    items = api.get("nodes", node, "compliance")["compliance"]
    output.items([_row(output, item) for item in items], OF_NODE)


def remedy(
    api: Api,
    output: Output,
    baseline: Baseline,
    verb: Annotated[
        Remedy, typer.Argument(help="clean for manageable nodes, service for active ones")
    ] = Remedy.CLEAN,
    *,
    steps: StepsGiven = None,
    runbook: Annotated[str | None, typer.Option(help="Run the steps of this runbook")] = None,
    expressions: bulk.Where = None,
    **options: object,
) -> None:
    """
    Roll out a remedy over the nodes that differ from a baseline; shows its plan, and asks.

    Without --steps and --runbook, it applies the BIOS settings that rules with "=" expect.
    """
    if steps and runbook:
        raise Usage("--steps and --runbook: give one of them")
    document = api.get("baselines", baseline)
    step_list = None
    if steps:
        step_list = arguments.document("--steps", steps)
    elif not runbook:
        step_list = [_settings_step(document)]
        if output.people:
            settings = step_list[0]["args"]["settings"]
            output.say(
                "applies BIOS settings: "
                + ", ".join(f"{setting['name']}={setting['value']}" for setting in settings)
            )
    differing = f'differs="{document["name"]}"'
    chosen_nodes = dict(bulk.filters_of([differing, *(expressions or ())]))
    fields = {
        "target": str(verb), "nodes": chosen_nodes, f"{verb}_steps": step_list, "runbook": runbook,
    }  # fmt: skip
    if options["description"] is None:
        options["description"] = f"remedy for baseline {document['name']}"
    rollouts.create(api, output, fields, options)


def _settings_step(baseline: Document) -> Document:
    """Return the step that applies the BIOS settings of a baseline. Raises Usage: it has none."""
    settings = [
        {"name": rule["field"].removeprefix(BIOS), "value": rule["value"]}
        for rule in baseline["expected"]
        if rule["field"].startswith(BIOS) and rule["operator"] == "="
    ]
    if not settings:
        raise Usage(
            f'baseline {baseline["name"]} expects no BIOS settings by "=": give --steps or'
            " --runbook, as for firmware, whose steps have the address of the update"
        )
    return {"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}


def _row(output: Output, item: Document) -> Document:
    if not output.people:
        return item
    return {**item, "differences": "; ".join(map(_phrase, item["differences"]))}


def _phrase(difference: Document) -> str:
    actual, expected = difference["actual"], difference["expected"]
    values = ",".join(map(_shown, expected)) if isinstance(expected, list) else _shown(expected)
    fact = "unknown" if actual is None else _shown(actual)
    return f"{difference['field']} {fact} (expected {difference['operator']} {values})"


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
