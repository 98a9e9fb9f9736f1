"""
The BMC governor: the one place through which all traffic to a BMC goes.

One command at a time per BMC, most urgent first, a minimum gap between commands, one kept
connection, and a circuit breaker: a BMC that does not answer is left alone for a while that
doubles, so that it costs its own node time and nobody else's. Nothing here knows a protocol.
"""

import heapq
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from drivers.core.errors import HardwareError, Unreachable


class Urgency(IntEnum):
    """Who goes first when several want the same BMC."""

    ORDER = 0
    SYNC = 1


@dataclass(slots=True)
class Bmc:
    """
    What this process knows of one BMC.

    connection: whatever the protocol keeps between commands; the client that put it there is the
        only one to read it. It is dropped when the BMC fails to answer.
    failures: commands in a row without an answer.
    """

    address: str
    connection: Any = None
    failures: int = 0
    open_until: float = 0.0
    last_error: str = ""
    _busy: bool = False
    _last: float = 0.0
    _queue: list[tuple[int, int]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)


@dataclass(slots=True)
class Bmcs:
    """
    All BMCs of this process, by address.

    gap: least seconds between two commands to one BMC.
    trip_after: unanswered commands in a row after which the BMC is left alone.
    cool_down: seconds that it is left alone for at first; doubles up to `cool_down_max`.
    """

    gap: float = 0.0
    trip_after: int = 3
    cool_down: float = 5.0
    cool_down_max: float = 120.0
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, Bmc] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tickets: Iterator[int] = field(default_factory=itertools.count)

    def get(self, address: str) -> Bmc:
        with self._lock:
            return self._known.setdefault(address, Bmc(address))

    @contextmanager
    def turn(
        self,
        address: str,
        urgency: Urgency = Urgency.ORDER,
        patience: float = 60.0,
        gap: float | None = None,
    ) -> Iterator[Bmc]:
        """
        Have the BMC to oneself for one command. gap: instead of that of all BMCs.

        Waits up to `patience` seconds for others to finish. An `Unreachable` raised inside counts
        against the BMC and drops its connection. Raises Unreachable at once while the circuit is
        open, or when the turn does not come.
        """
        bmc = self.get(address)
        self._refuse_if_open(bmc)
        ticket = self._queue_up(bmc, urgency)
        with bmc._changed:
            ours = bmc._changed.wait_for(lambda: self._take(bmc, ticket), timeout=patience)
        if not ours:
            self._give_up(bmc, ticket)
            raise Unreachable(f"BMC {bmc.address} was busy for {patience:.0f} s")
        with self._held(bmc):
            time.sleep(self._pause(bmc, self.gap if gap is None else gap))
            yield bmc

    @asynccontextmanager
    async def async_turn(
        self, address: str, urgency: Urgency = Urgency.SYNC, patience: float = 60.0
    ) -> AsyncIterator[Bmc]:
        """`turn` for a coroutine; shares the queue with threads, and blocks no event loop."""
        import asyncio  # here, as it takes as long to load as all else that `drivers` imports

        bmc = self.get(address)
        self._refuse_if_open(bmc)
        ticket = self._queue_up(bmc, urgency)
        deadline = self.clock() + patience
        try:
            while not self._take(bmc, ticket):
                if self.clock() > deadline:
                    raise Unreachable(f"BMC {bmc.address} was busy for {patience:.0f} s")
                await asyncio.sleep(0.02)
        except BaseException:  # also when cancelled: the ticket must not block the queue
            self._give_up(bmc, ticket)
            raise
        with self._held(bmc):
            await asyncio.sleep(self._pause(bmc, self.gap))
            yield bmc

    def _refuse_if_open(self, bmc: Bmc) -> None:
        wait = bmc.open_until - self.clock()
        if wait > 0:
            raise Unreachable(
                f"BMC {bmc.address} has not answered {bmc.failures} times in a row"
                f" ({bmc.last_error}); next try in {wait:.0f} s"
            )

    def _queue_up(self, bmc: Bmc, urgency: Urgency) -> tuple[int, int]:
        ticket = (int(urgency), next(self._tickets))
        with bmc._changed:
            heapq.heappush(bmc._queue, ticket)
        return ticket

    def _take(self, bmc: Bmc, ticket: tuple[int, int]) -> bool:
        """Take the BMC if it is free and nobody is before us."""
        with bmc._changed:
            if bmc._busy or bmc._queue[0] != ticket:
                return False
            heapq.heappop(bmc._queue)
            bmc._busy = True
            return True

    def _give_up(self, bmc: Bmc, ticket: tuple[int, int]) -> None:
        with bmc._changed:
            if ticket in bmc._queue:
                bmc._queue.remove(ticket)
                heapq.heapify(bmc._queue)
            bmc._changed.notify_all()

    def _pause(self, bmc: Bmc, gap: float) -> float:
        return max(0.0, bmc._last + gap - self.clock())

    @contextmanager
    def _held(self, bmc: Bmc) -> Iterator[None]:
        """Judge the command that is sent inside, and let the next in line go on."""
        started = self.clock()
        try:
            if bmc.open_until > started:  # it failed for another while we stood in line
                self._refuse_if_open(bmc)
            yield
        except Unreachable as error:
            if bmc.open_until <= started:
                self._failed(bmc, str(error))
            raise
        except HardwareError:
            self._answered(bmc)
            raise
        else:
            self._answered(bmc)
        finally:
            with bmc._changed:
                bmc._busy, bmc._last = False, self.clock()
                bmc._changed.notify_all()

    def _answered(self, bmc: Bmc) -> None:
        bmc.failures, bmc.last_error = 0, ""

    def _failed(self, bmc: Bmc, error: str) -> None:
        bmc.connection = None
        bmc.failures += 1
        bmc.last_error = error
        if bmc.failures >= self.trip_after:
            doublings = min(bmc.failures - self.trip_after, 16)
            bmc.open_until = self.clock() + min(self.cool_down * 2**doublings, self.cool_down_max)
