"""The command `ingot top`: the fleet at work, live in a terminal."""

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.cli.operation_progress import duration, since, until
from app.cli.rest import Api
from app.cli.terminal import styles
from app.cli.terminal.consoles import console, text
from app.cli.terminal.errors import Failure
from app.cli.terminal.output import Document, Output

#: Most current steps that are read.
STEPS = 200
#: Lines of the screen without the tables' rows: states, counts, heads of tables, blank lines.
FRAME = 10


def top(
    api: Api,
    output: Output,
    *,
    interval: Annotated[
        float, typer.Option(min=0.2, help="Seconds between two pictures", metavar="SECONDS")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one picture, as without a terminal")
    ] = False,
) -> None:
    """Show the fleet live: states, current steps, queues and conductors; until Ctrl-C."""
    snapshot = read(api)
    screen = console(output.colour)
    if not output.people:
        output.item(snapshot)
    elif once or not screen.is_terminal:
        screen.print(Group(*pictures(snapshot)))
    else:
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            _follow(api, live, snapshot, interval)


def read(api: Api) -> Document:
    """
    Read what is shown, in four requests.

    `service` is None if the caller may not see it. Raises Failure.
    """
    snapshot: Document = {
        "nodes": api.get("provision_states"),
        "operations": api.get("operations", "current", limit=STEPS),
        "queues": api.get("operations", "queues")["queues"],
    }
    try:
        snapshot["service"] = api.get("service")
    except Failure:
        api.root()  # raises Failure if the service is away
        snapshot["service"] = None
    return snapshot


def _follow(api: Api, live: Live, snapshot: Document, interval: float) -> None:
    """Draw until Ctrl-C; while the service does not answer, the last picture stays."""
    trouble = ""
    try:
        while True:
            height = max(live.console.height - FRAME, 4)
            live.update(Group(*pictures(snapshot, trouble, height)), refresh=True)
            time.sleep(interval)
            try:
                snapshot, trouble = read(api), ""
            except Failure as failure:
                trouble = str(failure)
    except KeyboardInterrupt:
        return


def pictures(snapshot: Document, trouble: str = "", rows: int = STEPS) -> Iterator[RenderableType]:
    """Yield the parts of a picture. trouble: why it is old. rows: most lines of its tables."""
    if trouble:
        yield text(trouble, styles.TROUBLE)
    yield _states(snapshot["nodes"])
    yield _counts(snapshot["operations"]["counts"])
    for queue in snapshot["queues"]:
        yield text(_queue(queue))
    service = snapshot["service"]
    if service is not None:
        for part in service["parts"]:
            if not part["healthy"]:
                yield text(f"{part['part']}: {part['reason']}", styles.TROUBLE)
        members = service["conductors"]
        yield Text()
        yield _conductors(members[: max(rows // 2, 3)])
        rows -= min(len(members), max(rows // 2, 3))
    steps = snapshot["operations"]["steps"]
    yield Text()
    if steps:
        yield _steps(steps[:rows])


def _states(nodes: Document) -> Text:
    """Format the number of nodes, in all and by provision state."""
    line = Text(f"{nodes['nodes']} nodes", "bold")
    for entry in nodes["provision_states"]:
        state = entry["provision_state"]
        line.append("  ").append_text(
            text(f"{state} {entry['nodes']}", styles.of("provision_state", state))
        )
    return line


def _counts(counts: Mapping[str, int]) -> Text:
    line = Text(f"{sum(counts.values())} operations", "bold")
    for state, count in counts.items():
        name = "in admission queues" if state == "admission" else state
        line.append("  ").append_text(text(f"{name} {count}", styles.of("state", state)))
    return line


def _queue(queue: Document) -> str:
    group = f" of {queue['conductor_group']}" if queue["conductor_group"] else ""
    return (
        f"{queue['class']}{group}: {queue['queued']} wait for one of {queue['limit']} slots,"
        f" the first one for {since(queue['oldest_at'])}"
    )


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    return table


def _conductors(members: list[Document]) -> Table:
    table = _table("conductor", "group", "state", "nodes", "running", "waiting", "messages", "seen")
    for conductor in members:
        holds, messages = conductor["holds"], conductor["messages"]
        cells: tuple[Any, ...] = (
            conductor["hostname"], conductor["conductor_group"] or "-", conductor["state"],
            conductor["nodes"],
            f"{holds['running']} of {conductor['threads']}", holds["waiting"],
            "?" if messages is None else messages,
            f"{duration(timedelta(seconds=conductor['heartbeat_seconds']))} ago",
        )  # fmt: skip
        style = styles.TROUBLE if conductor["state"] == "lost" else ""
        table.add_row(*(text(str(cell), style) for cell in cells))
    return table


def _steps(steps: list[Document]) -> Table:
    table = _table("node", "operation", "step", "for", "why", "conductor")
    for step in steps:
        cells = (
            step["node_name"] or step["node_uuid"], step["kind"], step["step"],
            since(step["since"]), why(step), step["conductor"] or "",
        )  # fmt: skip
        style = styles.of("state", step["state"])
        table.add_row(
            *(text(cell, style if index == 4 else "") for index, cell in enumerate(cells))
        )
    return table


def why(step: Document) -> str:
    """Explain in a few words why an operation is in its step."""
    limit = f", at most {until(step['deadline_at'])} more" if step["deadline_at"] else ""
    match step["state"]:
        case "running":
            return f"runs{limit}"
        case "held":
            return "held: `unhold` goes on"
        case _ if step["wake_at"]:
            return f"waits, looks again in {until(step['wake_at'])}{limit}"
        case _:
            return f"waits for the agent{limit}"
