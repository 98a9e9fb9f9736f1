"""The program of a console in a terminal, as a child process of an event loop."""

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Callable

from app.process.parent_death import tied
from drivers.core.consoles import Program

#: Most bytes of a read; of input that waits for the program.
READ, WAITING = 16 << 10, 64 << 10
#: Seconds for the program to end after its terminal has closed.
GRACE = 2.0
#: Seconds for the preparation of a program.
PREPARATION_TIME = 20.0


class Child:
    """
    A running program. `on_output` gets what it prints; `ended` completes when it has ended.

    Raises OSError: it cannot be started.
    """

    def __init__(self, program: Program, on_output: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_output = on_output
        self._waiting = bytearray()
        self.ended: asyncio.Future[int] = self._loop.create_future()  # exit status; < 0: signal
        self._terminal, other = pty.openpty()
        try:
            os.set_blocking(self._terminal, False)
            self._process = subprocess.Popen(
                tied(program.arguments),
                env=program.environment, stdin=other, stdout=other, stderr=other,
            )  # fmt: skip
        except BaseException:
            os.close(self._terminal)
            raise
        finally:
            os.close(other)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._terminal, self._read)
        self._loop.add_reader(self._pidfd, self._reap)

    def write(self, data: bytes) -> None:
        """Type bytes; those that the program does not take in time are dropped."""
        if self._terminal < 0 or len(self._waiting) + len(data) > WAITING:
            return
        self._waiting += data
        self._write()

    def pause(self) -> None:
        """Read no output until `go_on`: the program waits then."""
        if self._terminal >= 0:
            self._loop.remove_reader(self._terminal)

    def go_on(self) -> None:
        if self._terminal >= 0:
            self._loop.add_reader(self._terminal, self._read)

    async def end(self) -> None:
        """Close the terminal, which ends the program; kill it if it does not end."""
        self._close()
        if not self.ended.done():
            await asyncio.wait([self.ended], timeout=GRACE)
            if not self.ended.done():
                self._process.kill()
                await self.ended

    def kill(self) -> None:
        """Kill the program at once; it is not reaped."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        try:
            data = os.read(self._terminal, READ)
        except BlockingIOError:
            return
        except OSError:  # EIO: no process has the terminal open
            data = b""
        if data:
            self._on_output(data)
        else:
            self._loop.remove_reader(self._terminal)

    def _write(self) -> None:
        try:
            del self._waiting[: os.write(self._terminal, self._waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._waiting.clear()
        if self._waiting:
            self._loop.add_writer(self._terminal, self._write)
        else:
            self._loop.remove_writer(self._terminal)

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        status = self._process.wait()
        if self._terminal >= 0:
            with contextlib.suppress(OSError):  # its last output
                while data := os.read(self._terminal, READ):
                    self._on_output(data)
        self._close()
        self.ended.set_result(status)

    def _close(self) -> None:
        if self._terminal >= 0:
            self._loop.remove_reader(self._terminal)
            self._loop.remove_writer(self._terminal)
            os.close(self._terminal)
            self._terminal = -1


async def prepare(program: Program) -> None:
    """Run the preparation of a program, whether it succeeds or not."""
    if not program.preparation:
        return
    loop = asyncio.get_running_loop()
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 - it does not wait
            program.preparation,
            env=program.environment,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
        )
    except OSError:  # the program itself fails likewise, and says why
        return
    ended, pidfd = asyncio.Event(), os.pidfd_open(process.pid)
    loop.add_reader(pidfd, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), PREPARATION_TIME)
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        process.kill()
        process.wait()
