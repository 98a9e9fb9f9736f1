"""
A browser's attempt to sign in by the OpenID provider, kept in a cookie between its two requests.

The cookie has one random value, from which `state`, `nonce` and PKCE's verifier are derived. The
provider and its pages see the first two, and the digest of the third, which disclose nothing about
the cookie. So any process can serve the second request, and only from the browser of the first one.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from flask import Request, Response

from app.api.authentication.session_cookie import name_of, set_cookie
from app.api.declarations.public_paths import OIDC

COOKIE = "ingot_oidc"
#: Seconds that a person has to sign in at the provider.
LIFETIME = 600


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt; its texts are safe in URLs."""

    secret: str
    scope: str | None  # of the session; None if it is chosen later

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        return self._derived("verifier")

    def _derived(self, purpose: str) -> str:
        digest = hmac.digest(self.secret.encode(), purpose.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def keep(self, response: Response, base: str) -> None:
        """Store the attempt in the browser. base: URL that links start with."""
        scope = base64.urlsafe_b64encode((self.scope or "").encode()).decode()
        set_cookie(response, base, COOKIE, f"{self.secret}.{scope}", LIFETIME, path=OIDC)


def new(scope: str | None) -> Attempt:
    return Attempt(secrets.token_urlsafe(32), scope)


def of(request: Request, base: str) -> Attempt | None:
    """Return the attempt of a browser, if there is one."""
    secret, dot, scope = request.cookies.get(name_of(COOKIE, base), "").partition(".")
    try:
        name = base64.urlsafe_b64decode(scope).decode()
    except (binascii.Error, ValueError):
        return None
    return Attempt(secret, name or None) if secret and dot else None


def forget(response: Response, base: str) -> None:
    """Delete the attempt in the browser."""
    set_cookie(response, base, COOKIE, "", 0, path=OIDC)
