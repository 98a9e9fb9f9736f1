"""
Cookie of a browser's session: an API token that no script can read.

A browser sends it along with the requests of any page of the same site, which is more than this
service: another port, another name of the domain. So it counts for pages of this service only.
"""

import hashlib
from urllib.parse import urlsplit

from flask import Request, Response

from app.api.declarations.public_paths import signs_in
from app.api.transport.host_check import WRITING
from app.errors import Forbidden

COOKIE = "ingot_session"
#: Prefix by which a browser takes a cookie from this host alone, by TLS and for all paths (RFC
#: 6265bis): no other host of the domain can set it.
OF_HOST = "__Host-"
#: Values of Sec-Fetch-Site for requests of this service's pages, and of the user.
OWN = ("same-origin", "none")
#: WWW-Authenticate for pages: at the other one a browser asks for a password in a window.
CHALLENGE, CHALLENGE_OF_PAGES = 'Basic realm="Baremetal API"', 'Bearer realm="Baremetal API"'


def token_of(request: Request, base: str) -> str | None:
    """
    Return the token of the session, if the request has one and is of a page of this service.

    base: URL that links start with, as in all functions of this module.

    Raises Forbidden: the request writes, and has no `Origin`, which `Sites.check` has checked.
    """
    text = request.cookies.get(name_of(COOKIE, base))
    if not text or request.headers.get("Sec-Fetch-Site", OWN[0]) not in OWN:
        return None
    if request.method in WRITING and "Origin" not in request.headers:
        raise Forbidden("Origin: a request that changes something by a session must have it.")
    return text


def keep(response: Response, base: str, text: str, lifetime: float) -> None:
    """Make the browser keep a session for its lifetime, in seconds."""
    set_cookie(response, base, COOKIE, text, int(lifetime))


def forget(response: Response, base: str) -> None:
    """Make the browser delete its session."""
    set_cookie(response, base, COOKIE, "", 0)


def former(request: Request, base: str) -> str | None:
    """Return the token of the session that a browser has before its login, if it has one."""
    return request.cookies.get(name_of(COOKIE, base))


def name_of(cookie: str, base: str) -> str:
    """
    Return the name of a cookie in the browser.

    With TLS it has `OF_HOST`, which demands the path /. Services that share a host have different
    ports or paths, and by those different names.
    """
    parts = urlsplit(base)
    if parts.scheme != "https":
        return cookie
    place = f"{parts.port or ''}{parts.path}"
    suffix = f"_{hashlib.blake2b(place.encode(), digest_size=4).hexdigest()}" if place else ""
    return f"{OF_HOST}{cookie}{suffix}"


def set_cookie(
    response: Response, base: str, name: str, value: str, lifetime: int, *, path: str = "/"
) -> None:
    """
    Set a cookie that no script reads, and that is sent by TLS only, if there is TLS.

    name: see `name_of`. path: without TLS, as this service knows it; that of `[api]public_endpoint`
    stands before it in the browser.
    """
    secure = base.startswith("https:")
    path = "/" if secure else f"{urlsplit(base).path}{path}"
    response.headers["Cache-Control"] = "no-store"
    response.set_cookie(
        name_of(name, base),
        value,
        lifetime,
        path=path,
        secure=secure,
        httponly=True,
        samesite="Lax",
    )


def challenge(request: Request, base: str) -> str:
    """Return the value of WWW-Authenticate in a refusal."""
    by_script = (
        request.headers.get("Sec-Fetch-Dest") == "empty" or name_of(COOKIE, base) in request.cookies
    )
    return CHALLENGE_OF_PAGES if by_script or signs_in(request.path) else CHALLENGE
