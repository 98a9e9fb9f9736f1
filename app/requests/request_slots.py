"""
Request slots: limit the requests that a process serves at the same time.

Python threads share one processor, so a process serves few requests at a time. A request that waits
(for a locked node, for a conductor's answer) yields its slot to another one: lists, heartbeats and
lookups never queue behind waiting requests. Clients get slots in rotation: the flood of one client
delays another client by one request.

A request has a slot twice: as a client's address until its caller is known, then as the caller. So
the tenants behind one address wait for themselves, not for each other. Turns are by time: the next
slot is for the client that has used the least of it, so that a list of all nodes costs as many
turns as it takes.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from app.errors import Unavailable

_mine = threading.local()


class Busy(Unavailable):
    """Too many requests are waiting already."""


class Places:
    """Waiting room for requests: of `capacity` places a client takes at most `max_per_client`."""

    def __init__(self, capacity: int, max_per_client: int | None = None) -> None:
        self._capacity = capacity
        self._max_per_client = capacity if max_per_client is None else max_per_client
        self._lock = threading.Lock()
        self._taken_places: Counter[str] = Counter()
        self._taken_by_groups: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str = "", group: str | None = None) -> Iterator[None]:
        """
        Hold a place.

        group: of callers that together hold as many places as are free: others always find one.

        Raises Busy: none is free, or the caller or its group has its share.
        """
        with self._lock:
            if self._limit_of(caller) <= self._taken_places.get(caller, 0):
                raise Busy
            if group is not None:
                if self._free <= self._taken_by_groups.get(group, 0):
                    raise Busy
                self._taken_by_groups[group] += 1
            self._taken_places[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken_places[caller] -= 1
                if not self._taken_places[caller]:
                    del self._taken_places[caller]
                if group is not None:
                    self._taken_by_groups[group] -= 1
                    if not self._taken_by_groups[group]:
                        del self._taken_by_groups[group]

    @property
    def is_full(self) -> bool:
        """Whether no place is free, for any caller."""
        return not self._free

    def _limit_of(self, _caller: str) -> int:
        """Return the most places that a caller may hold now."""
        return self._max_per_client if self._free else 0

    @property
    def _free(self) -> int:
        return self._capacity - self._taken_places.total()


class SharedPlaces(Places):
    """Places of which a caller may hold as many as are free: other callers always find one."""

    def _limit_of(self, _caller: str) -> int:
        return self._free


class FairSlots:
    """
    Slots that waiting clients get in turns, and not in the order of their requests.

    The next slot is for the client that has held slots for the least time, among those that wait; a
    client that comes, or comes again, starts with the time of the last client that had a turn.

    max_per_client: slots that a client may hold at once; all by default.
    leaves_free: a client may hold as many slots as are free, so that other clients always find one.
    """

    def __init__(
        self,
        slots: int,
        *,
        max_per_client: int | None = None,
        leaves_free: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free, self._max_per_client, self._leaves_free = (
            slots,
            max_per_client or slots,
            leaves_free,
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._slot_times: dict[str, deque[float]] = {}  # times at which a client took its slots
        self._waiting: dict[str, deque[threading.Event]] = {}
        self._used: dict[str, float] = {}  # seconds of each client that holds a slot or waits
        self._turn = 0.0  # seconds of the client that had the last turn

    def acquire(self, client: str, timeout: float | None = None) -> bool:
        """
        Take a slot; return whether it was taken.

        timeout: seconds to wait for one; without a limit by default.
        """
        with self._lock:
            if self._may_take(client):
                self._take(client)
                return True
            if timeout == 0:
                return False
            grant = threading.Event()
            self._waiting.setdefault(client, deque()).append(grant)
            self._used.setdefault(client, self._turn)
        if grant.wait(timeout):
            return True
        with self._lock:
            if grant.is_set():
                return True
            self._waiting[client].remove(grant)
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
            self._used[client] += self._clock() - self._slot_times[client].popleft()
            eligible_clients = [key for key in self._waiting if self._may_take(key)]
            if eligible_clients:
                following = min(eligible_clients, key=self._used.__getitem__)
                self._take(following)
                queue = self._waiting.pop(following)
                queue.popleft().set()
                if queue:  # of clients that have used as much, it is the last one
                    self._waiting[following] = queue
            self._forget(client)

    def used(self, client: str) -> float:
        """Return the seconds that a client has used, to compare clients."""
        with self._lock:
            return self._used.get(client, self._turn)

    def _may_take(self, client: str) -> bool:
        held_slots = len(self._slot_times.get(client, ()))
        return held_slots < self._max_per_client and self._free > (
            held_slots if self._leaves_free else 0
        )

    def _take(self, client: str) -> None:
        self._free -= 1
        self._turn = max(self._turn, self._used.setdefault(client, self._turn))
        self._slot_times.setdefault(client, deque()).append(self._clock())

    def _forget(self, client: str) -> None:
        """Drop the entries of a client that have become empty."""
        if not self._slot_times.get(client):
            self._slot_times.pop(client, None)
        if not self._waiting.get(client):
            self._waiting.pop(client, None)
        if client not in self._slot_times and client not in self._waiting:
            self._used.pop(client, None)


class RequestSlots:
    """
    Slots for requests that are served, and for `waiting` ones that yielded theirs.

    working: requests that are served at once; one more if not all are of the same caller.
    max_queued: most requests that wait for a slot. per_caller: requests of one caller that are
    served at once; `working` by default.
    """

    def __init__(
        self, working: int, waiting: int, max_queued: int, per_caller: int | None = None
    ) -> None:
        self._entering = FairSlots(working)  # by address, until the caller is known
        self._working = FairSlots(working + 1, max_per_client=per_caller or working)  # by caller
        self._waiting = Places(waiting)
        self._queue = SharedPlaces(max_queued)

    @contextmanager
    def hold(self, client: str = "") -> Iterator[None]:
        """
        Hold a slot in this thread as a client, or as the one of `take_turn`; wait for it first.

        Raises Busy: too many requests wait for one, of this client or of all.
        """
        _mine.slots, _mine.slot = self, None
        try:
            self._acquire(self._entering, client)
            yield
        finally:
            _mine.slots = None
            if _mine.slot:
                slots, client = _mine.slot
                slots.release(client)

    def _acquire(self, slots: FairSlots, client: str) -> None:
        """Take a slot instead of the one that this thread holds. Raises Busy: it keeps that one."""
        with ExitStack() as waiting_place:
            is_taken = slots.acquire(client, 0)
            if not is_taken:
                waiting_place.enter_context(self._queue.hold(client))
            if _mine.slot:
                previous_slots, name = _mine.slot
                _mine.slot = None
                previous_slots.release(name)
            if not is_taken:
                slots.acquire(client)
        _mine.slot = slots, client

    @contextmanager
    def _yielded(self, place: AbstractContextManager[None] | None) -> Iterator[None]:
        slots, client = _mine.slot
        with place or self._waiting.hold():
            slots.release(client)
            try:
                yield
            finally:
                slots.acquire(client)


def take_turn(client: str | None) -> None:
    """
    Wait for a slot as the caller of this thread's request, after it was authenticated.

    client: None for a caller without a name, which remains the client of `RequestSlots.hold`.
    Outside of a request, do nothing.

    Raises Busy: see `RequestSlots.hold`.
    """
    slots: RequestSlots | None = getattr(_mine, "slots", None)
    if slots is not None:
        slots._acquire(slots._working, client or _mine.slot[1])


@contextmanager
def yielding_slot(place: AbstractContextManager[None] | None = None) -> Iterator[None]:
    """
    Yield this thread's request slot while it waits; outside of a request, do nothing.

    place: entered while the request waits; by default one of the slots' own places.

    Raises Busy: all places are taken, or the caller has its share.
    """
    slots: RequestSlots | None = getattr(_mine, "slots", None)
    if slots is None:
        yield
        return
    with slots._yielded(place):
        yield
