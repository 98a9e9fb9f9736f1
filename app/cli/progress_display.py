"""Progress display of an operation: a line for each finished step, and a progress bar."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.operation_progress import clock_of, label, place_of, progress_of, seconds_of, under_way
from app.cli.terminal import styles
from app.cli.terminal.consoles import text

STEP_ENDED = ("done", "failed", "skipped", "aborted")


class Display:
    """
    Print a line for each finished step to standard error, and on a terminal a bar below them.

    A step that ran again is printed again.
    """

    def __init__(self, node: str, console: Console) -> None:
        self._console = console
        self._printed: set[tuple[int, str | None]] = set()
        self._queued = False
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(complete_style=styles.UNDER_WAY, finished_style=styles.OVER),
            MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[now]}"),
            console=self._console, transient=True, disable=not self._console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task(node, total=None, now="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, operation: Mapping[str, Any]) -> None:
        """Print the steps that finished since the last call, and update the bar."""
        steps = operation["steps"]
        ended_steps = [step for step in steps if step["state"] in STEP_ENDED]
        for step in ended_steps:
            key = (step["position"], step["finished_at"])
            if key not in self._printed:
                self._printed.add(key)
                style = styles.TROUBLE if step["state"] == "failed" else ""
                self._console.print(text(_line(step, len(steps)), style))
        now, queued = under_way(operation), operation.get("admission")
        status = f"{label(now)}: {progress_of(now)}{clock_of(operation, now)}" if now else ""
        if queued:
            status = place_of(queued)
            if not self._queued:
                self._console.print(status)
        self._queued = bool(queued)
        self._bar.update(self._task, total=len(steps), completed=len(ended_steps), now=status)


def _line(step: Mapping[str, Any], total: int) -> str:
    seconds = seconds_of(step)
    text = f"{step['position'] + 1}/{total} {label(step)} {step['state']}"
    text += f" in {seconds:g} s" if seconds is not None else ""
    error = step["error"] if step["state"] == "failed" else None
    return f"{text}: {' '.join(error.split())}" if error else text
