"""Follow an operation to its end, and format the state of its steps."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from app.cli.rest import Api
from app.cli.terminal.errors import Busy, Failure, NotYet
from app.cli.terminal.output import Document
from app.cli.terminal.tables import UUID
from app.cli.terminal.times import instant_of
from app.text.sentences import joined

#: Seconds between two polls, unless the node becomes idle earlier.
LOOK = 1.0
#: Shortest time between two polls, in seconds; it doubles, up to LOOK, while answers come at once.
BREATH = 0.05
ENDED = ("succeeded", "failed", "aborted")
#: Verbs that act on the current operation and create none.
OF_ANOTHER = ("abort", "unhold")


def find_operation(api: Api, node: str, verb: str, request_id: str | None) -> Document | None:
    """Find the operation that a request created or acted on, if there is one."""
    for operation in api.get("nodes", node, "operations")["operations"]:
        if verb in OF_ANOTHER or operation["request_id"] == request_id:
            document: Document = operation
            return document
    return None


def follow(
    api: Api, node: str, uuid: str, seconds: float, show: Callable[[Document], None]
) -> Document:
    """
    Poll an operation until it has ended or is held, and return it with its steps.

    seconds: timeout. show: called with the operation after every poll.

    Raises NotYet: the timeout has passed. Raises Failure: the service refused a request.
    """
    api, end = api.another(patient=True), time.monotonic() + seconds
    pause = BREATH
    while True:
        operation: Document = api.get("operations", uuid)
        show(operation)
        if operation["state"] in (*ENDED, "held"):
            return operation
        seconds_left = end - time.monotonic()
        if seconds_left <= 0:
            raise NotYet(
                f"{operation['kind']} of {node} is not over yet; it goes on,"
                f" operation {uuid}{_in(under_way(operation))}"
            )
        start = time.monotonic()
        with suppress(Busy):  # the operation is read again all the same
            api.get("nodes", node, "states", wait=min(LOOK, seconds_left))
        elapsed = time.monotonic() - start
        time.sleep(max(0, pause - elapsed))
        pause = min(2 * pause, LOOK) if elapsed < BREATH else BREATH


def require_success(operation: Document, node: str, verb: str) -> None:
    """Raise NotYet if an operation is held, Failure if it failed or was aborted unexpectedly."""
    state, kind, error = operation["state"], operation["kind"], operation["error"] or {}
    if state == "held":
        raise NotYet(
            f"{kind} of {node} is held{_in(under_way(operation))}:"
            f" `ingot node provision-state {node} unhold` goes on, `abort` ends it"
        )
    if state == "failed" or (state == "aborted" and verb != "abort"):
        detail = joined(error.get("message"), error.get("hint"))
        raise Failure(f"{kind} of {node} {state}{': ' if detail else ''}{detail}")


def label(step: Mapping[str, Any]) -> str:
    return f"{step['interface']}.{step['step']}"


def under_way(operation: Mapping[str, Any]) -> Document | None:
    """Return the current step of an operation; None once it has ended."""
    if operation["state"] in ENDED:
        return None
    cursor = operation["cursor"]
    return next((step for step in operation["steps"] if step["position"] == cursor), None)


def seconds_of(step: Mapping[str, Any]) -> float | None:
    """Return the duration of a step in seconds; None while it runs."""
    if not step["started_at"] or not step["finished_at"]:
        return None
    start, end = (datetime.fromisoformat(step[name]) for name in ("started_at", "finished_at"))
    return round((end - start).total_seconds(), 1)


def progress_of(step: Mapping[str, Any]) -> str:
    """Format the state of a step, its attempts, and its progress without flags and UUIDs."""
    words = [f"try {step['attempts']}"] if step["attempts"] > 1 else []
    words += [
        f"{name} {value}"
        for name, value in (step["progress"] or {}).items()
        if isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and not UUID.fullmatch(str(value))
    ]
    return ", ".join([step["state"], *words])


def clock_of(operation: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """
    Format the elapsed time of a step and the time until its deadline.

    Start and deadline are times of the service's clock; a different local clock shifts both.
    """
    if not step["started_at"]:
        return ""
    elapsed = f", for {since(step['started_at'])}"
    limit = step["deadline_at"] or operation["deadline_at"]
    return elapsed + (f", at most {until(limit)} more" if limit else "")


def since(time_text: str) -> str:
    """Format the time from a moment of the API to now."""
    return duration(datetime.now(UTC) - instant_of(time_text))


def until(time_text: str) -> str:
    """Format the time from now to a moment of the API."""
    return duration(instant_of(time_text) - datetime.now(UTC))


def duration(span: timedelta) -> str:
    minutes, seconds = divmod(max(int(span.total_seconds()), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def place_of(queued: Mapping[str, Any]) -> str:
    """Format the position of an operation in the admission queue."""
    return (
        f"number {queued['place']} of {queued['queued']} in the queue for one of"
        f" {queued['limit']} slots ({queued['class']})"
    )


def _in(step: Mapping[str, object] | None) -> str:
    return f", in step {label(step)}" if step else ""
