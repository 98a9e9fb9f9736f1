"""
Checks of passwords, whose hashes are slow by design.

Accepted passwords are remembered as keyed digests, with the address that sent them. Few passwords
are checked at once, outside of request slots and with a low priority, and few wrong ones in a
minute: further ones are refused before Flask, unless they were accepted from the address before.

Two limits count wrong passwords: that of a user name and an address, and a wider one of an address.
A user who was accepted from the address is not subject to the wider one: many people may have one
address, and one of them cannot stop those whom the service knows from there. No limit is by user
name alone, as anyone could lock a user out from anywhere.
"""

import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Request
from werkzeug.datastructures import Authorization

from app.api.authentication.audit_trail import AuditTrail
from app.api.declarations.public_paths import is_public
from app.api.transport import errors
from app.api.transport.client_addresses import Clients
from app.config.settings import Api
from app.errors import TooMany
from app.requests.rate_limit import RateLimit
from app.requests.request_slots import Busy, FairSlots, SharedPlaces, yielding_slot

#: Passwords that a process checks at once, and those that are checked or wait for it.
AT_ONCE, CHECKED = 2, 16
#: Factor from the limit of a name and an address to that of all names of an address.
WIDER = 10
#: Characters of a user name that count; no user has a longer one.
LONGEST_NAME = 255
#: Accepted passwords that are remembered; then all are forgotten.
REMEMBERED = 10_000
#: Niceness that threads that check passwords have in addition: requests get the processor first.
NICER = 10


class Accepted(NamedTuple):
    """A password that was right."""

    stored: bytes | None  # hash that it was checked with
    digest: bytes  # keyed, of the password


def basic(request: Request) -> tuple[str, str] | None:
    """Return user and password of HTTP Basic, if the request has them."""
    return _user_and_password(request.authorization)


def _user_and_password(authorization: Authorization | None) -> tuple[str, str] | None:
    if authorization is None or authorization.type != "basic" or authorization.username is None:
        return None
    return authorization.username, authorization.password or ""


def password_checks(api: Api) -> "PasswordChecks":
    """Return the checks with the limits of the settings."""
    return PasswordChecks(Clients(api.trusted_proxies), api.wrong_passwords_per_minute)


class PasswordChecks:
    """Checks of one process. per_minute: wrong passwords of a name and an address; 0: no limit."""

    def __init__(self, clients: Clients, per_minute: int) -> None:
        self._key = os.urandom(32)
        self._accepted: dict[tuple[str, str], Accepted] = {}  # by user and address
        self._clients = clients
        self._of_user, self._of_address = RateLimit(per_minute), RateLimit(WIDER * per_minute)
        self._at_once, self._places = FairSlots(AT_ONCE), SharedPlaces(CHECKED)
        self._threads = ThreadPoolExecutor(AT_ONCE, "password", initializer=_be_nice)

    def verify(
        self,
        request: Request,
        trail: AuditTrail,
        user: str,
        password: str,
        *,
        password_hash: bytes | None,
        is_right: Callable[[], bool],
    ) -> bool:
        """
        Verify a password. password_hash: of the user's password, if the user has one.

        is_right: the slow check, in the same time for known and unknown users, by another thread.
        It is left out for a password that was accepted with the same hash.

        Raises TooMany: this address sent too many wrong passwords, for the user or at all.
        Raises Busy: too many passwords are being checked.
        """
        address = self._clients.key_of(request.environ)

        def was_accepted() -> bool:
            accepted_password = self._accepted_from(address, user, password)
            return accepted_password is not None and accepted_password.stored == password_hash

        if was_accepted():
            return True
        is_new = not self._is_user_of(address, user)
        if seconds := self._take(address, user, is_new=is_new):
            raise _too_many(seconds)
        try:
            with yielding_slot(self._places.hold(address)), self._at_once.hold(address):
                # another request may have verified the same password meanwhile
                is_accepted = was_accepted() or self._threads.submit(is_right).result()
        except Busy:
            self._give_back(address, user, is_new=is_new)
            raise
        if is_accepted:
            self._give_back(address, user, is_new=is_new)
            if len(self._accepted) >= REMEMBERED:
                self._accepted.clear()
            self._accepted[user, address] = Accepted(password_hash, self._digest(password))
            trail.logged_in = True
        elif password_hash is not None:
            trail.claimed_user = user  # other names may be mistyped passwords
        return is_accepted

    def middleware(self, inner: WSGIApplication) -> WSGIApplication:
        """Wrap an application: refuse unknown passwords beyond the limits of wrong ones."""

        def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            header = environ.get("HTTP_AUTHORIZATION")
            seconds = 0.0
            if header and not is_public(environ["PATH_INFO"]):
                seconds = self._pause(header, self._clients.key_of(environ))
            if seconds:
                refusal = errors.service_error(_too_many(seconds), environ)
                return refusal(environ, start_response)
            return inner(environ, start_response)

        return application

    def _pause(self, header: str, address: str) -> float:
        """
        Return the seconds until the password of a header may be checked; 0: now.

        That is also 0 for one that was accepted from this address before.
        """
        credentials = _user_and_password(Authorization.from_header(header))
        if credentials is None or self._accepted_from(address, *credentials) is not None:
            return 0
        user = credentials[0]
        seconds = self._of_user.pause(_pair(address, user))
        if not self._is_user_of(address, user):
            seconds = max(seconds, self._of_address.pause(address))
        return seconds

    def _take(self, address: str, user: str, *, is_new: bool) -> float:
        """Count a password; return 0, or the seconds until it may be checked."""
        if seconds := self._of_user.take(_pair(address, user)):
            return seconds
        seconds = self._of_address.take(address) if is_new else 0
        if seconds:
            self._of_user.give_back(_pair(address, user))
        return seconds

    def _give_back(self, address: str, user: str, *, is_new: bool) -> None:
        """Undo `_take` for a password that is not wrong, or was not checked."""
        self._of_user.give_back(_pair(address, user))
        if is_new:
            self._of_address.give_back(address)

    def _is_user_of(self, address: str, user: str) -> bool:
        """Whether a password of the user was accepted from this address before."""
        return (user, address) in self._accepted

    def _accepted_from(self, address: str, user: str, password: str) -> Accepted | None:
        """Return a password if it was accepted from this address; its hash may have changed."""
        accepted_password = self._accepted.get((user, address))
        if accepted_password and accepted_password.digest == self._digest(password):
            return accepted_password
        return None

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), hashlib.sha256)


def _pair(address: str, user: str) -> str:
    """Key of a user name and an address."""
    return f"{address} {user[:LONGEST_NAME]}"


def _too_many(seconds: float) -> TooMany:
    return TooMany(seconds, "Too many wrong passwords were sent; retry later.")


def _be_nice() -> None:
    """Lower the priority of this thread alone, as Linux has one for each."""
    thread_id = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(
            os.PRIO_PROCESS, thread_id, os.getpriority(os.PRIO_PROCESS, thread_id) + NICER
        )
