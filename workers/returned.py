"""
What a step's call returned or raised, as an outcome that can be recorded.

Drivers are not all ours: every value and every exception ends the step with a typed outcome. What
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

#: The longest pause or timeout, in seconds, that a step may ask for: a year.
LONGEST = 366 * 86400.0
#: Bytes of JSON that a step may keep, and characters of a failure's reason.
MOST_JSON, MOST_TEXT = 4 << 20, 8192


class Unusable(Exception):
    """A driver returned something that is not an outcome, or has a field of a wrong type."""


def checked(returned: Any) -> Outcome:
    """The outcome that a driver returned, safe to record; None is `Done()`. Raises Unusable."""
    match returned:
        case None:
            return Done()
        case Done():
            return replace(returned, result=_json(returned, "result"))
        case Wait():
            return replace(
                returned,
                progress=_json(returned, "progress"),
                poll_after=_seconds(returned, "poll_after"),
                timeout=_seconds(returned, "timeout"),
            )
        case Hold():
            return replace(returned, progress=_json(returned, "progress"))
        case Failed():
            for field, kind in (("reason", str), ("code", str), ("retryable", bool)):
                if not isinstance(getattr(returned, field), kind):
                    raise _wrong(returned, field, f"must be a {kind.__name__}")
            return replace(returned, reason=_text(returned.reason), code=_text(returned.code))
    raise Unusable(f"it returned {_shown(returned)}, which is not an outcome")


def failure(label: str, error: BaseException) -> Failed:
    """
    The failure of a step, by its label, that raised something.

    A HardwareError says itself what it is. All else is a defect of the driver; only a lack of
    memory may be over at the next try.
    """
    if isinstance(error, HardwareError):
        try:
            return checked(Failed(str(error), error.code, error.retryable))  # type: ignore[return-value]
        except Exception as unusable:  # an exception of the driver's own, defective itself
            error = unusable
    told = _said(error)
    if not isinstance(error, Unusable):
        told = f"{type(error).__name__}: {told}"
    return Failed(
        f"{label} has a defect: {told}", FailureCode.DEFECT, isinstance(error, MemoryError)
    )


def _json(outcome: Outcome, field: str) -> Mapping[str, Any]:
    value = getattr(outcome, field)
    if not isinstance(value, Mapping):
        raise _wrong(outcome, field, "must be a mapping")
    value = dict(value)
    try:
        json.dumps(value, allow_nan=False)  # rejects NaN, and objects that would not come back
        size = len(orjson.dumps(value))  # what the database stores: string keys, 64-bit integers
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(outcome, field, f"is not JSON: {_said(error)}") from error
    if size > MOST_JSON:
        raise Unusable(
            f"it returned {type(outcome).__name__} with {size} bytes of {field}; at most"
            f" {MOST_JSON} are kept"
        )
    return value


def _seconds(outcome: Wait, field: str) -> float | None:
    value = getattr(outcome, field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(outcome, field, "must be a number of seconds")
    if not math.isfinite(value) or not 0 <= value <= LONGEST:
        raise _wrong(outcome, field, f"must be between 0 and {LONGEST:.0f} seconds")
    return float(value)


def _wrong(outcome: Outcome, field: str, why: str) -> Unusable:
    value = _shown(getattr(outcome, field))
    return Unusable(f"it returned {type(outcome).__name__} with {field} {value}: it {why}")


def _shown(value: Any) -> str:
    try:
        return _text(repr(value))[:100]
    except Exception:  # not even that works
        return f"an object of type {type(value).__name__}"


def _said(error: BaseException) -> str:
    try:
        return _text(str(error))
    except Exception:  # not even that works
        return "(its message cannot be read)"


def _text(text: str) -> str:
    """Text as any database takes it."""
    return text.encode(errors="replace").decode().replace("\0", "")[:MOST_TEXT]
