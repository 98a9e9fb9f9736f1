"""
Logins to a vault: tokens by AppRole, from a file, or for a service account of Kubernetes.

A token is renewed, or replaced by a new login, when two thirds of its time have passed; a vault
that does not answer then has the rest of the time to come back. Times are of this process's
monotonic clock, begin before the request, and so end before the server's.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from drivers.core.errors import SecretsUnavailable, VaultUnreachable
from drivers.core.target import Options
from drivers.net.vault import Connection

#: Part of a token's time after which it is renewed.
_RENEWED_AT = 2 / 3
#: A renewal that gives less than this part of the first time is the last one: then a new login.
_WORTH = 0.5
#: Seconds between two logins because a token is refused, and after a failed renewal.
PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and how long it is valid."""

    text: str
    begin: float  # on time.monotonic, before it was requested
    seconds: float  # 0: it does not end
    renewable: bool

    def is_over(self, now: float) -> bool:
        return bool(self.seconds) and now >= self.begin + self.seconds

    def is_due(self, now: float) -> bool:
        return bool(self.seconds) and now >= self.begin + self.seconds * _RENEWED_AT


class Login(Protocol):
    """A way to get a token."""

    def __call__(self, connection: Connection, now: float) -> Token:
        """Return a token. now: time of the request. Raises SecretsUnavailable."""


@dataclass(frozen=True, slots=True)
class AppRole:
    mount: str
    role_id: str
    secret_id: str  # empty: the role needs none

    def __call__(self, connection: Connection, now: float) -> Token:
        body = {"role_id": self.role_id}
        if self.secret_id:
            body["secret_id"] = self.secret_id
        return _logged_in(connection, self.mount, body, now)


@dataclass(frozen=True, slots=True)
class Kubernetes:
    mount: str
    role: str
    file: str  # with the JWT, which Kubernetes replaces

    def __call__(self, connection: Connection, now: float) -> Token:
        body = {"role": self.role, "jwt": _content(self.file, "kubernetes_token_file")}
        return _logged_in(connection, self.mount, body, now)


@dataclass(frozen=True, slots=True)
class TokenFile:
    file: str

    def __call__(self, connection: Connection, now: float) -> Token:
        text = _content(self.file, "token_file")
        _, answer = connection.request("login", "GET", "auth/token/lookup-self", token=text)
        facts = answer.get("data")
        if not isinstance(facts, dict):
            raise SecretsUnavailable(f"{connection.server} did not describe the token")
        return Token(text, now, _seconds(facts, "ttl"), facts.get("renewable") is True)


class Tokens:
    """The token of a process: obtained when it is needed first, renewed, replaced."""

    def __init__(
        self, connection: Connection, login: Login, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection, self._login, self._clock = connection, login, clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._first_seconds = 0.0  # of the token as it was obtained
        self._tried_at = self._refused_at = float("-inf")

    def current(self) -> str:
        """
        Return a token that is valid as far as its time tells.

        Raises SecretsUnavailable: there is none, and none can be obtained.
        """
        token = self._token
        if token is None or token.is_over(self._clock()):
            with self._lock:
                token = self._token
                if token is None or token.is_over(self._clock()):
                    token = self._obtain()
        elif token.is_due(self._clock()) and self._lock.acquire(blocking=False):
            try:
                token = self._refresh(token)
            finally:
                self._lock.release()
        return token.text

    def refused(self, text: str) -> bool:
        """Forget a token that the server has refused; False: it is too early for another one."""
        with self._lock:
            if self._token is not None and self._token.text != text:
                return True  # another thread has a new one
            if self._clock() < self._refused_at + PAUSE:
                return False
            self._refused_at, self._token = self._clock(), None
            return True

    def _obtain(self) -> Token:
        token = self._login(self._connection, self._clock())
        self._token, self._first_seconds = token, token.seconds
        return token

    def _refresh(self, token: Token) -> Token:
        """Renew a token, or replace it; keep it while that fails."""
        if self._token is not token:
            return self._token or token
        if self._clock() < self._tried_at + PAUSE:
            return token
        self._tried_at = self._clock()
        try:
            renewed_token = self._renewed(token) if token.renewable else None
            if renewed_token is None or renewed_token.seconds < self._first_seconds * _WORTH:
                return self._obtain()
            self._token = renewed_token
        except SecretsUnavailable:
            return token
        return renewed_token

    def _renewed(self, token: Token) -> Token | None:
        """Return a token with a new time, None if the server does not renew it any more."""
        begin = self._clock()
        try:
            _, answer = self._connection.request(
                "renew", "POST", "auth/token/renew-self", {}, token.text
            )
        except VaultUnreachable:
            raise
        except SecretsUnavailable:
            return None
        return _token(self._connection, answer, begin)


def _logged_in(connection: Connection, mount: str, body: Mapping[str, str], now: float) -> Token:
    _, answer = connection.request("login", "POST", f"auth/{mount}/login", body)
    return _token(connection, answer, now)


def _token(connection: Connection, answer: Mapping[str, Any], begin: float) -> Token:
    """Return the token of an answer. Raises SecretsUnavailable: it has none."""
    facts = answer.get("auth")
    text = facts.get("client_token") if isinstance(facts, dict) else None
    if not isinstance(facts, dict) or not isinstance(text, str) or not text:
        raise SecretsUnavailable(f"{connection.server} gave no token: is auth_mount right?")
    return Token(text, begin, _seconds(facts, "lease_duration"), facts.get("renewable") is True)


def _seconds(facts: Mapping[str, Any], name: str) -> float:
    value = facts.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise SecretsUnavailable(f"the vault gave a token with {name} {value!r}")
    return float(value)


def _content(file: str, option: str) -> str:
    """Return the text of a file. Raises SecretsUnavailable."""
    try:
        text = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretsUnavailable(f"[vault]{option}: {file}: {type(error).__name__}") from None
    if not text or not text.isprintable() or not text.isascii():
        raise SecretsUnavailable(f"[vault]{option}: {file} has no token")
    return text


def login_of(settings: Options) -> Login:
    """Return the login that the settings of the group [vault] describe."""
    options = settings["vault"]
    method = options["auth_method"]
    mount = options["auth_mount"] or method
    if method == "approle":
        return AppRole(mount, options["role_id"], options["secret_id"])
    if method == "kubernetes":
        return Kubernetes(mount, options["kubernetes_role"], options["kubernetes_token_file"])
    return TokenFile(options["token_file"])
