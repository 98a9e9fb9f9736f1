"""
Authentication of callers: none (noauth), an htpasswd file (http_basic), the database (local), or
Keystone.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from flask import Request

from app.api.authentication import session_cookie
from app.api.authentication.audit_trail import AuditTrail
from app.api.authentication.local_users import LocalUsers
from app.api.authentication.passwords import PasswordChecks, basic
from app.api.declarations.public_paths import is_public
from app.api.transport.responses import base_url
from app.config.settings import Api, SettingsError
from app.errors import Unauthorized
from app.identity.caller import Caller
from app.runtime import Runtime

OPTION = "[DEFAULT]http_basic_auth_user_file"
BCRYPT = re.compile(r"\$2[aby]\$\d\d\$")

#: Identify the caller of a request, and note for the audit how it logs in.
Authenticate = Callable[[Request, AuditTrail], Caller]


def make(runtime: Runtime, checks: PasswordChecks) -> Authenticate:
    """
    Return the authentication of `[DEFAULT]auth_strategy`. checks: of passwords.

    Raises SettingsError.
    """
    settings = runtime.settings
    strategy = settings.default.auth_strategy
    if strategy == "keystone":
        from app.api.authentication.keystone import Keystone  # imported here: half a second

        return Keystone(settings.keystone_authtoken)
    if strategy == "http_basic":
        return HttpBasic(settings.api, settings.default.http_basic_auth_user_file, checks)
    if strategy == "local":
        return LocalUsers(runtime, checks)
    return lambda _request, trail: Caller(request_id=trail.request_id)


class HttpBasic:
    """HTTP basic authentication with the bcrypt hashes of an htpasswd file, read at start."""

    def __init__(self, api: Api, path: str, checks: PasswordChecks) -> None:
        import bcrypt  # imported here: not needed by other strategies

        self._check = bcrypt.checkpw
        self._hashes = read_htpasswd(path)
        # for unknown users: the hash that takes longest to check
        self._decoy = max(self._hashes.values(), key=_cost, default=None)
        self._checks, self._api = checks, api

    def __call__(self, request: Request, trail: AuditTrail) -> Caller:
        credentials = basic(request)
        if credentials is None and is_public(request.path):
            return Caller(request_id=trail.request_id)
        if credentials is None or not self._verify(request, trail, *credentials):
            challenge = session_cookie.challenge(request, base_url(self._api, request))
            raise Unauthorized("Authorization required.", challenge)
        return Caller(user_id=credentials[0], request_id=trail.request_id)

    def _verify(self, request: Request, trail: AuditTrail, user: str, password: str) -> bool:
        password_hash = self._hashes.get(user)
        return self._checks.verify(
            request,
            trail,
            user,
            password,
            password_hash=password_hash,
            is_right=lambda: self._is_right(user, password),
        )

    def _is_right(self, user: str, password: str) -> bool:
        password_hash = self._hashes.get(user, self._decoy)
        is_match = password_hash is not None and self._check(password.encode()[:72], password_hash)
        return is_match and user in self._hashes


def _cost(password_hash: bytes) -> int:
    return int(password_hash.split(b"$")[2])


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
        user, colon, password_hash = line.strip().partition(":")
        if not line.strip():
            continue
        if not colon or not BCRYPT.match(password_hash):
            raise SettingsError(f"{OPTION} {path}: line {number} is not user:bcrypt-hash")
        hashes[user] = password_hash.encode()
    return hashes
