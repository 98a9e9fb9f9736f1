"""
Request slots: limit the requests that a process serves at the same time.

Python threads share one processor, so a process serves few requests at a time. A request that waits
(for a locked node, for a conductor's answer) yields its slot to another one: lists, heartbeats and
lookups never queue behind waiting requests. Clients get slots in rotation: the flood of one client
delays another client by one request.
"""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from app.errors import Unavailable

_mine = threading.local()


class Busy(Unavailable):
    """Too many requests are waiting already."""


class Places:
    """Places of waiting requests: `most` of them, at most `share` per caller (None: no limit)."""

    def __init__(self, most: int, share: int | None = None) -> None:
        self._most, self._share = most, most if share is None else share
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str = "") -> Iterator[None]:
        """Hold a place. Raises Busy: none is free, or the caller has its share."""
        with self._lock:
            if self._most_of(caller) <= self._taken.get(caller, 0):
                raise Busy
            self._taken[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[caller] -= 1
                if not self._taken[caller]:
                    del self._taken[caller]

    @property
    def is_full(self) -> bool:
        """Whether no place is free, for any caller."""
        return not self._free

    def _most_of(self, _caller: str) -> int:
        """Return the most places that a caller may hold now."""
        return self._share if self._free else 0

    @property
    def _free(self) -> int:
        return self._most - self._taken.total()


class SharedPlaces(Places):
    """Places of which a caller may hold as many as are free: other callers always find one."""

    def _most_of(self, _caller: str) -> int:
        return self._free


class FairSlots:
    """
    Slots that waiting clients get in rotation, one each, and not in the order of their requests.

    shared: a client may hold as many slots as are free, so that other clients always find one.
    """

    def __init__(self, slots: int, *, shared: bool = False) -> None:
        self._free, self._shared = slots, shared
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()  # slots of a client
        self._waiting: OrderedDict[str, deque[threading.Event]] = OrderedDict()

    def acquire(self, client: str, timeout: float | None = None) -> bool:
        """
        Take a slot; return whether it was taken.

        timeout: seconds to wait for one; None: no limit.
        """
        with self._lock:
            if self._may_take(client):
                self._take(client)
                return True
            if timeout == 0:
                return False
            given = threading.Event()
            self._waiting.setdefault(client, deque()).append(given)
        if given.wait(timeout):
            return True
        with self._lock:
            if given.is_set():
                return True
            self._waiting[client].remove(given)
            self._forget(client)
        return False

    @contextmanager
    def hold(self, client: str) -> Iterator[None]:
        """Hold a slot; wait for a free one first."""
        self.acquire(client)
        try:
            yield
        finally:
            self.release(client)

    def release(self, client: str) -> None:
        """Give a slot back, from any thread."""
        with self._lock:
            self._free += 1
            self._held[client] -= 1
            self._forget(client)
            for following, queue in self._waiting.items():
                if self._may_take(following):
                    self._take(following)
                    queue.popleft().set()
                    self._waiting.move_to_end(following)
                    self._forget(following)
                    return

    def _may_take(self, client: str) -> bool:
        return self._free > (self._held.get(client, 0) if self._shared else 0)

    def _take(self, client: str) -> None:
        self._free -= 1
        self._held[client] += 1

    def _forget(self, client: str) -> None:
        """Drop the entries of a client that have become empty."""
        if not self._held.get(client):
            self._held.pop(client, None)
        if not self._waiting.get(client):
            self._waiting.pop(client, None)


class RequestSlots:
    """
    Slots for `working` requests that are served, and `waiting` that have yielded theirs.

    queued: most requests that wait for a slot.
    """

    def __init__(self, working: int, waiting: int, queued: int) -> None:
        self._working = FairSlots(working)
        self._waiting = Places(waiting)
        self._queue = SharedPlaces(queued)

    @contextmanager
    def hold(self, client: str = "") -> Iterator[None]:
        """
        Hold a slot in this thread; wait for a free one first.

        Raises Busy: too many requests wait for one, of this client or of all.
        """
        if not self._working.acquire(client, 0):
            with self._queue.hold(client):
                self._working.acquire(client)
        try:
            _mine.slots, _mine.client = self, client
            yield
        finally:
            _mine.slots = None
            self._working.release(client)

    @contextmanager
    def _yielded(self, place: AbstractContextManager[None] | None) -> Iterator[None]:
        client: str = _mine.client
        with place or self._waiting.hold():
            self._working.release(client)
            try:
                yield
            finally:
                self._working.acquire(client)


@contextmanager
def yielding_slot(place: AbstractContextManager[None] | None = None) -> Iterator[None]:
    """
    Yield this thread's request slot while it waits; outside of a request, do nothing.

    place: where the request waits, entered here; None: one of the slots' own places.

    Raises Busy: all places are taken, or the caller has its share.
    """
    slots: RequestSlots | None = getattr(_mine, "slots", None)
    if slots is None:
        yield
        return
    with slots._yielded(place):
        yield
