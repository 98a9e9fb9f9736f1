"""
Routes by which browsers sign in and out: an addition to Ironic's API.

A session is an API token with a short life, which the browser keeps in a cookie. It begins with
user and password, or with a code of the OpenID provider. A user with several scopes chooses one.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, current_app, g, request
from sqlalchemy.orm import Session

from app.api.authentication import login_attempt, session_cookie, strategies
from app.api.authentication.local_users import LocalUsers
from app.api.declarations.public_paths import CALLBACK
from app.api.openapi.returns import NO_CONTENT, Returns
from app.api.openapi.shapes import BOOLEAN, TEXT, array, exactly, or_null
from app.api.request import auditing, repeats
from app.api.request.routes import Routes
from app.api.schemas.login import Credentials, OidcQuery, ScopeChoice
from app.api.transport.limits import LIMITS, Limits
from app.api.transport.responses import empty, host, json, runtime
from app.api.values.value_types import NoQuery
from app.errors import Invalid, TooMany, Unauthorized
from app.identity import provided, tokens
from app.identity import sessions as service
from app.identity.callers import Account
from app.identity.sessions import BrowserSession

login = Routes("login", "Sessions of browsers")

#: Page to which a browser goes after its login at the provider.
PAGE = "/ui"
REDIRECT = Returns({302: None}, {"Location": "URL to which the browser goes"})
SHOWN = Returns(
    {
        200: exactly(
            {
                "strategy": TEXT,
                "oidc": BOOLEAN,
                "user": or_null(TEXT),
                "scope": or_null(TEXT),
                "scopes": array(TEXT),
            }
        )
    }
)


@login.declare("GET", "/login", returns=SHOWN)
@login.arguments(NoQuery, location="query")
def show_login(_query: Mapping[str, Any]) -> Response:
    """Show how a browser signs in, and the user, scope and other scopes of its session"""
    return _shown(_current())


def _shown(found: BrowserSession | None) -> Response:
    settings = runtime().settings
    is_local = settings.default.auth_strategy == "local"
    return json(
        {
            "strategy": settings.default.auth_strategy,
            "oidc": is_local and bool(settings.oidc.issuer),
            "user": found and found.caller.user_name,
            "scope": found and found.scope,
            "scopes": found.scopes if found else [],
        }
    )


def _current() -> BrowserSession | None:
    """Return the session of the request; None: there is none, or it has ended."""
    text = session_cookie.token_of(request)
    if text is None or runtime().settings.default.auth_strategy != "local":
        return None
    with runtime().read_connection() as connection:
        return service.of(connection, text, g.request_id)


@login.declare("POST", "/login", returns=SHOWN, no_key=repeats.OF_LOGINS)
@login.arguments(Credentials)
def sign_in(body: Mapping[str, Any]) -> Response:
    """
    Begin a session with user and password

    If the user has several scopes, and the request names none, the session has no rights until
    `POST /v1/login/scope` chooses one.
    """
    account = _users().account(request, body["username"], body["password"])
    found, text = _begin(lambda _session: account, body.get("scope"), 200)
    response = _shown(found)
    session_cookie.keep(response, text)
    return response


@login.declare("POST", "/login/scope", returns=SHOWN, no_key=repeats.OF_LOGINS)
@login.arguments(ScopeChoice)
def change_scope(body: Mapping[str, Any]) -> Response:
    """Move the session to another scope of its user"""
    _users()
    before, text = _current(), session_cookie.token_of(request)
    if before is None or text is None:
        raise Unauthorized("There is no session.", session_cookie.challenge(request))
    g.caller = before.caller
    with runtime().transaction() as session:
        found, renewed = service.change_scope(session, text, body["scope"], g.request_id)
        g.caller = found.caller
        auditing.record(session)
    response = _shown(found)
    session_cookie.keep(response, renewed)
    return response


@login.declare("GET", "/login/oidc", returns=REDIRECT)
@login.arguments(OidcQuery, location="query")
def go_to_provider(query: Mapping[str, Any]) -> Response:
    """Send the browser to the OpenID provider"""
    provider, attempt = _users().provider, login_attempt.new(query.get("scope"))
    response = empty(
        302, provider.login_url(_callback(), attempt.state, attempt.nonce, attempt.verifier)
    )
    attempt.keep(response)
    return response


@login.declare(
    "GET",
    "/login/oidc/callback",
    returns=REDIRECT,
    parameters={"code": "Code of the provider", "state": "State of the request to the provider"},
)
def return_from_provider() -> Response:
    """
    Begin a session with a code of the OpenID provider

    Providers add parameters of their own, which are ignored.
    """
    provider, oidc = _users().provider, runtime().settings.oidc
    limits: Limits = current_app.extensions[LIMITS]
    address = limits.clients.key_of(request.environ)
    if seconds := limits.refused_codes.take(address):
        raise TooMany(seconds, "Too many logins of this address were refused; retry later.")
    attempt = _checked_attempt(oidc.issuer)
    code = request.args.get("code", "")
    claims = provider.claims_of_code(_callback(), code, attempt.nonce, attempt.verifier)
    person = provided.person_of(oidc, claims)
    _, text = _begin(lambda session: provided.sign_in(session, oidc, person), attempt.scope, 302)
    response = empty(302, f"{host()}{PAGE}")
    session_cookie.keep(response, text)
    login_attempt.forget(response)
    limits.refused_codes.give_back(address)
    return response


def _checked_attempt(issuer: str) -> login_attempt.Attempt:
    """
    Return the browser's attempt to which the request belongs.

    Raises Unauthorized: there is none, or the provider refused the login.
    """
    attempt, sent = login_attempt.of(request), request.args
    if attempt is None or not hmac.compare_digest(
        attempt.state.encode(), sent.get("state", "").encode()
    ):
        raise Unauthorized("state: this browser has begun no such login; begin it again.")
    if sent.get("iss", issuer) != issuer:
        raise Unauthorized("iss: the answer is that of another OpenID provider.")
    if "error" in sent or not sent.get("code"):
        why = sent.get("error", "there is no code")[:100]
        raise Unauthorized(f"The OpenID provider refused the login: {why}.")
    return attempt


def _callback() -> str:
    return f"{host()}{CALLBACK}"


def _begin(
    account_of: Callable[[Session], Account], scope: str | None, status: int
) -> tuple[BrowserSession, str]:
    """
    Begin a session of a user whose credentials were checked; return it, and the text of its token.

    account_of: returns the user, in the transaction of the session. status: of the answer.

    Raises Unauthorized, Forbidden: see `app.identity.sessions.create`.
    """
    lifetime = runtime().settings.identity.session_lifetime
    with runtime().transaction() as session:
        account = account_of(session)
        auditing.name_user(account.name)
        if before := session_cookie.former(request):
            tokens.end_session(session, before)
        found, text = service.create(session, account, scope, lifetime, g.request_id)
        g.caller = found.caller
        auditing.record(session, status)
    return found, text


@login.declare("POST", "/logout", returns=NO_CONTENT, no_key=repeats.OF_LOGINS)
def sign_out() -> Response:
    """End the session"""
    response = empty()
    session_cookie.forget(response)
    found, text = _current(), session_cookie.token_of(request)
    if found is None or text is None:
        auditing.skip()  # strangers would fill the audit
        return response
    g.caller = found.caller
    with runtime().transaction() as session:
        tokens.end(session, text)
        auditing.record(session)
    return response


def _users() -> LocalUsers:
    """
    Return the users who may have sessions.

    Raises Invalid: there are none.
    """
    strategy = runtime().settings.default.auth_strategy
    if strategy != "local":
        raise Invalid(
            f"[DEFAULT]auth_strategy is {strategy}: sessions need local; send the credentials with"
            " each request"
        )
    users: LocalUsers = current_app.extensions[strategies.AUTHENTICATE]
    return users
