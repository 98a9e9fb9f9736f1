"""
Child processes of the supervisor: fork, watch, restart with back-off, stop.

Each child leads its own process group. When it ends, the rest of its group is killed before it may
start again, so two incarnations of one child never run at the same time.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.observe import log
from app.process.parent_death import adopt_orphans, die_with_parent
from workers.supervisor.location import StartError

logger = log.get(__name__)

#: Seconds before a restart: the first one, and the longest.
FIRST_DELAY, LONGEST_DELAY = 0.2, 30.0
#: Seconds of run time after which the delay of a child is reset.
STEADY = 5.0
#: Signals that the supervisor waits for; it has no handlers for them.
AWAITED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass(slots=True)
class Child:
    role: str  # key in the pid file: api, conductors, beat, redis
    name: str
    work: Callable[[], object]  # runs in the forked process
    pid: int | None = None  # None: not running
    started: float = 0.0  # monotonic time
    delay: float = FIRST_DELAY  # seconds before the next restart
    restart_at: float | None = None  # monotonic time of the restart; None: none is due

    def start(self) -> None:
        self.pid, self.started, self.restart_at = fork(self.work), time.monotonic(), None

    def ended(self) -> None:
        """Record the end, and schedule the restart."""
        now = time.monotonic()
        if now - self.started >= STEADY:
            self.delay = FIRST_DELAY
        self.pid, self.restart_at = None, now + self.delay
        self.delay = min(self.delay * 2, LONGEST_DELAY)

    def signal(self, number: int) -> None:
        """Send a signal to the process; nothing when it has ended."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(slots=True)
class Children:
    """All children of this process."""

    restart: bool = True  # whether a child that ends is started again
    changed: Callable[[], object] = lambda: None  # called after every start and end
    all: list[Child] = field(default_factory=list)

    def start(self, role: str, name: str, work: Callable[[], object]) -> Child:
        child = Child(role, name, work)
        child.start()
        self.all.append(child)
        self.changed()
        return child

    def reap(self) -> list[Child]:
        """Return the children that have ended since the last call; reap adopted orphans too."""
        ended_children = []
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if info is None:
                break
            child = next(
                (candidate for candidate in self.all if candidate.pid == info.si_pid), None
            )
            if child:
                # before it is reaped, as afterwards the id of its group may be reused
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(info.si_pid, signal.SIGKILL)
                child.ended()
                if not self.restart:
                    child.restart_at = None
                ended_children.append(child)
            os.waitpid(info.si_pid, 0)
            if child:
                by_signal = info.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
                facts = {"signal" if by_signal else "status": info.si_status}
                logger.info("child.ended", child=child.name, pid=info.si_pid, **facts)
        if ended_children:
            self.changed()
        return ended_children

    def start_due(self) -> float | None:
        """Start due children; return seconds until the next is due, None if none waits."""
        waits = []
        for child in self.all:
            if child.restart_at is None:
                continue
            wait = child.restart_at - time.monotonic()
            if wait > 0:
                waits.append(wait)
                continue
            child.start()
            logger.info("child.restarted", child=child.name, pid=child.pid)
            self.changed()
        return min(waits, default=None)

    def stop(self, children: list[Child], timeout: float) -> None:
        """
        Stop children with SIGTERM; with SIGKILL after `timeout` seconds or at a second signal.

        Returns when all of them have ended.
        """
        for child in children:
            child.restart_at = None
            child.signal(signal.SIGTERM)
        end = time.monotonic() + timeout
        while any(child.pid for child in children):
            signal_number = wait_for_signal(max(0.0, end - time.monotonic()))
            if signal_number in (signal.SIGTERM, signal.SIGINT) or time.monotonic() >= end:
                for child in children:
                    child.signal(signal.SIGKILL)
                end = time.monotonic() + 1
            self.reap()
            for child in children:
                child.restart_at = None

    def kill_orphans(self) -> None:
        """Kill the remaining descendants of this process, until none is left."""
        while pids := list(_descendants(os.getpid())):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            time.sleep(0.005)


def watch_signals() -> None:
    """Block the AWAITED signals for `wait_for_signal`, and become the parent of orphans."""
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    adopt_orphans()


def wait_for_signal(seconds: float | None) -> int | None:
    """Return the next signal, or None if there is none within `seconds`."""
    if seconds is None:
        return signal.sigwait(AWAITED)
    info = signal.sigtimedwait(AWAITED, seconds)
    return info.si_signo if info else None


def fork(work: Callable[[], object]) -> int:
    """
    Run `work` in a child process, with its standard output on standard error. Return its pid.

    This process must have one thread only. The kernel kills the child when this process ends.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        die_with_parent(parent)
        os.setsid()  # Ctrl-C reaches only the supervisor, which stops the children in order
        signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
        os.dup2(2, 1)
        work()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        status = 130
    except BaseException:  # nothing above catches it in a forked process
        logger.exception("child.crashed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def result_of(work: Callable[[], None]) -> int:
    """
    Run `work` in a child process; return the pipe that its result comes from.

    The result is an empty line, or a line with the text of a StartError.
    """
    result, output = os.pipe()

    def write_result() -> None:
        try:
            work()
            os.write(output, b"\n")
        except StartError as error:
            os.write(output, f"{error}\n".encode())

    fork(write_result)
    os.close(output)
    return result


def _descendants(pid: int) -> Iterator[int]:
    """Yield the descendants of a process; none if /proc does not list children."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        children = [int(word) for word in path.read_text().split()]
    except OSError:
        return
    for child in children:
        yield child
        yield from _descendants(child)
