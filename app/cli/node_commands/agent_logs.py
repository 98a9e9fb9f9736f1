"""Command for the kept logs of agents."""

import os
from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands import Node
from app.cli.rest import Api
from app.cli.terminal import times
from app.cli.terminal.errors import Failure, Usage
from app.cli.terminal.output import Output
from app.cli.terminal.times import Since

COLUMNS = ("kept_at", "kind", "conductor", "name", "operation")


def agent_logs(
    api: Api,
    output: Output,
    node: Node,
    name: Annotated[str | None, typer.Argument(help="Name of a log: download it")] = None,
    *,
    since: Since = None,
    file: Annotated[
        Path | None, typer.Option(help="Path of the downloaded file; default: its name")
    ] = None,
) -> None:
    """List the logs that operations have kept of a node's agents; with a name, download one."""
    if name is None:
        logs = api.get("nodes", node, "agent-logs")["agent-logs"]
        output.items(times.recent(logs, since, key="kept_at"), COLUMNS)
        return
    path = file or Path(Path(name).name)
    if path.exists():
        raise Usage(f"--file: {path} exists")
    archive = api.request("GET", "nodes", node, "agent-logs", name).content
    try:
        with open(path, "xb", opener=lambda entry, flags: os.open(entry, flags, 0o600)) as target:
            target.write(archive)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    output.result({"file": str(path), "bytes": len(archive)}, f"{path}: {len(archive)} bytes")
