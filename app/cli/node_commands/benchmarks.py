"""Command that lists the numbers that steps have measured on a node."""

from typing import Annotated

import typer

from app.cli.commands import Limit, Node
from app.cli.rest import Api
from app.cli.terminal import times
from app.cli.terminal.output import Output
from app.cli.terminal.times import Since, Until

COLUMNS = ("recorded_at", "step", "metric", "value", "unit")


def benchmarks(
    api: Api,
    output: Output,
    node: Node,
    *,
    metric: Annotated[
        str | None, typer.Option(help="Only this metric, as fio.read, with those below it")
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
) -> None:
    """List the numbers that steps have measured on a node, the newest first."""
    filters = {
        "metric": metric, "since": times.iso("--since", since),
        "until": times.iso("--until", until),
    }  # fmt: skip
    output.items(api.every("nodes", node, "benchmarks", limit=limit, **filters), COLUMNS)
