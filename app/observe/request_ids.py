"""
Ids of API requests: `req-UUID`, or `req-TRACE-SPAN` for a request that is traced.

Trace and span are those of the request's span, in hexadecimal. The id is kept with the operation of
the request, so every process that continues the operation continues its trace, too.
"""

import re
import uuid
from typing import Any

_TRACED = re.compile(r"req-([0-9a-f]{32})-([0-9a-f]{16})", re.ASCII)
_VALID = re.compile(r"req-[0-9a-f-]{1,60}", re.ASCII)


def new() -> str:
    """Return the id of a request that is not traced."""
    return f"req-{uuid.uuid4()}"


def of_span(trace: int, span: int) -> str:
    """Return the id of a traced request."""
    return f"req-{trace:032x}-{span:016x}"


def span_of(request_id: str | None) -> tuple[int, int] | None:
    """Return trace and span of a traced request; None: it is not traced."""
    found = _TRACED.fullmatch(request_id or "")
    return (int(found[1], 16), int(found[2], 16)) if found else None


def trace_of(request_id: Any) -> str | None:
    """Return the trace of a request in hexadecimal; None: it is not traced."""
    found = _TRACED.fullmatch(request_id) if isinstance(request_id, str) else None
    return found[1] if found else None


def received(value: Any) -> str | None:
    """Return a request id from a message; None: the value is none."""
    return value if isinstance(value, str) and _VALID.fullmatch(value) else None
