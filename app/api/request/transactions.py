"""
Transactions of the handlers that change something.

The work and its traces are one transaction: the record for the audit, and, if the client may repeat
the request, its key and answer.
"""

from collections.abc import Callable

from flask import Response
from sqlalchemy.orm import Session

from app.api.request import auditing, repeats
from app.api.request.context import RequestContext
from app.db.transactions import retrying
from app.requests.locked_nodes import retry_while_locked


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

    return retry_while_locked(process.settings.conductor, lambda: retrying(attempt))
