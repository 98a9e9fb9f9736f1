"""Following an operation to its end, and what is known of its steps."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from app.cli.failures import Failure, NotYet
from app.cli.output import Document
from app.cli.rest import Api
from app.cli.tables import UUID
from app.sentences import joined

#: Seconds between two looks, unless the node comes to rest before.
LOOK = 1.0
#: Between two looks at least, whatever is answered.
BREATH = 0.05
ENDED = ("succeeded", "failed", "aborted")
#: Verbs that go on with, or end, an operation that is there already.
OF_ANOTHER = ("abort", "unhold")


def asked_for(api: Api, node: str, verb: str, request_id: str | None) -> Document | None:
    """The operation that a request led to, or that it was about; None if it needed none."""
    for operation in api.get("nodes", node, "operations")["operations"]:
        if verb in OF_ANOTHER or operation["request_id"] == request_id:
            found: Document = operation
            return found
    return None


def follow(
    api: Api, node: str, uuid: str, seconds: float, show: Callable[[Document], None]
) -> Document:
    """
    The operation with its steps, once it has ended or is held. Raises NotYet, Failure.

    show: called with the operation at every look.
    """
    api, end = api.another(patient=True), time.monotonic() + seconds
    while True:
        operation: Document = api.get("operations", uuid)
        show(operation)
        if operation["state"] in (*ENDED, "held"):
            return operation
        left = end - time.monotonic()
        if left <= 0:
            raise NotYet(
                f"{operation['kind']} of {node} is not over yet; it goes on,"
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
    """The tries of a step, and its last report without marks and UUIDs."""
    told = [f"try {step['attempts']}"] if step["attempts"] > 1 else []
    told += [
        f"{name} {value}"
        for name, value in (step["progress"] or {}).items()
        if isinstance(value, str | int | float)
        and not isinstance(value, bool)
        and not UUID.fullmatch(str(value))
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
