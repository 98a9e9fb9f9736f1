"""
Idempotency keys: a client that got no response repeats its request with the same key.

The key is recorded in the transaction of the request, so that the request is executed once, even
if the process dies.
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
from app.inventory.nodes import retry_while_locked
from app.models import Answered

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST = 255


def once(work: Callable[[Session], object], answer: Response) -> Response:  # noqa: C901 - one branch per outcome of a repeated request
    """
    Execute `work` in a transaction and return `answer`; for a known key, replay the response.

    Raises Invalid: the key is malformed, or was sent with a different request.
    Raises also the errors of `when_free` and `work`.
    """
    key = request.headers.get(HEADER)
    if key is None:
        retry_while_locked(runtime(), work)
        return answer
    if not 0 < len(key) <= LONGEST or not key.isprintable():
        raise Invalid(f"{HEADER}: expected 1 to {LONGEST} printable characters")
    who = caller()
    owner = f"{who.project_id or ''}/{who.user_id or ''}"
    row = Answered(
        caller=owner,
        key=key,
        request=_digest(),
        status=answer.status_code,
        location=answer.headers.get("Location"),
    )

    def find(session: Session) -> Answered | None:
        return session.scalar(select(Answered).filter_by(caller=owner, key=key))

    def work_once(session: Session) -> Answered | None:
        known = find(session)
        if known is None:
            work(session)
            session.add(row)
        return known

    try:
        known = retry_while_locked(runtime(), work_once)
    except IntegrityError:  # a concurrent request with the same key has been committed
        known = retry_while_locked(runtime(), work_once)
    except ServiceError:  # perhaps such a request succeeded while this one waited for the node
        known = retry_while_locked(runtime(), find)
        if known is None:
            raise
    if known is None:
        return answer
    if known.request != row.request:
        raise Invalid(f"{HEADER}: {key!r} was already used with a different request")
    replayed = empty(known.status, location=known.location)
    replayed.headers[REPLAYED] = "true"
    return replayed


def _digest() -> str:
    parts = (request.method.encode(), request.full_path.encode(), request.get_data())
    return hashlib.blake2b(b"\0".join(parts), digest_size=32).hexdigest()
