"""
Authentication of the users in the database: API tokens, also of browsers' sessions, and passwords.

Each request reads the user's row and roles, so changes have effect at once, in all processes.
"""

from datetime import UTC
from typing import TYPE_CHECKING

from flask import Request
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.api.authentication import session_cookie
from app.api.authentication.audit_trail import AuditTrail
from app.api.authentication.passwords import PasswordChecks, basic
from app.api.declarations.public_paths import is_public
from app.api.transport.responses import base_url
from app.db.clock import moment
from app.errors import Invalid, Unauthorized
from app.identity import authentication, oidc_users, passwords, tokens
from app.identity.authentication import Account, Token
from app.identity.caller import Caller
from app.observe import log
from app.requests.rate_limit import RateLimit
from app.runtime import Runtime

if TYPE_CHECKING:
    from app.identity.oidc_provider import Provider

seldom = log.RateLimited(log.get(__name__))


class LocalUsers:
    """
    Identify callers by a token in X-Auth-Token or `Authorization: Bearer`, else by a password, else
    by the cookie of a session.
    """

    def __init__(self, runtime: Runtime, checks: PasswordChecks) -> None:
        self._runtime, self._checks = runtime, checks
        # once a minute, also while the database refuses the record
        self._uses = RateLimit(60 / tokens.USE_RECORDED)
        self._oidc = runtime.settings.oidc
        self._provider = _provider(runtime) if self._oidc.issuer else None
        passwords.decoy()

    @property
    def provider(self) -> "Provider":
        """
        The OpenID provider.

        Raises Invalid: the settings have no provider.
        """
        if self._provider is None:
            raise Invalid("[oidc]issuer is not set: there is no OpenID provider to sign in with")
        return self._provider

    def __call__(self, request: Request, trail: AuditTrail) -> Caller:
        request_id = trail.request_id
        if is_public(request.path):
            return Caller(request_id=request_id)
        if text := _token(request):
            if self._oidc.bearer_audience and text.count(".") == 2:
                return self._with_jwt(request, text, request_id)
            return self._with_token(request, text, request_id)
        if credentials := basic(request):
            account = self.account(request, trail, *credentials)
            with self._runtime.read_connection() as connection:
                return _in_scope(connection, account, request, request_id)
        if caller := self.of_session(request, request_id):
            return caller
        raise Unauthorized(
            "The request needs a token in X-Auth-Token or Authorization: Bearer, or user and"
            " password in Authorization: Basic.",
            self._challenge(request),
        )

    def _with_jwt(self, request: Request, text: str, request_id: str) -> Caller:
        """Return the caller of a JWT of the OpenID provider."""
        try:
            person = oidc_users.person_of(self._oidc, self.provider.claims_of_bearer(text))
            with self._runtime.read_connection() as connection:
                account = oidc_users.account_of(connection, person)
                return _in_scope(connection, account, request, request_id)
        except Unauthorized as error:
            raise Unauthorized(str(error), self._challenge(request)) from error

    def of_session(self, request: Request, request_id: str) -> Caller | None:
        """
        Return the caller of a browser's session, if there is one.

        Raises Unauthorized: it has ended.
        Raises Forbidden: the user has no role in its scope any more, or see `sessions.token_of`.
        """
        text = session_cookie.token_of(request, self._base(request))
        return self._with_token(request, text, request_id) if text else None

    def _with_token(self, request: Request, text: str, request_id: str) -> Caller:
        with self._runtime.read_connection() as connection:
            token = authentication.token_of(connection, text)
            if token is None:
                raise Unauthorized(
                    "The token is unknown, has expired or was revoked, or its user is disabled.",
                    self._challenge(request),
                )
            caller = authentication.with_token(connection, token, request_id)
        self._record_use(token)
        return caller

    def _record_use(self, token: Token) -> None:
        if not token.use_is_due or self._uses.take(str(token.id)):
            return
        try:
            with self._runtime.write_connection() as connection:
                tokens.record_use(connection, token.id)
        except SQLAlchemyError as error:  # a read must not fail for its record
            seldom.warning("token.use_not_recorded", token=token.id, detail=str(error))

    def account(self, request: Request, trail: AuditTrail, name: str, password: str) -> Account:
        """
        Return the user of a name and password.

        Raises Unauthorized, and the errors of `PasswordChecks.verify`.
        """
        with self._runtime.read_connection() as connection:
            account = authentication.account_of(connection, name)
        password_hash = account and account.password_hash

        def is_right() -> bool:
            return passwords.matches(password_hash or passwords.decoy(), password) and bool(
                password_hash
            )

        encoded_hash = password_hash.encode() if password_hash else None
        is_accepted = self._checks.verify(
            request, trail, name, password, password_hash=encoded_hash, is_right=is_right
        )
        if not is_accepted or account is None:
            raise Unauthorized(
                "User or password is wrong, or the user is disabled.",
                self._challenge(request),
            )
        return account

    def _base(self, request: Request) -> str:
        return base_url(self._runtime.settings.api, request)

    def _challenge(self, request: Request) -> str:
        return session_cookie.challenge(request, self._base(request))


def _provider(runtime: Runtime) -> "Provider":
    from app.identity.oidc_provider import Provider  # imported here: slow, and few sites have one

    def now() -> int:
        with runtime.reading() as session:
            return int(moment(session).replace(tzinfo=UTC).timestamp())

    return Provider(runtime.settings.oidc, now)


def _in_scope(
    connection: Connection, account: Account, request: Request, request_id: str
) -> Caller:
    project = request.headers.get(authentication.PROJECT)
    return authentication.of_account(connection, account, project, request_id)


def _token(request: Request) -> str | None:
    """Return the token of a request, if it has one."""
    if text := request.headers.get("X-Auth-Token"):
        return text
    authorization = request.authorization
    return authorization.token if authorization and authorization.type == "bearer" else None
