"""
Routes by which browsers sign in and out: an addition to Ironic's API.

A session is an API token with a short life, which the browser keeps in a cookie. It begins with
user and password, or with a code of the OpenID provider.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, current_app, g, request
from sqlalchemy.orm import Session

from app.api import auditing, auth, login_attempt, sessions
from app.api.answers import empty, host, json, runtime
from app.api.limits import LIMITS, Limits
from app.api.local_users import LocalUsers
from app.api.openapi.returns import NO_CONTENT, Returns
from app.api.openapi.shapes import BOOLEAN, TEXT, exactly
from app.api.public_paths import CALLBACK
from app.api.routes import Routes
from app.api.schemas.common import NoQuery
from app.api.schemas.login import Credentials, OidcQuery
from app.errors import Forbidden, Invalid, TooMany, Unauthorized
from app.identity import provided, tokens
from app.identity import sessions as service
from app.identity.callers import Account
from app.kit.caller import Caller

login = Routes("login", "Sessions of browsers")

#: Page to which a browser goes after its login at the provider.
PAGE = "/ui"
REDIRECT = Returns({302: None}, {"Location": "URL to which the browser goes"})
WAYS = exactly({"strategy": TEXT, "oidc": BOOLEAN, "user": {"type": ["string", "null"]}})


@login.declare("GET", "/login", returns=WAYS)
@login.arguments(NoQuery, location="query")
def show_login(_query: Mapping[str, Any]) -> Response:
    """Show how a browser signs in, and the user of its session"""
    settings, caller = runtime().settings, _caller()
    is_local = settings.default.auth_strategy == "local"
    return json(
        {
            "strategy": settings.default.auth_strategy,
            "oidc": is_local and bool(settings.oidc.issuer),
            "user": caller and caller.user_name,
        }
    )


def _caller() -> Caller | None:
    """Return the caller of the session; None: there is no session, or it has ended."""
    if runtime().settings.default.auth_strategy != "local":
        return None
    try:
        return _users().of_session(request, g.request_id)
    except (Unauthorized, Forbidden):  # it has ended, or the user has no role any more
        return None


@login.declare("POST", "/login", returns=NO_CONTENT)
@login.arguments(Credentials)
def sign_in(body: Mapping[str, Any]) -> Response:
    """Begin a session with user and password"""
    account = _users().account(request, body["username"], body["password"])
    response = empty()
    _begin(response, lambda _session: account, body.get("project"))
    return response


@login.declare("GET", "/login/oidc", returns=REDIRECT)
@login.arguments(OidcQuery, location="query")
def go_to_provider(query: Mapping[str, Any]) -> Response:
    """Send the browser to the OpenID provider"""
    provider, attempt = _users().provider, login_attempt.new(query.get("project"))
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
    response = empty(302, f"{host()}{PAGE}")
    _begin(response, lambda session: provided.sign_in(session, oidc, person), attempt.project)
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
    response: Response, account_of: Callable[[Session], Account], project: str | None
) -> None:
    """
    Begin a session of a user whose credentials were checked; `response` takes its cookie.

    account_of: returns the user, in the transaction of the session.

    Raises Unauthorized, Invalid, Forbidden: see `app.identity.sessions.create`.
    """
    lifetime = runtime().settings.identity.session_lifetime
    with runtime().transaction() as session:
        account = account_of(session)
        auditing.name_user(account.name)
        g.caller, text = service.create(session, account, project, lifetime, g.request_id)
        auditing.record(session, response.status_code)
    sessions.keep(response, text)


@login.declare("POST", "/logout", returns=NO_CONTENT)
def sign_out() -> Response:
    """End the session"""
    response = empty()
    sessions.forget(response)
    caller, text = _caller(), sessions.token_of(request)
    if caller is None or text is None:
        auditing.skip()  # strangers would fill the audit
        return response
    g.caller = caller
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
    users: LocalUsers = current_app.extensions[auth.AUTHENTICATE]
    return users
