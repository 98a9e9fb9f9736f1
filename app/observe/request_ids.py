"""
Ids of API requests: `req-UUID`, or `req-TRACE-SPAN` for a request that is traced.

Trace and span come from the request's span, in hexadecimal. The id is kept with the operation of
the request, so every process that continues the operation continues its trace, too.
"""

import re
import uuid

_TRACED = re.compile(r"req-([0-9a-f]{32})-([0-9a-f]{16})", re.ASCII)
_VALID = re.compile(r"req-[0-9a-f-]{1,60}", re.ASCII)


def new() -> str:
    """Return the id of a request that is not traced."""
    return f"req-{uuid.uuid4()}"


def of_span(trace: int, span: int) -> str:
    """Return the id of a traced request."""
    return f"req-{trace:032x}-{span:016x}"


def span_of(request_id: str | None) -> tuple[int, int] | None:
    """Return trace and span of a request, if it is traced."""
    match = _TRACED.fullmatch(request_id or "")
    return (int(match[1], 16), int(match[2], 16)) if match else None


def trace_of(request_id: object) -> str | None:
    """Return the trace of a request in hexadecimal, if it is traced."""
    match = _TRACED.fullmatch(request_id) if isinstance(request_id, str) else None
    return match[1] if match else None


def received(value: object) -> str | None:
    """Return a request id from a message, or None if the value is not a request id."""
    return value if isinstance(value, str) and _VALID.fullmatch(value) else None
