"""
Children of the supervisor: forked, watched, restarted with back-off, stopped.

Each child leads a process group of its own. When it ends, whatever is left of its group is killed
before it may start again, so that two incarnations of one child never run beside each other.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app import log
from app.parent import adopt_orphans, die_with_parent

logger = log.get(__name__)

FIRST_DELAY = 0.2
LONGEST_DELAY = 30.0
#: A child that lived this long has started well: its next restart is quick again.
STEADY = 60.0
#: The signals that the supervisor waits for instead of handling.
AWAITED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass(slots=True)
class Child:
    """
    One child. `work` runs in the forked process until the child ends.

    pid: of the running process; None while there is none. due: when it is started again.
    """

    role: str
    name: str
    work: Callable[[], object]
    pid: int | None = None
    started: float = 0.0
    delay: float = FIRST_DELAY
    due: float | None = None

    def start(self) -> None:
        self.pid, self.started, self.due = fork(self.work), time.monotonic(), None

    def ended(self) -> None:
        """Note the end, and when to start again."""
        now = time.monotonic()
        if now - self.started >= STEADY:
            self.delay = FIRST_DELAY
        self.pid, self.due = None, now + self.delay
        self.delay = min(self.delay * 2, LONGEST_DELAY)

    def signal(self, number: int) -> None:
        """Send a signal to the process; nothing when it has ended."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(slots=True)
class Children:
    """
    All children of this process.

    restart: start again what ends. changed: called after every start and end.
    """

    restart: bool = True
    changed: Callable[[], object] = lambda: None
    all: list[Child] = field(default_factory=list)

    def start(self, role: str, name: str, work: Callable[[], object]) -> Child:
        child = Child(role, name, work)
        child.start()
        self.all.append(child)
        self.changed()
        return child

    def reap(self) -> list[Child]:
        """The children that have ended since the last call; orphans are taken away silently."""
        ended = []
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if info is None:
                break
            child = next((each for each in self.all if each.pid == info.si_pid), None)
            if child:
                # not yet reaped, so the number of the group is still its own
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(info.si_pid, signal.SIGKILL)
                child.ended()
                if not self.restart:
                    child.due = None
                ended.append(child)
            os.waitpid(info.si_pid, 0)
            if child:
                by_signal = info.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
                facts = {"signal" if by_signal else "status": info.si_status}
                logger.info("child.ended", child=child.name, pid=info.si_pid, **facts)
        if ended:
            self.changed()
        return ended

    def start_due(self) -> float | None:
        """Start what is due; seconds until the next one is, None when none waits."""
        waits = []
        for child in self.all:
            if child.due is None:
                continue
            wait = child.due - time.monotonic()
            if wait > 0:
                waits.append(wait)
                continue
            child.start()
            logger.info("child.restarted", child=child.name, pid=child.pid)
            self.changed()
        return min(waits, default=None)

    def stop(self, children: list[Child], patience: float) -> None:
        """
        End `children`: SIGTERM, and SIGKILL after `patience` seconds or at a second signal to
        this process. Returns when none of them is left.
        """
        for child in children:
            child.due = None
            child.signal(signal.SIGTERM)
        end = time.monotonic() + patience
        while any(child.pid for child in children):
            got = wait_for_signal(max(0.0, end - time.monotonic()))
            if got in (signal.SIGTERM, signal.SIGINT) or time.monotonic() >= end:
                for child in children:
                    child.signal(signal.SIGKILL)
                end = time.monotonic() + 1
            self.reap()
            for child in children:
                child.due = None

    def kill_orphans(self) -> None:
        """Kill what the children left behind, until this process has no descendant."""
        while pids := list(_descendants(os.getpid())):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            time.sleep(0.005)


def watch_signals() -> None:
    """Hold the signals back for `wait_for_signal`, and adopt descendants without a parent."""
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    adopt_orphans()


def wait_for_signal(seconds: float | None) -> int | None:
    """The next signal, or None after so many seconds."""
    if seconds is None:
        return signal.sigwait(AWAITED)
    info = signal.sigtimedwait(AWAITED, seconds)
    return info.si_signo if info else None


def fork(work: Callable[[], object]) -> int:
    """
    Run `work` in a child process, its standard output being our standard error. Returns its pid.

    This process must have one thread only. The child is killed when this process ends.
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
        os.setsid()  # Ctrl-C reaches the supervisor alone, which then stops everything in order
        signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
        os.dup2(2, 1)
        work()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        status = 130
    except BaseException:  # the last line of a process: told, then over
        logger.exception("child.crashed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _descendants(pid: int) -> Iterator[int]:
    """Children of a process and theirs, as far as this system tells."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        children = [int(word) for word in path.read_text().split()]
    except OSError:
        return
    for child in children:
        yield child
        yield from _descendants(child)
