"""Rate limits: token buckets by key, such as the address of a client."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

#: Keys that are remembered; the one used longest ago is forgotten, so its bucket is full again.
MOST_KEYS = 10_000


class RateLimit:
    """Allow each key `per_minute` events a minute, and as many at once; with 0 any number."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._clock = per_minute, clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # (tokens, time)

    def take(self, key: str, weight: float = 1) -> float:
        """
        Count an event, and return 0; or return the seconds until it is allowed.

        weight: events that it counts as.
        """
        if not self._size:
            return 0
        weight = min(weight, self._size)
        with self._lock:
            tokens, now = self._tokens(key)
            if tokens < weight:
                return self._seconds_until(weight, tokens)
            self._store(key, tokens - weight, now)
        return 0

    def pause(self, key: str) -> float:
        """
        Return the seconds until an event is allowed, without counting one; 0 if it is allowed now.
        """
        if not self._size:
            return 0
        with self._lock:
            tokens, _ = self._tokens(key)
        return max(self._seconds_until(1, tokens), 0)

    def give_back(self, key: str, weight: float = 1) -> None:
        """Undo `take` for an event that does not count after all."""
        if not self._size:
            return
        with self._lock:
            tokens, now = self._tokens(key)
            self._store(key, min(tokens + weight, self._size), now)

    def _seconds_until(self, amount: float, tokens: float) -> float:
        return (amount - tokens) * 60 / self._size

    def _tokens(self, key: str) -> tuple[float, float]:
        now = self._clock()
        tokens, updated_at = self._buckets.get(key, (self._size, now))
        return min(tokens + (now - updated_at) * self._size / 60, self._size), now

    def _store(self, key: str, tokens: float, now: float) -> None:
        self._buckets[key] = tokens, now
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)
