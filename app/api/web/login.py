"""
Routes by which browsers sign in and out: an addition to Ironic's API.

A session is an API token with a short life, which the browser keeps in a cookie. It starts with
user and password, or with a code of the OpenID provider. A user with several scopes chooses one.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, request
from sqlalchemy.orm import Session

from app.api.authentication import login_attempt, session_cookie
from app.api.authentication.local_users import LocalUsers
from app.api.declarations.public_paths import CALLBACK
from app.api.openapi.returns import NO_CONTENT, Returns
from app.api.openapi.shapes import BOOLEAN, TEXT, Component, array, exactly, or_null
from app.api.request import auditing, repeats
from app.api.request.context import Query, RequestContext
from app.api.request.routes import Routes
from app.api.schemas.login import Credentials, OidcQuery, ScopeChoice
from app.api.transport.responses import empty, json
from app.errors import Invalid, TooMany, Unauthorized
from app.identity import oidc_users, tokens
from app.identity import sessions as service
from app.identity.authentication import Account
from app.identity.sessions import BrowserSession

login = Routes("login", "Sessions of browsers")

#: Page to which a browser goes after its login at the provider.
PAGE = "/ui"
REDIRECT = Returns({302: None}, {"Location": "URL to which the browser goes"})
SESSION = Component("Session", exactly({
    "strategy": TEXT, "oidc": BOOLEAN, "user": or_null(TEXT), "scope": or_null(TEXT),
    "scopes": array(TEXT),
}))  # fmt: skip
SHOWN = Returns({200: SESSION})


@login.declare("GET", "/login", returns=SHOWN)
def show_login(context: RequestContext) -> Response:
    """Show how a browser signs in, and the user, scope and other scopes of its session"""
    return _shown(context, _current(context))


def _shown(context: RequestContext, browser_session: BrowserSession | None) -> Response:
    settings = context.runtime.settings
    is_local = settings.default.auth_strategy == "local"
    return json(
        {
            "strategy": settings.default.auth_strategy,
            "oidc": is_local and bool(settings.oidc.issuer),
            "user": browser_session and browser_session.caller.user_name,
            "scope": browser_session and browser_session.scope,
            "scopes": browser_session.scopes if browser_session else [],
        }
    )


def _current(context: RequestContext) -> BrowserSession | None:
    """Return the session of the request, unless it has none, or the session has ended."""
    text = session_cookie.token_of(request, context.base_url)
    if text is None or context.runtime.settings.default.auth_strategy != "local":
        return None
    with context.runtime.read_connection() as connection:
        return service.of(connection, text, context.request_id)


@login.declare("POST", "/login", returns=SHOWN, no_key=repeats.OF_LOGINS)
@login.arguments(Credentials)
def sign_in(context: RequestContext, body: Mapping[str, Any]) -> Response:
    """
    Begin a session with user and password

    If the user has several scopes, and the request names none, the session has no rights until
    `POST /v1/login/scope` chooses one.
    """
    account = _users(context).account(request, context.audit, body["username"], body["password"])
    browser_session, text = _begin(context, lambda _session: account, body.get("scope"), 200)
    response = _shown(context, browser_session)
    _keep(context, response, text)
    return response


@login.declare("POST", "/login/scope", returns=SHOWN, no_key=repeats.OF_LOGINS)
@login.arguments(ScopeChoice)
def change_scope(context: RequestContext, body: Mapping[str, Any]) -> Response:
    """Move the session to another scope of its user"""
    _users(context)
    old_session, text = _current(context), session_cookie.token_of(request, context.base_url)
    if old_session is None or text is None:
        raise Unauthorized(
            "There is no session.", session_cookie.challenge(request, context.base_url)
        )
    context.caller = old_session.caller
    with context.runtime.transaction() as session:
        browser_session, new_text = service.change_scope(
            session, text, body["scope"], context.request_id
        )
        context.caller = browser_session.caller
        auditing.record(context, session)
    response = _shown(context, browser_session)
    _keep(context, response, new_text)
    return response


@login.declare("GET", "/login/oidc", returns=REDIRECT)
@login.arguments(OidcQuery, location="query")
def go_to_provider(context: RequestContext, query: Query) -> Response:
    """Send the browser to the OpenID provider"""
    provider, attempt = _users(context).provider, login_attempt.new(query.get("scope"))
    response = empty(
        302, provider.login_url(_callback(context), attempt.state, attempt.nonce, attempt.verifier)
    )
    attempt.keep(response, context.base_url)
    return response


@login.declare(
    "GET",
    "/login/oidc/callback",
    returns=REDIRECT,
    parameters={"code": "Code of the provider", "state": "State of the request to the provider"},
    any_query=True,
)
def return_from_provider(context: RequestContext) -> Response:
    """
    Begin a session with a code of the OpenID provider

    Providers add parameters of their own, which are ignored.
    """
    provider, oidc = _users(context).provider, context.runtime.settings.oidc
    request_limits = context.services.limits
    address = request_limits.clients.key_of(request.environ)
    if seconds := request_limits.refused_codes.take(address):
        raise TooMany(seconds, "Too many logins of this address were refused; retry later.")
    attempt = _checked_attempt(context, oidc.issuer)
    code = request.args.get("code", "")
    claims = provider.claims_of_code(_callback(context), code, attempt.nonce, attempt.verifier)
    person = oidc_users.person_of(oidc, claims)
    _, text = _begin(
        context, lambda session: oidc_users.sign_in(session, oidc, person), attempt.scope, 302
    )
    response = empty(302, f"{context.base_url}{PAGE}")
    _keep(context, response, text)
    login_attempt.forget(response, context.base_url)
    request_limits.refused_codes.give_back(address)
    return response


def _checked_attempt(context: RequestContext, issuer: str) -> login_attempt.Attempt:
    """
    Return the browser's attempt to which the request belongs.

    Raises Unauthorized: there is no such attempt, or the provider refused the login.
    """
    attempt, parameters = login_attempt.of(request, context.base_url), request.args
    if attempt is None or not hmac.compare_digest(
        attempt.state.encode(), parameters.get("state", "").encode()
    ):
        raise Unauthorized("state: this browser has begun no such login; begin it again.")
    if parameters.get("iss", issuer) != issuer:
        raise Unauthorized("iss: the answer is that of another OpenID provider.")
    if "error" in parameters or not parameters.get("code"):
        reason = parameters.get("error", "there is no code")[:100]
        raise Unauthorized(f"The OpenID provider refused the login: {reason}.")
    return attempt


def _callback(context: RequestContext) -> str:
    return f"{context.base_url}{CALLBACK}"


def _keep(context: RequestContext, response: Response, text: str) -> None:
    """Make the browser keep a session as long as its token is valid."""
    lifetime = context.runtime.settings.identity.session_lifetime
    session_cookie.keep(response, context.base_url, text, lifetime)


def _begin(
    context: RequestContext,
    account_of: Callable[[Session], Account],
    scope: str | None,
    status: int,
) -> tuple[BrowserSession, str]:
    """
    Begin a session of a user whose credentials were checked; return it, and the text of its token.

    account_of: returns the user, in the transaction of the session. status: of the answer.

    Raises Unauthorized, Forbidden: see `app.identity.sessions.create`.
    """
    lifetime = context.runtime.settings.identity.session_lifetime
    with context.runtime.transaction() as session:
        account = account_of(session)
        context.audit.name_user(account.name)
        if old_text := session_cookie.former(request, context.base_url):
            tokens.end_session(session, old_text)
        browser_session, text = service.create(
            session, account, scope, lifetime, context.request_id
        )
        context.caller = browser_session.caller
        auditing.record(context, session, status)
    return browser_session, text


@login.declare("POST", "/logout", returns=NO_CONTENT, no_key=repeats.OF_LOGINS, any_query=True)
def sign_out(context: RequestContext) -> Response:
    """End the session"""
    response = empty()
    session_cookie.forget(response, context.base_url)
    browser_session, text = _current(context), session_cookie.token_of(request, context.base_url)
    if browser_session is None or text is None:
        context.audit.skip()  # unauthenticated clients would fill the audit
        return response
    context.caller = browser_session.caller
    with context.runtime.transaction() as session:
        tokens.end(session, text)
        auditing.record(context, session)
    return response


def _users(context: RequestContext) -> LocalUsers:
    """
    Return the users who may have sessions.

    Raises Invalid: there are none.
    """
    strategy = context.runtime.settings.default.auth_strategy
    if strategy != "local":
        raise Invalid(
            f"[DEFAULT]auth_strategy is {strategy}: sessions need local; send the credentials with"
            " each request"
        )
    users = context.services.authenticate
    assert isinstance(users, LocalUsers)
    return users
