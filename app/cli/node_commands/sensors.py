"""Command that shows the sensors of a machine."""

from typing import Annotated

import typer

from app.cli.commands import Node
from app.cli.rest import Api
from app.cli.terminal.output import Document, Output, moment

COLUMNS = ("name", "kind", "reading", "unit", "health", "least", "most")


def sensors(
    api: Api,
    output: Output,
    node: Node,
    *,
    now: Annotated[
        bool, typer.Option("--now", help="Read the BMC now, instead of the last readings")
    ] = False,
) -> None:
    """Show the last readings of a node's sensors, with the least and the most of those kept."""
    if now:
        readings = api.get("nodes", node, "management", "sensors")["sensors"]
        output.items(readings, COLUMNS[:5])
        return
    answer = api.get("nodes", node, "sensors")
    values = answer["history"]["values"]
    if output.people:
        output.say(_summary(answer))
    output.items(
        [
            {**reading, **_extremes(values.get(reading["name"], []))}
            for reading in answer["sensors"]
        ],
        COLUMNS,
    )


def _extremes(values: list[float | None]) -> Document:
    numbers = [value for value in values if value is not None]
    return {"least": min(numbers, default=None), "most": max(numbers, default=None)}


def _summary(answer: Document) -> str:
    failure = f"The last read failed: {answer['error']}" if answer["error"] else ""
    if answer["read_at"] is None:
        return failure or "The sensors were never read: see [sensor_data]send_sensor_data."
    return f"Read at {moment(answer['read_at'])}, health {answer['health']}. {failure}".strip()
