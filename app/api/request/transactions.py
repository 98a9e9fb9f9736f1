"""
Transactions of the handlers that change something.

The work and its traces are one transaction: the record for the audit, and, if the client may repeat
the request, its key and answer.
"""

from collections.abc import Callable
from typing import Never

from flask import Response
from sqlalchemy.orm import Session

from app.api.request import auditing, repeats
from app.api.request.context import RequestContext
from app.db.transactions import retrying
from app.errors import Unavailable
from app.observe import log
from app.requests.locked_nodes import retry_while_locked
from drivers.core.errors import SecretsUnavailable

logger = log.RateLimited(log.get(__name__))


def in_transaction(
    context: RequestContext,
    work: Callable[[Session], Response | None],
    answer: Response | None = None,
) -> Response:
    """
    Run `work`, and record the request for the audit, in a transaction; return the answer.

    work: returns the answer, or None if `answer` is that. It is not run if the request has an
    `Idempotency-Key` of an executed request, and retried while the node is reserved for an
    operation.

    Raises Unavailable: the vault does not keep the secrets in the request.
    Raises NodeLocked: see `retry_while_locked`.
    Raises Invalid: the request's key is malformed, or was sent with a different request.
    """
    process, key = context.runtime, repeats.key_of(context.request)

    def attempt() -> Response:
        with process.transaction() as session:
            row, is_new = (None, True) if key is None else repeats.begin(context, session, key)
            if row and not is_new:
                return repeats.replayed(context, row)
            response = work(session) or answer
            assert response is not None
            if row:
                repeats.end(row, response)
            auditing.record(context, session, response.status_code)
            return response

    try:
        return retry_while_locked(
            process.settings.conductor, lambda: process.storing(lambda: retrying(attempt))
        )
    except SecretsUnavailable as error:
        logger.warning("vault.not_stored", detail=str(error))
        raise Unavailable(
            "The vault cannot store the secrets in the request now; nothing was changed."
        ) from None


class _RolledBack(Exception):
    """Carries the answer of a rehearsal out of its transaction, which it rolls back."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


def rehearse(context: RequestContext, work: Callable[[Session], Response]) -> Response:
    """
    Run `work` in a transaction that is rolled back, and return its answer.

    The checks are those of the request without `dry_run`, as the function that runs them is the
    same. Nothing is written: no row, no change event, no audit record. It does not wait for a node
    that is reserved for an operation.

    Raises Invalid: the request has an `Idempotency-Key`, or `If-Match`.
    """
    repeats.refuse(context.request, repeats.DRY_RUN)

    def attempt() -> Never:
        with context.runtime.transaction() as session:
            raise _RolledBack(work(session))

    try:
        retrying(attempt)
    except _RolledBack as rehearsal:
        context.audit.skip()
        return rehearsal.answer
