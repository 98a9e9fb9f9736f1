"""
Following an operation: each step is told as it ends, and the one under way with its progress.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.output import cell, console
from app.cli.rest import Api, Document, Failure, NotYet
from app.sentences import joined

#: Seconds between two looks, unless the node comes to rest before.
LOOK = 1.0
#: Between two looks at least, whatever is answered.
BREATH = 0.05
ENDED = ("succeeded", "failed", "aborted")
STEP_ENDED = ("done", "failed", "skipped", "aborted")
#: Verbs that go on with, or end, an operation that is there already.
OF_ANOTHER = ("abort", "unhold")


def asked_for(api: Api, node: str, verb: str, request_id: str | None) -> Document | None:
    """The operation that a request led to, or that it was about; None if it needed none."""
    for operation in api.get("nodes", node, "operations")["operations"]:
        if verb in OF_ANOTHER or operation["request_id"] == request_id:
            found: Document = operation
            return found
    return None


def follow(api: Api, node: str, uuid: str, seconds: float) -> Document:
    """The operation with its steps, once it has ended or is held. Raises NotYet, Failure."""
    api, end = api.patient(), time.monotonic() + seconds
    with Display(node) as display:
        while True:
            operation: Document = api.get("operations", uuid)
            display.show(operation)
            if operation["state"] in (*ENDED, "held"):
                return operation
            left = end - time.monotonic()
            if left <= 0:
                raise NotYet(
                    f"{operation['kind']} of {node} is not over after {seconds:g} s; it goes on,"
                    f" operation {uuid}{_in(under_way(operation))}"
                )
            began = time.monotonic()
            api.get("nodes", node, "states", wait=min(LOOK, left))
            time.sleep(max(0, BREATH - (time.monotonic() - began)))


def judge(operation: Document, node: str, verb: str) -> None:
    """Raise Failure unless an operation came to what was asked for; NotYet if it is held."""
    state, kind, error = operation["state"], operation["kind"], operation["error"] or {}
    if state == "held":
        raise NotYet(
            f"{kind} of {node} is held{_in(under_way(operation))}:"
            f" `ingot node provision-state {node} unhold` goes on, `abort` ends it"
        )
    if state == "failed" or (state == "aborted" and verb != "abort"):
        said = joined(error.get("message"), error.get("hint"))
        raise Failure(f"{kind} of {node} {state}{': ' if said else ''}{said}")


def label(step: Mapping[str, Any]) -> str:
    return f"{step['interface']}.{step['step']}"


def under_way(operation: Mapping[str, Any]) -> Document | None:
    """The step that an operation is at; None once it has ended."""
    if operation["state"] in ENDED:
        return None
    at = operation["cursor"]
    return next((step for step in operation["steps"] if step["position"] == at), None)


def seconds_of(step: Mapping[str, Any]) -> float | None:
    """How long a step took; None while it runs."""
    if not step["started_at"] or not step["finished_at"]:
        return None
    began, ended = (datetime.fromisoformat(step[name]) for name in ("started_at", "finished_at"))
    return round((ended - began).total_seconds(), 1)


def progress_of(step: Mapping[str, Any]) -> str:
    """What is known of a step under way: tries, and what it last reported, but for marks."""
    told = [f"try {step['attempts']}"] if step["attempts"] > 1 else []
    told += [
        f"{name} {value}"
        for name, value in (step["progress"] or {}).items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    return ", ".join([step["state"], *told])


def clock_of(operation: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """
    How long a step has been under way, and how long it may be: no agent tells how far it is.

    Times are the service's; where its clock and ours differ, so does what is told.
    """
    if not step["started_at"]:
        return ""
    now, began = datetime.now(UTC), _moment(step["started_at"])
    told = f", for {_duration(now - began)}"
    limit = step["deadline_at"] or operation["deadline_at"]
    return told + (f", at most {_duration(_moment(limit) - now)} more" if limit else "")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _duration(span: timedelta) -> str:
    minutes, seconds = divmod(max(int(span.total_seconds()), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def place_of(queued: Mapping[str, Any]) -> str:
    """Where an operation stands that has not yet begun."""
    return (
        f"number {queued['place']} of {queued['queued']} in the queue for one of"
        f" {queued['limit']} slots ({queued['class']})"
    )


def _in(step: Mapping[str, Any] | None) -> str:
    return f", in step {label(step)}" if step else ""


class Display:
    """
    On standard error: a line for each step that has ended, and on a terminal a bar below them.

    A step that is run again is told again.
    """

    def __init__(self, node: str) -> None:
        self._console = console(stderr=True)
        self._told: set[tuple[int, str | None]] = set()
        self._queued = False
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), TextColumn("{task.fields[now]}"),
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
        """What has become of an operation since it was shown last."""
        steps = operation["steps"]
        ended = [step for step in steps if step["state"] in STEP_ENDED]
        for step in ended:
            known = (step["position"], step["finished_at"])
            if known not in self._told:
                self._told.add(known)
                self._console.print(cell("", _line(step, len(steps))))
        now, queued = under_way(operation), operation.get("admission")
        told = f"{label(now)}: {progress_of(now)}{clock_of(operation, now)}" if now else ""
        if queued:
            told = place_of(queued)
            if not self._queued:
                self._console.print(told)
        self._queued = bool(queued)
        self._bar.update(self._task, total=len(steps), completed=len(ended), now=told)


def _line(step: Mapping[str, Any], of: int) -> str:
    took = seconds_of(step)
    words = f"{step['position'] + 1}/{of} {label(step)} {step['state']}"
    words += f" in {took:g} s" if took is not None else ""
    error = step["error"] if step["state"] == "failed" else None
    return f"{words}: {' '.join(error.split())}" if error else words
