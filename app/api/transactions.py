"""
Transactions of the handlers: `in_transaction` for a request that changes something, and
`answer_once_per_key` for one that a client may repeat.

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
from app.errors import Invalid, ServiceError
from app.kit.locked_nodes import retry_while_locked
from app.models import Answered

T = TypeVar("T")

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST = 255


def in_transaction(work: Callable[[Session], T]) -> T:
    """
    Run `work`, and record the request for the audit, in a transaction.

    Raises also the errors of `retried_transaction`.
    """

    def audited(session: Session) -> T:
        result = work(session)
        auditing.record(session)
        return result

    return retried_transaction(audited)


def retried_transaction(work: Callable[[Session], T]) -> T:
    """
    Run `work` in a transaction; retry it while the node is reserved for an operation.

    Raises NodeLocked: see `retry_while_locked`.
    """
    process = runtime()

    def attempt() -> T:
        with process.transaction() as session:
            return work(session)

    return retry_while_locked(process.settings.conductor, lambda: retrying(attempt))


def answer_once_per_key(work: Callable[[Session], object], answer: Response) -> Response:  # noqa: C901 - one branch per outcome of a repeated request
    """
    Execute `work` in a transaction and return `answer`; for a known key, replay the response.

    Raises Invalid: the key is malformed, or was sent with a different request.
    Raises also the errors of `in_transaction` and `work`.
    """

    def audited(session: Session) -> None:
        work(session)
        auditing.record(session, answer.status_code)

    key = request.headers.get(HEADER)
    if key is None:
        retried_transaction(audited)
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
            audited(session)
            session.add(row)
        return known

    try:
        known = retried_transaction(work_once)
    except IntegrityError:  # a concurrent request with the same key has been committed
        known = retried_transaction(work_once)
    except ServiceError:  # perhaps such a request succeeded while this one waited for the node
        known = retried_transaction(find)
        if known is None:
            raise
    if known is None:
        return answer
    if known.request != row.request:
        raise Invalid(f"{HEADER}: {key!r} was already used with a different request")
    auditing.skip()
    replayed = empty(known.status, location=known.location)
    replayed.headers[REPLAYED] = "true"
    return replayed


def _digest() -> str:
    parts = (request.method.encode(), request.full_path.encode(), request.get_data())
    return hashlib.blake2b(b"\0".join(parts), digest_size=32).hexdigest()
