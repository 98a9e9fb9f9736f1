"""
Connection of sushy with a BMC by the rules of `http_rules`, and its login.

Import it inside functions: sushy takes half a second to load, and only conductors need it.
"""

import time
from collections.abc import Mapping
from typing import Any

import requests
import sushy
from sushy import auth
from sushy.connector import Connector

from drivers.core.errors import HardwareError, Unexpected, Unreachable
from drivers.core.recording import traffic
from drivers.net import answers
from drivers.net.connections import Adapter, Exchange
from drivers.net.tls import file
from drivers.redfish.transport import bodies
from drivers.redfish.transport.access import Access
from drivers.redfish.transport.command import Command
from drivers.redfish.transport.http_rules import Answer, Failure, Request, conversation, received
from drivers.redfish.transport.peer import Peer


class BmcResponse(requests.Response):
    """Response of a BMC, whose documents are read leniently."""

    def __init__(self, name: str, answer: Answer, document: object) -> None:
        super().__init__()
        self.status_code, self.reason, self.url = answer.status, answer.reason, answer.url
        self.headers.update(answer.headers)
        self._content = answer.body
        self._content_consumed = True
        self._name, self._document = name, document

    def json(self, **_options: object) -> Any:
        """
        Return the document as an object; an error in the form of DSP0266.

        Raises MalformedDocument.
        """
        if self._document is None and self.status_code >= 400:
            error = bodies.error_of(self._name, self.status_code, self.reason, self.content)
            self._document = {"error": error}
        elif self._document is None:
            self._document = bodies.document(self._name, self.content)
        return self._document


class BmcAdapter(Adapter):
    """Adapter of `requests` for one BMC."""

    def __init__(self, access: Access, command: Command) -> None:
        super().__init__()
        self._peer, self._reach, self._command = Peer(access.address), access.reach, command
        self._access = access

    def send(  # type: ignore[override]
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        **options: Any,
    ) -> requests.Response:
        """
        Send a request by the rules of `http_rules`, and read its answer.

        Raises Unexpected, Unreachable, Unconfirmed, Refused.
        """
        first_request = Request(str(request.method), self._peer.url(request.url or ""))
        talk = conversation(self._peer, first_request, self._command.budget.end)
        step = next(talk)
        order = step.order
        self._command.reading = order is None
        try:
            while True:
                try:
                    answer = self._delivered(request, step, timeout, options)
                except Failure as failure:
                    self._record(request, step, failure)
                    step = talk.throw(failure)
                except HardwareError as error:  # an answer that is refused, as a whole
                    self._record(request, step, Failure(str(error), was_sent=True, repeats=0))
                    raise
                else:
                    self._record(request, step, answer)
                    step = talk.send(answer)
        except StopIteration as end:
            answer, document = end.value
        if order and answer.status < 400:
            self._command.accepted = order
        response = BmcResponse(self._peer.name, answer, document)
        response.request = request
        if tag := answer.etag(self._peer.name):
            response.headers["ETag"] = tag
        if location := response.headers.get("Location"):
            response.headers["Location"] = self._peer.path(location)
        return response

    def _record(
        self, request: requests.PreparedRequest, step: Request, end: Answer | Failure
    ) -> None:
        """Record a request of the conversation, if the operation is recorded, without secrets."""
        record = self._command.record
        if record is None:
            return
        token = request.headers.get("X-Auth-Token")

        def mask(text: str) -> str:
            text = self._access.mask(text)
            return text.replace(token, traffic.HIDDEN) if token else text

        body = request.body if step.has_body else None
        facts = step.method, step.url, body
        if isinstance(end, Failure):
            record(traffic.unanswered(*facts, end.words, mask))
        else:
            record(traffic.answered(*facts, (end.status, end.headers, end.body), mask))

    def _delivered(
        self, request: requests.PreparedRequest, step: Request, timeout: Any, options: Any
    ) -> Answer:
        """
        Send a request of the conversation.

        Raises Failure.
        """
        time.sleep(step.pause)
        name, budget = self._peer.name, self._command.budget
        budget.count_request(name)
        try:
            seconds = min(answers.longest_exchange(timeout), budget.seconds_left(name))
        except Unreachable as error:
            raise _failure(name, error, was_sent=False, repeats=0) from None
        exchange = Exchange(name, seconds, self._reach.check)
        sending = _prepared(request, step)
        try:
            with (
                exchange,
                self.exchange(
                    exchange, sending, stream=True, timeout=timeout, **options
                ) as response,
            ):
                body = answers.body_of(response, answers.LONGEST)
        except Unreachable as error:  # at the end of the exchange
            reason = budget.passed(name) if budget.end <= time.monotonic() else error
            raise _failure(name, reason, was_sent=exchange.was_sent, repeats=1) from None
        except requests.RequestException as error:
            raise Failure(
                f"did not answer ({type(error).__name__})",
                was_sent=exchange.was_sent,
                repeats=_repeats(error, exchange),
            ) from None
        budget.count(body)
        raw = Answer(response.status_code, response.reason or "", response.headers, body)
        return received(self._peer, step, raw)


class BmcConnector(Connector):
    """Connector of sushy: credentials in UTF-8, and If-Match by the rules of `http_rules` only."""

    def set_http_basic_auth(self, username: str, password: str) -> None:
        self._session.auth = (username.encode(), password.encode())

    def set_http_session_auth(self, session_auth_token: str) -> None:
        """
        Use the token of a session.

        Raises Unexpected: it is no value of a header.
        """
        if not (session_auth_token.isascii() and session_auth_token.isprintable()):
            raise Unexpected(f"BMC {self._url} sent a malformed X-Auth-Token")
        super().set_http_session_auth(session_auth_token)

    def patch(
        self,
        path: str = "",
        data: object = None,
        headers: Mapping[str, str] | None = None,
        etag: str | None = None,
        **options: object,
    ) -> requests.Response:
        condition = {"If-Match": etag} if etag else {}
        merged = {**(headers or {}), **condition}
        answer: requests.Response = self._op("PATCH", path, data=data, headers=merged, **options)
        return answer


def login(access: Access, command: Command) -> sushy.Sushy:
    """
    Log in to a BMC; return the root resource of sushy.

    Raises exceptions of sushy, HardwareError.
    """
    verify = file(access.verify) if isinstance(access.verify, str) else access.verify
    connector = BmcConnector(
        access.address,
        verify=verify,
        connect_timeout=access.connect_timeout,
        default_request_timeout=access.read_timeout,
    )
    answers.bind(connector._session, BmcAdapter(access, command))
    # of message registries at a URL that the BMC names: refuses all other servers
    public = answers.session(BmcAdapter(access, command))
    public.verify = verify
    return sushy.Sushy(
        access.address,
        root_prefix=access.root,
        auth=_auth(access),
        connector=connector,
        public_connector=public,
    )


class _NoLogin(auth.AuthBase):
    def _do_authenticate(self) -> None:
        """Do nothing: the BMC needs no login."""

    def can_refresh_session(self) -> bool:
        return False


def _auth(access: Access) -> object:
    if access.username is None:
        return _NoLogin()
    if access.auth == "basic":
        return auth.BasicAuth(access.username, access.password)
    kind = auth.SessionAuth if access.auth == "session" else auth.SessionOrBasicAuth
    session = kind(access.username, access.password)
    # sushy logs out in its destructor, also from a BMC that does not answer. BMCs end idle
    # sessions themselves.
    session.close = lambda: None
    return session


def _prepared(request: requests.PreparedRequest, step: Request) -> requests.PreparedRequest:
    """Return a request of a conversation, made of the caller's."""
    prepared = request.copy()
    prepared.method, prepared.url = step.method, step.url
    prepared.headers.update(answers.UNCOMPRESSED)
    if not step.has_body:
        prepared.body = None
        for name in ("Content-Length", "Content-Type", "Transfer-Encoding"):
            prepared.headers.pop(name, None)
    for name, value in step.headers.items():
        if value is None:
            prepared.headers.pop(name, None)
        else:
            prepared.headers[name] = value
    return prepared


def _failure(name: str, error: Unreachable, *, was_sent: bool, repeats: int) -> Failure:
    return Failure(str(error).removeprefix(name).strip(), was_sent=was_sent, repeats=repeats)


def _repeats(error: requests.RequestException, exchange: Exchange) -> int:
    """Return how often a read may be repeated after an error; see `Failure`."""
    is_refused = isinstance(error, requests.exceptions.SSLError) and not exchange.was_sent
    if is_refused or not exchange.connected:
        return 0
    return 1 if isinstance(error, requests.Timeout) else 2
