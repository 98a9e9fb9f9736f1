"""
Transactions of the handlers: `in_transaction` for a request that changes something, and
`once_per_key` for its work if a client may repeat it.

A client that got no response repeats its request with the same idempotency key. The key is
recorded in the transaction of the request, so that the request is executed once, even if the
process dies.
"""

import hashlib
from collections.abc import Callable
from typing import TypeVar

from flask import Response, request
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.api import auditing
from app.api.answers import empty, runtime
from app.api.auth import caller
from app.db.transactions import retrying
from app.errors import Invalid
from app.kit.locked_nodes import retry_while_locked
from app.models import Answered

T = TypeVar("T")

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST = 255


def in_transaction(work: Callable[[Session], T]) -> T:
    """
    Run `work`, and record the request for the audit, in a transaction.

    It is retried while the node is reserved for an operation.

    Raises NodeLocked: see `retry_while_locked`.
    """
    process = runtime()

    def attempt() -> T:
        with process.transaction() as session:
            result = work(session)
            status = result.status_code if isinstance(result, Response) else None
            auditing.record(session, status)
            return result

    return retry_while_locked(process.settings.conductor, lambda: retrying(attempt))


def once_per_key(
    work: Callable[[Session], object], answer: Response
) -> Callable[[Session], Response]:
    """
    Return `work` for `in_transaction`, with `answer` as its result; for a known key, replay that.

    Raises Invalid: the key is malformed; when it runs: the key was sent with a different request.
    """
    key = request.headers.get(HEADER)
    if key is not None and not (0 < len(key) <= LONGEST and key.isprintable()):
        raise Invalid(f"{HEADER}: expected 1 to {LONGEST} printable characters")

    def once(session: Session) -> Response:
        known = None if key is None else _recorded(session, key, answer)
        if known is not None:
            return _replayed(known)
        work(session)
        return answer

    return once


def _recorded(session: Session, key: str, answer: Response) -> Answered | None:
    """
    Record a key with the answer to its request; return the row of a known key.

    Raises Invalid: the key was sent with a different request.
    """
    who, digest = caller(), _digest()
    owner = f"{who.project_id or ''}/{who.user_id or ''}"
    row = Answered(
        caller=owner,
        key=key,
        request=digest,
        status=answer.status_code,
        location=answer.headers.get("Location"),
    )
    try:
        with session.begin_nested():  # waits for the end of a concurrent request with this key
            session.add(row)
    except IntegrityError:
        known = session.scalars(select(Answered).filter_by(caller=owner, key=key)).one()
        if known.request != digest:
            raise Invalid(f"{HEADER}: {key!r} was already used with a different request") from None
        return known
    return None


def _replayed(known: Answered) -> Response:
    """Return the answer to an executed request again."""
    auditing.skip()
    replayed = empty(known.status, location=known.location)
    replayed.headers[REPLAYED] = "true"
    return replayed


def _digest() -> str:
    parts = (request.method.encode(), request.full_path.encode(), request.get_data())
    return hashlib.blake2b(b"\0".join(parts), digest_size=32).hexdigest()
