"""Output of the demo: a live table on a terminal, plain lines elsewhere."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from app.cli.terminal import styles
from app.models import OperationState
from workers.demo.client import Line

#: Seconds between two lines of progress without a terminal.
PLAIN_INTERVAL = 2.0
#: Number of events below the table.
EVENTS = 8
#: State of an operation -> note in the table.
NOTES = {
    OperationState.QUEUED: "due",
    OperationState.RUNNING: "conductor works",
    OperationState.WAITING: "machine works",
    OperationState.HELD: "operator's turn",
}

#: Node UUID -> note that replaces the one of the operation's state.
Notes = Mapping[str, str]


class View(ABC):
    """Output of one run."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._start = time.monotonic()

    def clock(self) -> str:
        return f"{time.monotonic() - self._start:5.1f} s"

    @abstractmethod
    def say(self, event: str) -> None:
        """Print an event."""

    @abstractmethod
    def show(self, title: str, lines: Sequence[Line], notes: Notes) -> None:
        """Print the states of the nodes."""

    @abstractmethod
    def close(self) -> None:
        """End the output; the last table remains on the terminal."""


def make(console: Console) -> View:
    live = console.is_terminal and not console.is_dumb_terminal
    return Terminal(console) if live else Plain(console)


class Plain(View):
    """One line for each event, and one for progress every PLAIN_INTERVAL."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._last_line = ("", 0.0)

    def say(self, event: str) -> None:
        self.console.print(f"{self.clock()}  {event}", markup=False, soft_wrap=True)

    def show(self, title: str, lines: Sequence[Line], notes: Notes) -> None:
        done_steps, total = (
            sum(line.done_steps for line in lines),
            sum(line.total for line in lines),
        )
        shown_progress, shown_at = self._last_line
        progress = f"{title}: {done_steps} of {total} steps done"
        if progress != shown_progress and time.monotonic() - shown_at >= PLAIN_INTERVAL:
            self._last_line = (progress, time.monotonic())
            self.say(progress)

    def close(self) -> None:
        """Do nothing: every line is printed already."""


class Terminal(View):
    """A table that is redrawn at each change, with the last events below it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._table: RenderableType = ""
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def say(self, event: str) -> None:
        self._events.append(f"{self.clock()}  {event}")
        self._draw()

    def show(self, title: str, lines: Sequence[Line], notes: Notes) -> None:
        heading = f"Ingot demo   {self.clock()}   {title}"
        table = Table(
            title=heading,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            expand=True,
        )
        for name, share in COLUMNS.items():
            table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=share)
        for line in lines:
            table.add_row(*cells(line, notes.get(line.uuid, "")))
        self._table = table
        self._draw()

    def _draw(self) -> None:
        events = [Text(event) for event in self._events]
        self._live.update(Group(self._table, *events), refresh=True)

    def close(self) -> None:
        self._live.stop()


#: Column -> its share of the width, or None for the width of its content.
COLUMNS: Mapping[str, int | None] = {
    "node": None, "state": None, "power": None, "conductor": None, "step": 4, "k/n": None,
    "": 2, "note": 5,
}  # fmt: skip


def cells(line: Line, note: str) -> tuple[RenderableType, ...]:
    """Return the cells of a node in the table."""
    style = "red" if line.last_error or line.maintenance else ""
    text = line.last_error or note
    if not text and line.active:
        text = NOTES.get(OperationState(line.operation), "")
    return (
        Text(line.name),
        Text(line.provision_state, style=styles.of("provision_state", line.provision_state)),
        Text(line.power_state.removeprefix("power ")),
        Text(line.conductor),
        Text(line.step.partition(".")[2]),
        Text(f"{line.done_steps}/{line.total}" if line.total else "", justify="right"),
        ProgressBar(
            total=max(line.total, 1),
            completed=line.done_steps,
            complete_style=styles.UNDER_WAY,
            finished_style=styles.OVER,
        ),
        Text(text, style=style),
    )


def format_span(seconds: Sequence[float]) -> tuple[str, str]:
    """Format the shortest and the longest of several durations."""
    return (f"{min(seconds):.1f} s", f"{max(seconds):.1f} s") if seconds else ("-", "-")


def summary(console: Console, rows: Sequence[Sequence[str]]) -> None:
    """Print the final table: phases, number of machines, durations."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in ("", "machines", "first after", "all after"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table)
