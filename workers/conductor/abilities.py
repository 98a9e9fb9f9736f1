"""
Abilities of a conductor: proofs, in addition to the heartbeat, that its processes do their work.

A heartbeat comes from a thread of its own, so it proves neither that messages arrive nor that a
thread takes them. So the conductor sends echoes to its own queues, on the way of all other
messages: through the broker, its consumer, and its worker threads. An echo that stays unanswered is
an impediment, unless all threads are at work.
"""

import mmap
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from celery import Celery

from app.broker.breakers import FAILURES
from app.broker.queue import send_task
from app.observe import log

seldom = log.RateLimited(log.get(__name__))

#: Task that a conductor sends to its own queues.
ECHO = "ingot.echo"
#: Least seconds for an echo, as a busy machine may need some.
LEAST = 10.0
#: Seconds between two echoes; the next is sent when the last one is answered.
INTERVAL = 2.5
#: Most seconds until an unanswered echo is sent again, as the broker may have lost it: the first
#: time after two intervals, within `LEAST`, then after twice the pause.
LONGEST_PAUSE = 30.0


class Pulse:
    """
    Times of the last echo and of its last answer, shared with processes that are forked later.

    Times are of the monotonic clock, which all processes of a host share.
    """

    _FORM = struct.Struct("d")

    def __init__(self) -> None:
        self._answered = mmap.mmap(-1, self._FORM.size)
        #: Time at which the oldest unanswered echo was sent, if any is unanswered.
        self._asked_at: float | None = None
        self._echoed_at = 0.0  # time of the last echo
        self._pause = 0.0  # seconds until an unanswered one is sent again
        self.answer()

    def answer(self) -> None:
        """Note that a worker thread has taken a message, from any thread or process."""
        self._answered[:] = self._FORM.pack(time.monotonic())

    def is_due(self, interval: float) -> bool:
        """Return whether an echo is to be sent now; if so, note that it is."""
        moment, unanswered = time.monotonic(), self.silence()
        if moment - self._echoed_at < (self._pause if unanswered else interval):
            return False
        self._echoed_at = moment
        if unanswered:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        else:
            self._asked_at, self._pause = moment, 2 * interval
        return True

    def take_back(self) -> None:
        """Note that the last echo was not sent: it is not one that stays unanswered."""
        if self._asked_at == self._echoed_at:
            self._asked_at = None

    def silence(self) -> float:
        """Seconds for which an echo is unanswered; 0: none is."""
        (answered_at,) = self._FORM.unpack(self._answered[:])
        if self._asked_at is None or answered_at >= self._asked_at:
            return 0.0
        return time.monotonic() - self._asked_at


class SharedText:
    """A short text, shared with processes that are forked later; initially absent."""

    SIZE = 240  # bytes of UTF-8, of which more are cut off

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self.SIZE + 1)

    def set(self, text: str | None) -> None:
        data = (text or "").encode()[: self.SIZE]
        self._memory[:] = bytes([len(data)]) + data.ljust(self.SIZE, b"\0")

    def get(self) -> str | None:
        """Return the text, if there is one."""
        data = self._memory[:]
        return data[1 : data[0] + 1].decode(errors="ignore") or None


class ControlSigns:
    """Signs of the control process for the conductor, in memory that they share."""

    def __init__(self) -> None:
        self.pulse = Pulse()
        #: Reason for which the conductor does not reach its BMCs; none: it does.
        self.network = SharedText()

    def impediment(self, patience: float) -> str | None:
        """Return why the control process does not do its work, or None if it does."""
        silence = self.pulse.silence()
        if silence > patience:
            return f"its control process has taken no message for {silence:.0f} s"
        return None


class StepThreads:
    """
    Threads of a conductor that run steps.

    count: their number. limit: seconds that one step may take.
    """

    def __init__(self, count: int, limit: float) -> None:
        self.pulse = Pulse()
        self._count, self._limit = count, limit
        self._began: dict[int, float] = {}  # thread -> monotonic time at which its step began

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Occupy this thread with a step."""
        thread = threading.get_ident()
        self.pulse.answer()
        self._began[thread] = time.monotonic()
        try:
            yield
        finally:
            del self._began[thread]
            self.pulse.answer()

    def impediment(self, patience: float) -> str | None:
        """
        Return why no step can be started, or None if steps can, or all threads are busy.

        patience: seconds for an echo.
        """
        start_times = list(self._began.values())
        if len(start_times) >= self._count:
            if time.monotonic() - max(start_times) < self._limit:
                return None
            return (
                f"all {self._count} threads are in steps that exceed [conductor]step_timeout"
                f" ({self._limit:.0f} s)"
            )
        silence = self.pulse.silence()
        return f"no thread has taken a message for {silence:.0f} s" if silence > patience else None


class Echoes:
    """
    Sends echoes to the queues of this conductor.

    queues: queue -> its pulse.
    """

    def __init__(self, application: Celery, queues: dict[str, Pulse]) -> None:
        self._application, self._queues = application, queues
        self._ended = threading.Event()

    def start(self, **_: object) -> None:
        threading.Thread(target=self._run, name="echoes", daemon=True).start()

    def stop(self, **_: object) -> None:
        """Send no more of them: a conductor that stops takes none."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL / 2):
            for queue, pulse in self._queues.items():
                if pulse.is_due(INTERVAL):
                    self._send(queue, pulse)

    def _send(self, queue: str, pulse: Pulse) -> None:
        try:
            send_task(self._application, ECHO, (), queue)
        except FAILURES as error:
            pulse.take_back()
            seldom.warning("echo.not_sent", detail=str(error) or type(error).__name__)


def patience(heartbeat_timeout: float) -> float:
    """Return the seconds for an echo to be answered."""
    return max(heartbeat_timeout / 2, LEAST)


def register_echo(application: Celery, answer: Callable[[], None]) -> None:
    """Register the task in a process whose queue gets echoes."""
    application.task(name=ECHO, acks_late=False, ignore_result=True, shared=False)(answer)
