"""
Conversion of a driver's return value or exception to an outcome that can be recorded.

Drivers may be third-party code, so every value and every exception is converted. A value that
cannot be recorded fails the step with the code `defect`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from drivers.core.errors import FailureCode, HardwareError
from drivers.core.steps import Done, Failed, Hold, Outcome, Wait

#: Longest `poll_after` or `timeout` of a step, in seconds: a year.
LONGEST = 366 * 86400.0
#: Most bytes of JSON in a result or progress; most characters of a failure's reason.
MOST_JSON, MOST_TEXT = 4 << 20, 8192
#: Most characters of the reason of a wait, which is shown among other facts.
MOST_REASON = 1000


class Unusable(Exception):
    """A driver returned a value that is no outcome, or an outcome with an invalid field."""


def checked(outcome: object) -> Outcome:
    """
    Return the outcome that a driver returned, safe to record; None becomes `Done()`.

    Raises Unusable.
    """
    match outcome:
        case None:
            return Done()
        case Done():
            result, size = _json(outcome, "result")
            # the step has succeeded: only its report is too long
            return Done(result if size <= MOST_JSON else {"not_kept": f"{size} bytes"})
        case Wait():
            return replace(
                outcome,
                progress=checked_progress(outcome),
                poll_after=_seconds(outcome, "poll_after"),
                timeout=_seconds(outcome, "timeout"),
                reason=_reason(outcome),
            )
        case Hold():
            return replace(outcome, progress=checked_progress(outcome))
        case Failed():
            for field, kind in (("reason", str), ("code", str), ("retryable", bool)):
                if not isinstance(getattr(outcome, field), kind):
                    raise _wrong(outcome, field, f"must be a {kind.__name__}")
            return replace(outcome, reason=_text(outcome.reason), code=_text(outcome.code))
    raise Unusable(f"it returned {_shown(outcome)}, which is not an outcome")


def failure(label: str, error: BaseException) -> Failed:
    """
    Convert the exception of a step, given by its label, to `Failed`.

    A HardwareError has its own code. Every other exception is a defect of the driver, and not
    retryable, except MemoryError.
    """
    if isinstance(error, HardwareError):
        try:
            return checked(Failed(str(error), error.code, error.retryable))  # type: ignore[return-value]
        except Exception as unusable:  # an exception class of the driver that is itself defective
            error = unusable
    message = _message(error)
    if not isinstance(error, Unusable):
        message = f"{type(error).__name__}: {message}"
    return Failed(
        f"{label} has a defect: {message}", FailureCode.DEFECT, isinstance(error, MemoryError)
    )


def checked_progress(outcome: Wait | Hold) -> Mapping[str, Any]:
    """Return the progress of an outcome, safe to record. Raises Unusable."""
    progress, size = _json(outcome, "progress")
    if size > MOST_JSON:
        raise Unusable(
            f"it returned {type(outcome).__name__} with {size} bytes of progress; at most"
            f" {MOST_JSON} are kept"
        )
    return progress


def _json(outcome: Outcome, field: str) -> tuple[Mapping[str, Any], int]:
    """Return a field, and its size in bytes of JSON."""
    value = getattr(outcome, field)
    if not isinstance(value, Mapping):
        raise _wrong(outcome, field, "must be a mapping")
    value = dict(value)
    try:
        json.dumps(value, allow_nan=False)  # rejects NaN, and objects that orjson would convert
        size = len(orjson.dumps(value))  # rejects values that the database does not store
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(outcome, field, f"is not JSON: {_message(error)}") from error
    return value, size


def _seconds(outcome: Wait, field: str) -> float | None:
    value = getattr(outcome, field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(outcome, field, "must be a number of seconds")
    if not math.isfinite(value) or not 0 <= value <= LONGEST:
        raise _wrong(outcome, field, f"must be between 0 and {LONGEST:.0f} seconds")
    return float(value)


def _reason(outcome: Wait) -> str | None:
    if not isinstance(outcome.reason, str | None):
        raise _wrong(outcome, "reason", "must be a str")
    return outcome.reason and _text(outcome.reason)[:MOST_REASON]


def _wrong(outcome: Outcome, field: str, problem: str) -> Unusable:
    value = _shown(getattr(outcome, field))
    return Unusable(f"it returned {type(outcome).__name__} with {field} {value}: it {problem}")


def _shown(value: object) -> str:
    try:
        return _text(repr(value))[:100]
    except Exception:  # a driver's class with a defective __repr__
        return f"an object of type {type(value).__name__}"


def _message(error: BaseException) -> str:
    try:
        return _text(str(error))
    except Exception:  # a driver's class with a defective __str__
        return "(its message cannot be read)"


def _text(text: str) -> str:
    """Remove the characters that a database refuses; shorten the text to MOST_TEXT."""
    return text.encode(errors="replace").decode().replace("\0", "")[:MOST_TEXT]
