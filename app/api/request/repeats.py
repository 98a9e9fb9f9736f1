"""
Requests that a client may repeat: `Idempotency-Key` and the recorded answers.

A client that got no response repeats its request with the same key. The key is recorded in the
transaction of the request (`app.api.request.transactions`), so that the request is executed once,
even if the process dies. A repeated request gets the recorded answer, whether its resource still
exists or not.

Refusals are not recorded: they are rolled back with the transaction and have no effect, so a
repetition is checked as a new request. The draft of the header
(draft-ietf-httpapi-idempotency-key-header, Error Scenarios) leaves them to the server. A kept
refusal would turn "locked, retry" into a final answer, and cost a write for each refused request of
a hostile client.

Routes whose work is not in a transaction refuse the header, and so they do
`If-Match`: a client that relies on a header must learn that it has no effect.
"""

import hashlib
from collections.abc import Callable

from flask import Request, Response
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from werkzeug.exceptions import HTTPException

from app.api.request.context import RequestContext
from app.api.transport.request_body import data_of
from app.api.transport.responses import JSON, empty
from app.db.sealing import data_key_of
from app.errors import Conflict, Invalid, ServiceError, Unavailable
from app.models import Answered
from app.text.masking import Unreadable

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST = 255

IF_MATCH = "If-Match"

#: Reasons for which a route takes no key.
CALLS = "a conductor executes the request at once, and nothing records it for a repetition"
OF_AGENTS = "the requests of agents may be repeated without it"
OF_LOGINS = "a repeated login is a new one"
OF_EVENTS = "events may be repeated without it"
NO_FUNCTIONS = "no driver has vendor functions"
DRY_RUN = "a dry run changes nothing"


def key_of(request: Request) -> str | None:
    """
    Return the key of a request, if it has one.

    Raises Invalid: the key is malformed.
    """
    key = request.headers.get(HEADER)
    if key is not None and not (0 < len(key) <= LONGEST and key.isprintable()):
        raise Invalid(f"{HEADER}: expected 1 to {LONGEST} printable characters")
    return key


def refuse(request: Request, reason: str) -> None:
    """
    Refuse the headers of repeatable and of conditional requests, as they would have no effect.

    Raises Invalid: the request has one of them.
    """
    for header in (HEADER, IF_MATCH):
        if header in request.headers:
            raise Invalid(f"{header}: not taken by this request: {reason}")


def once(context: RequestContext, answer: Callable[[], object]) -> object:
    """
    Return the answer to a request; to a repeated one before anything else is checked.

    The first request may have removed what the checks need. A request that another one with its
    key overtakes fails a check in the same way, and gets the answer, too.
    """
    key = key_of(context.request)
    if key is None:
        return answer()
    if (response := _answer(context, key)) is not None:
        return response
    try:
        return answer()
    except (ServiceError, HTTPException):
        if (response := _answer(context, key)) is not None:
            return response
        raise


def _answer(context: RequestContext, key: str) -> Response | None:
    """
    Return the recorded answer to a key of the caller, if there is one yet.

    Raises Invalid: the key was sent with a different request.
    """
    with context.runtime.reading() as session:
        answered = _recorded(context, session, key)
    return None if answered is None else replayed(context, answered)


def begin(context: RequestContext, session: Session, key: str) -> tuple[Answered, bool]:
    """
    Record a key at the start of the transaction of its request.

    Return its row, and whether the key is new; the row of a known key has the answer. Waits for the
    end of a concurrent request with this key.

    Raises Invalid: the key was sent with a different request.
    """
    row = Answered(
        caller=_owner(context),
        key=key,
        request=_digest(context.request),
        minor=int(context.version),
        status=0,
    )
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        recorded_row = _recorded(context, session, key)
        if recorded_row is None:  # its lifetime has just ended
            raise Unavailable("The request cannot be recorded, please retry.") from None
        return recorded_row, False
    return row, True


def end(row: Answered, answer: Response) -> None:
    """Record the answer to a request, at the end of its transaction."""
    row.status = answer.status_code
    row.location, row.etag = answer.headers.get("Location"), answer.headers.get("ETag")
    row.body = answer.get_data(as_text=True) or None


def replayed(context: RequestContext, answered: Answered) -> Response:
    """
    Return the answer to an executed request again.

    Raises Conflict: no key opens the answer.
    """
    context.audit.skip()
    if isinstance(answered.body, Unreadable):
        raise Conflict(
            f"{HEADER}: this request was executed with status {answered.status}, and its answer"
            f" cannot be decrypted without data key {data_key_of(answered.body)}: read the"
            " resource."
        )
    if answered.body is None:
        answer = empty(answered.status, location=answered.location)
    else:
        answer = Response(answered.body, answered.status, content_type=JSON)
        if answered.location:
            answer.headers["Location"] = answered.location
    if answered.etag:
        answer.headers["ETag"] = answered.etag
    answer.headers[REPLAYED] = "true"
    return answer


def _recorded(context: RequestContext, session: Session, key: str) -> Answered | None:
    """
    Return the row of a key of the caller, if there is one.

    Raises Invalid: the key was sent with a different request.
    """
    row = session.scalar(select(Answered).filter_by(caller=_owner(context), key=key))
    if row is None:
        return None
    if row.request != _digest(context.request):
        raise Invalid(f"{HEADER}: {key!r} was already used with a different request")
    if row.minor not in (None, context.version):  # the answer may have another form
        raise Invalid(f"{HEADER}: {key!r} was already used with API version 1.{row.minor}")
    return row


def _owner(context: RequestContext) -> str:
    requester = context.caller
    return f"{requester.project_id or ''}/{requester.user_id or ''}"


def _digest(request: Request) -> str:
    """
    Return a digest of method, path and body.

    Raises TooLarge.
    """
    parts = (request.method.encode(), request.full_path.encode(), data_of(request))
    return hashlib.blake2b(b"\0".join(parts), digest_size=32).hexdigest()
