"""
The BMC governor: all traffic to a BMC passes through it, with any protocol.

It grants turns, one command at a time per BMC, by urgency, with a minimum gap between commands, and
keeps one connection per BMC. A circuit breaker pauses commands to a BMC that does not answer, so
that its timeouts delay no other node; the pauses double.
"""

import heapq
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from drivers.core.errors import HardwareError, Unreachable

#: Number of BMCs that an ending process logs out from in parallel.
LOGOUT_THREADS = 16


class Urgency(IntEnum):
    """Order of waiting commands; a lower value gets its turn first."""

    ORDER = 0  # commands of operations and of the API
    SYNC = 1  # reads of the power sync


#: Receives the facts of a command: the BMC's address, the urgency (lower case), the result and the
#: seconds. Results: answered, error (answered with one), unanswered; breaker, busy: not sent.
Observe = Callable[[str, str, str, float], None]


@dataclass(slots=True)
class Bmc:
    """State of one BMC in this process."""

    address: str
    #: protocol state kept between commands, owned by the client that set it; None after a command
    #: without an answer
    connection: Any = None
    failures: int = 0  # consecutive commands without an answer
    open_until: float = 0.0  # on `Bmcs.clock`; until then the circuit breaker refuses commands
    last_error: str = ""  # of the last command without an answer
    _busy: bool = False
    _free_since: float = 0.0  # end of the last command, on `Bmcs.clock`
    _queue: list[tuple[int, int]] = field(default_factory=list)  # tickets: (urgency, number)
    _changed: threading.Condition = field(default_factory=threading.Condition)


@dataclass(slots=True)
class Bmcs:
    """All BMCs of this process, by address."""

    gap: float = 0.0  # least seconds between two commands to one BMC
    trip_after: int = 3  # consecutive unanswered commands that open the circuit breaker
    cool_down: float = 5.0  # seconds of the first pause; doubles with each unanswered command
    cool_down_max: float = 120.0  # seconds
    clock: Callable[[], float] = time.monotonic
    observe: Observe = lambda _address, _urgency, _result, _seconds: None
    _bmcs: dict[str, Bmc] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tickets: Iterator[int] = field(default_factory=itertools.count)

    def get(self, address: str) -> Bmc:
        with self._lock:
            return self._bmcs.setdefault(address, Bmc(address))

    @contextmanager
    def turn(
        self,
        address: str,
        urgency: Urgency = Urgency.ORDER,
        max_wait: float = 60.0,
        gap: float | None = None,
    ) -> Iterator[Bmc]:
        """
        Hold a BMC's turn: exclusive use for one command.

        max_wait: seconds to wait for the turn. gap: least seconds since the last command; None:
        `self.gap`. An `Unreachable` raised inside counts as an unanswered command, and drops the
        connection.

        Raises Unreachable: the circuit breaker is open, or the turn did not come in time.
        """
        bmc = self.get(address)
        self._refuse_if_open(bmc, urgency)
        ticket = self._queue_up(bmc, urgency)
        with bmc._changed:
            is_ours = bmc._changed.wait_for(lambda: self._take(bmc, ticket), timeout=max_wait)
        if not is_ours:
            self._give_up(bmc, ticket)
            raise self._late(bmc, urgency, max_wait)
        pause = self._pause(bmc, self.gap if gap is None else gap)
        with self._held(bmc, urgency, pause):
            time.sleep(pause)
            yield bmc

    @asynccontextmanager
    async def async_turn(
        self, address: str, urgency: Urgency = Urgency.SYNC, max_wait: float = 60.0
    ) -> AsyncIterator[Bmc]:
        """Hold a BMC's turn in a coroutine; shares the queue with the threads of `turn`."""
        import asyncio  # here: it takes as long to load as all other imports of `drivers`

        bmc = self.get(address)
        self._refuse_if_open(bmc, urgency)
        ticket = self._queue_up(bmc, urgency)
        deadline = self.clock() + max_wait
        try:
            while not self._take(bmc, ticket):
                if self.clock() > deadline:
                    raise self._late(bmc, urgency, max_wait)
                await asyncio.sleep(0.02)
        except BaseException:  # also when cancelled: the ticket must not block the queue
            self._give_up(bmc, ticket)
            raise
        pause = self._pause(bmc, self.gap)
        with self._held(bmc, urgency, pause):
            await asyncio.sleep(pause)
            yield bmc

    def log_out(self, seconds: float) -> None:
        """
        End the sessions with all idle BMCs that have answered last, for at most some seconds.

        The other BMCs end their idle sessions themselves. Call it at the end of the process.
        """
        with self._lock:
            idle = [bmc for bmc in self._bmcs.values() if bmc.connection and not bmc.failures]
        deadline = time.monotonic() + seconds
        threads = [
            threading.Thread(target=self._log_out, args=(idle, deadline), daemon=True)
            for _ in range(min(len(idle), LOGOUT_THREADS))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _log_out(self, idle: list[Bmc], deadline: float) -> None:
        """Take BMCs from a list, and end their sessions; `ended` is on time.monotonic."""
        while time.monotonic() < deadline:
            try:
                bmc = idle.pop()
            except IndexError:
                return
            with suppress(HardwareError), self.turn(bmc.address, max_wait=0, gap=0) as turn:
                if log_out := getattr(turn.connection, "log_out", None):
                    log_out(deadline - time.monotonic())

    def _refuse_if_open(self, bmc: Bmc, urgency: Urgency) -> None:
        wait = bmc.open_until - self.clock()
        if wait > 0:
            self._note(bmc, urgency, "breaker")
            raise Unreachable(
                f"BMC {bmc.address} has not answered {bmc.failures} times in a row"
                f" ({bmc.last_error}); it is not asked again for {wait:.0f} s"
            )

    def _late(self, bmc: Bmc, urgency: Urgency, seconds: float) -> Unreachable:
        """Return the error of a turn that did not come within `waited` seconds."""
        self._note(bmc, urgency, "busy")
        return Unreachable(f"BMC {bmc.address} was busy for {seconds:.0f} s")

    def _note(self, bmc: Bmc, urgency: Urgency, result: str, seconds: float = 0.0) -> None:
        self.observe(bmc.address, urgency.name.lower(), result, seconds)

    def _queue_up(self, bmc: Bmc, urgency: Urgency) -> tuple[int, int]:
        ticket = (int(urgency), next(self._tickets))
        with bmc._changed:
            heapq.heappush(bmc._queue, ticket)
        return ticket

    def _take(self, bmc: Bmc, ticket: tuple[int, int]) -> bool:
        """Take the turn if the BMC is free and the ticket is first in the queue."""
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
        return max(0.0, bmc._free_since + gap - self.clock())

    @contextmanager
    def _held(self, bmc: Bmc, urgency: Urgency, pause: float) -> Iterator[None]:
        """
        Record the result of the command sent inside, and pass the turn on.

        pause: seconds that the caller sleeps inside before it sends the command.
        """
        started = self.clock()
        sent_at = started + pause
        try:
            if bmc.open_until > started:  # opened by another command while this one waited
                self._refuse_if_open(bmc, urgency)
            yield
        except Unreachable as error:
            if bmc.open_until <= started:
                self._failed(bmc, str(error))
                self._note(bmc, urgency, "unanswered", self.clock() - sent_at)
            raise
        except HardwareError:
            self._answered(bmc)
            self._note(bmc, urgency, "error", self.clock() - sent_at)
            raise
        else:
            self._answered(bmc)
            self._note(bmc, urgency, "answered", self.clock() - sent_at)
        finally:
            with bmc._changed:
                bmc._busy, bmc._free_since = False, self.clock()
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
