"""Authentication of callers: none (noauth), an htpasswd file (http_basic), or Keystone."""

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from flask import Request, g

from app.config.settings import Settings, SettingsError
from app.errors import Unauthorized
from app.kit.caller import Caller

OPTION = "[DEFAULT]http_basic_auth_user_file"

Authenticate = Callable[[Request, str], Caller]

#: Paths that need no authentication.
PUBLIC = (
    "/", "/v1", "/v1/lookup", "/v1/continue_inspection", "/healthcheck", "/docs", "/openapi.json",
)  # fmt: skip
PUBLIC_PREFIXES = ("/v1/heartbeat/",)


def caller() -> Caller:
    """Return the caller of the current request."""
    found: Caller = g.caller
    return found


def make(settings: Settings) -> Authenticate:
    """
    Return the authentication of `[DEFAULT]auth_strategy`.

    Raises SettingsError.
    """
    strategy = settings.default.auth_strategy
    if strategy == "keystone":
        from app.api.keystone import Keystone  # imported here: half a second

        return Keystone(settings.keystone_authtoken)
    if strategy == "http_basic":
        return HttpBasic(settings.default.http_basic_auth_user_file)
    return lambda _request, request_id: Caller(request_id=request_id)


class HttpBasic:
    """
    HTTP basic authentication with the bcrypt hashes of an htpasswd file, read at start.

    bcrypt is slow by design, so accepted passwords are cached as keyed digests.
    """

    def __init__(self, path: str) -> None:
        import bcrypt  # imported here: not needed by other strategies

        self._check = bcrypt.checkpw
        self._hashes = read_htpasswd(path)
        self._key = os.urandom(32)
        self._accepted: dict[str, bytes] = {}  # user -> digest of the password

    def __call__(self, request: Request, request_id: str) -> Caller:
        given = request.authorization
        user = given.username if given and given.type == "basic" else None
        if user is None and is_public(request.path):
            return Caller(request_id=request_id)
        if user is None or not self._verify(user, (given and given.password) or ""):
            raise Unauthorized("Authorization required.", 'Basic realm="Baremetal API"')
        return Caller(user_id=user, request_id=request_id)

    def _verify(self, user: str, password: str) -> bool:
        stored = self._hashes.get(user)
        if stored is None:
            return False
        digest = hmac.digest(self._key, password.encode(), hashlib.sha256)
        if hmac.compare_digest(self._accepted.get(user, b""), digest):
            return True
        if not self._check(password.encode()[:72], stored):
            return False
        self._accepted[user] = digest
        return True


def read_htpasswd(path: str) -> Mapping[str, bytes]:
    """
    Read an htpasswd file: user -> bcrypt hash.

    Raises SettingsError: the file is unreadable, or a line is not user:bcrypt-hash.
    """
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise SettingsError(f"{OPTION} {path}: {error.strerror}") from None
    hashes = {}
    for number, line in enumerate(lines, 1):
        user, colon, stored = line.strip().partition(":")
        if not line.strip():
            continue
        if not colon or not stored.startswith(("$2a$", "$2b$", "$2y$")):
            raise SettingsError(f"{OPTION} {path}: line {number} is not user:bcrypt-hash")
        hashes[user] = stored.encode()
    return hashes


def is_public(path: str) -> bool:
    bare = path.removesuffix(".json").removesuffix(".xml")
    return path in PUBLIC or bare in PUBLIC or path.startswith(PUBLIC_PREFIXES)
