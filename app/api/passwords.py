"""
Checks of passwords, whose hashes are slow by design.

Accepted passwords are remembered as keyed digests, few passwords are checked at once, outside of
request slots and with a low priority, and few wrong ones of an address.
"""

import hashlib
import hmac
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from flask import Request, g

from app.api.addresses import Clients
from app.config.settings import Api
from app.errors import TooMany
from app.kit.concurrency import Busy, FairSlots, SharedPlaces, yielding_slot
from app.kit.rates import RateLimit

#: Passwords that a process checks at once, and those that are checked or wait for it.
AT_ONCE, CHECKED = 2, 16
#: Accepted passwords that are remembered; then all are forgotten.
REMEMBERED = 10_000
#: Niceness that threads that check passwords have in addition: requests get the processor first.
NICER = 10


def basic(request: Request) -> tuple[str, str] | None:
    """Return user and password of HTTP Basic; None: the request has none."""
    given = request.authorization
    if given is None or given.type != "basic" or given.username is None:
        return None
    return given.username, given.password or ""


def password_checks(api: Api) -> "PasswordChecks":
    """Return the checks with the limits of the settings."""
    return PasswordChecks(Clients(api.trusted_proxies), RateLimit(api.wrong_passwords_per_minute))


class PasswordChecks:
    """Checks of one process. wrong: limit of wrong passwords by address."""

    def __init__(self, clients: Clients, wrong: RateLimit) -> None:
        self._key = os.urandom(32)
        self._accepted: dict[str, bytes] = {}  # user -> digest of hash and password
        self._clients, self._wrong = clients, wrong
        self._at_once, self._places = FairSlots(AT_ONCE), SharedPlaces(CHECKED)
        self._threads = ThreadPoolExecutor(AT_ONCE, "password", initializer=_be_nice)

    def verify(
        self,
        request: Request,
        user: str,
        password: str,
        stored: bytes | None,
        is_right: Callable[[], bool],
    ) -> bool:
        """
        Verify a password. stored: hash of the user's password; None: the user has none.

        is_right: the slow check, in the same time for known and unknown users, by another thread.
        It is left out for a password that was accepted with the same hash.

        Raises TooMany: this address sent too many wrong passwords.
        Raises Busy: too many passwords are being checked.
        """
        known = b"" if stored is None else stored
        digest = hmac.digest(self._key, known + b"\0" + password.encode(), hashlib.sha256)
        if self._is_accepted(user, digest):
            return True
        address = self._clients.key_of(request.environ)
        if seconds := self._wrong.take(address):
            raise TooMany(seconds, "Too many wrong passwords were sent; retry later.")
        right = False
        try:
            with yielding_slot(self._places, address), self._at_once.hold(address):
                # another request may have verified the same password meanwhile
                right = self._is_accepted(user, digest) or self._threads.submit(is_right).result()
        except Busy:
            self._wrong.give_back(address)
            raise
        if right:
            self._wrong.give_back(address)
            if len(self._accepted) >= REMEMBERED:
                self._accepted.clear()
            self._accepted[user] = digest
            g.logged_in = True  # for the audit
        elif stored is not None:
            g.claimed_user = user  # for the audit; other names may be mistyped passwords
        return right

    def _is_accepted(self, user: str, digest: bytes) -> bool:
        return hmac.compare_digest(self._accepted.get(user, b""), digest)


def _be_nice() -> None:
    """Lower the priority of this thread alone, as Linux has one for each."""
    own = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + NICER)
