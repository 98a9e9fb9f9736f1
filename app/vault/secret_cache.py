"""
Secrets that a process remembers, in memory only.

A secret in the vault never changes, so that a remembered one is right. It is read again now and
then only to learn that it was deleted, at a random time, so that the secrets that were read
together after a start are not read together for ever.
"""

import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: Parts of the time of a secret after which it is read again.
_AGAIN = (0.25, 0.5)


@dataclass(frozen=True, slots=True)
class Remembered:
    """A secret, and its times on the clock of the cache."""

    value: object
    again_at: float  # from then on it is read again, if the vault answers
    until: float


class SecretCache:
    """Secrets by their path; at most `size`, the least recently used ones are forgotten."""

    def __init__(
        self, seconds: float, size: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds, self._size, self._clock = seconds, size, clock
        self._secrets: OrderedDict[str, Remembered] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> Remembered | None:
        """Return a secret that may be used, as far as it is remembered."""
        with self._lock:
            secret = self._secrets.get(path)
            if secret is None:
                return None
            if self._clock() >= secret.until:
                del self._secrets[path]
                return None
            self._secrets.move_to_end(path)
            return secret

    def is_due(self, secret: Remembered) -> bool:
        """Whether a secret is to be read again."""
        return self._clock() >= secret.again_at

    def put(self, path: str, value: object) -> None:
        if not self._seconds:
            return
        now = self._clock()
        again_after = self._seconds * random.uniform(*_AGAIN)  # noqa: S311 - spreads the load
        with self._lock:
            self._secrets[path] = Remembered(value, now + again_after, now + self._seconds)
            self._secrets.move_to_end(path)
            while len(self._secrets) > self._size:
                self._secrets.popitem(last=False)

    def forget(self, path: str) -> None:
        with self._lock:
            self._secrets.pop(path, None)

    def __len__(self) -> int:
        return len(self._secrets)
