"""
Requests that may be repeated: a client that lost the answer asks again with the same key.

The key is written in the transaction that does the work, so that the work is done once, whatever
dies in between.
"""

import hashlib
from collections.abc import Callable

from flask import Response, request
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.api.answers import empty, runtime
from app.api.auth import caller
from app.errors import Invalid, ServiceError
from app.inventory.nodes import when_free
from app.models import Answered

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST = 255


def once(work: Callable[[Session], object], answer: Response) -> Response:  # noqa: C901 - one branch per outcome of a repeated request
    """
    Do `work` in a transaction, and answer; or only answer, when the request's key was seen before.

    Raises what `when_free` and `work` raise, and Invalid for a key that came with another request.
    """
    key = request.headers.get(HEADER)
    if key is None:
        when_free(runtime(), work)
        return answer
    if not 0 < len(key) <= LONGEST or not key.isprintable():
        raise Invalid(f"{HEADER}: expected 1 to {LONGEST} printable characters")
    asking = caller()
    whose = f"{asking.project_id or ''}/{asking.user_id or ''}"
    row = Answered(
        caller=whose,
        key=key,
        request=_digest(),
        status=answer.status_code,
        location=answer.headers.get("Location"),
    )

    def look(session: Session) -> Answered | None:
        return session.scalar(select(Answered).filter_by(caller=whose, key=key))

    def work_once(session: Session) -> Answered | None:
        known = look(session)
        if known is None:
            work(session)
            session.add(row)
        return known

    try:
        known = when_free(runtime(), work_once)
    except IntegrityError:  # the same key came at the same time, and its work is done by now
        known = when_free(runtime(), work_once)
    except ServiceError:  # perhaps because it was done while this waited for the node
        known = when_free(runtime(), look)
        if known is None:
            raise
    if known is None:
        return answer
    if known.request != row.request:
        raise Invalid(f"{HEADER}: {key!r} came with another request before")
    replayed = empty(known.status, location=known.location)
    replayed.headers[REPLAYED] = "true"
    return replayed


def _digest() -> str:
    parts = (request.method.encode(), request.full_path.encode(), request.get_data())
    return hashlib.blake2b(b"\0".join(parts), digest_size=32).hexdigest()
