"""
The DHCP server of a conductor: programs that are children of its control process, and are started
again when they end.

The database is authoritative: a thread compares the known machines with the ports, writes their
file when they differ, and has the programs use it. Without the database, the programs go on with
the machines that they know.
"""

import fcntl
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from sqlalchemy.exc import SQLAlchemyError

from app.db.diagnosis import reason
from app.observe import log
from app.process.parent_death import tied
from app.runtime import Runtime
from drivers.builtin import boot_loaders
from drivers.core.errors import HardwareError
from workers.dhcp import dnsmasq_programs, known_machines
from workers.dhcp.dnsmasq_programs import Command
from workers.dhcp.known_machines import KnownMachine

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds before a restart: the first one, and the longest; and of a run that resets them.
FIRST_DELAY, LONGEST_DELAY, STEADY = 0.5, 30.0, 10.0
#: Seconds between looks at the programs, and for their end.
GLANCE, STOP_TIME = 0.2, 3.0
#: Most characters of a program's last lines in the log.
LAST_WORDS = 500


@dataclass(slots=True)
class Program:
    """A program that runs as long as the conductor."""

    name: str
    command: Command
    output: Path  # file with the output of its last run
    process: subprocess.Popen[bytes] | None = None
    is_renewed: bool = False  # it got the signal after which it may end
    _started: float = 0.0  # monotonic times
    _start_at: float = 0.0
    _delay: float = FIRST_DELAY

    def look(self) -> None:
        """Start the program if it does not run, and its next start is due. Raises OSError."""
        if self.process is not None and self.process.poll() is not None:
            if not self.is_renewed:
                self._report_end(self.process.returncode)
                self._schedule()
            self.process = None
        if self.process is None and time.monotonic() >= self._start_at:
            self._start()

    def renew(self, signal_number: int) -> None:
        """Have the program use the machines that were written last."""
        if self.process is not None:
            self.is_renewed = True
            self.process.send_signal(signal_number)

    def end(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIME)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _start(self) -> None:
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                tied(self.command), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._started, self.is_renewed = time.monotonic(), False
        logger.info("dhcp.started", program=self.name, pid=self.process.pid)

    def _schedule(self) -> None:
        """Schedule the next start, later each time."""
        now = time.monotonic()
        if now - self._started >= STEADY:
            self._delay = FIRST_DELAY
        self._start_at = now + self._delay
        self._delay = min(self._delay * 2, LONGEST_DELAY)

    def _report_end(self, status: int) -> None:
        words = self.output.read_text(errors="replace").strip()[-LAST_WORDS:]
        logger.error("dhcp.ended", program=self.name, status=status, detail=words)


@dataclass(slots=True)
class DhcpServer:
    runtime: Runtime
    folder: Path  # of its files
    machines: Sequence[KnownMachine] | None = None  # those in its file; None: not written yet
    programs: Sequence[Program] = ()  # empty before the first machines are written
    _lock: IO[bytes] | None = None  # on the folder; None: another conductor of this host has it
    _compare_at: float = 0.0  # monotonic time
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="dhcp", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the programs; the leases stay in their file."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOP_TIME + GLANCE)

    def _run(self) -> None:
        # the programs end with the thread that has started them, see `tied`
        try:
            while not self._stopped.wait(GLANCE):
                try:
                    self._look()
                except SQLAlchemyError as error:  # the programs go on
                    seldom.warning("dhcp.no_database", detail=reason(error))
                except OSError as error:
                    seldom.warning("dhcp.failed", detail=str(error))
                except Exception:  # a defect must not end the server
                    logger.exception("dhcp.crashed")
                    self._stopped.wait(LONGEST_DELAY)
        finally:
            for program in self.programs:
                program.end()
            if self._lock is not None:
                self._lock.close()

    def _look(self) -> None:
        for program in self.programs:
            program.look()
        if time.monotonic() >= self._compare_at:
            self._compare_at = time.monotonic() + self.runtime.settings.dhcp_server.refresh_interval
            self._compare()

    def _compare(self) -> None:
        """Compare the known machines with the ports. Raises SQLAlchemyError, OSError."""
        if not self._has_folder():
            return
        machines = known_machines.read(self.runtime)
        if machines == self.machines:
            return
        dnsmasq_programs.write(self.folder, machines)
        if not self.programs:
            self.programs = self._prepare()
        self.machines = machines
        logger.info("dhcp.machines", count=len(machines))
        for program in self.programs:
            if (number := dnsmasq_programs.RENEWAL.get(program.name)) is not None:
                program.renew(number)

    def _has_folder(self) -> bool:
        """
        Return whether the folder is this conductor's, until it ends. Raises OSError.

        Of the conductors of a host one serves: two dnsmasq would answer on the same interfaces, and
        overwrite each other's leases.
        """
        if self._lock is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("wb")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                return False
            self._lock = lock
        return True

    def _prepare(self) -> Sequence[Program]:
        """Publish the loaders, and return the programs, not started yet. Raises OSError."""
        options = self.runtime.settings.options()
        try:
            boot_loaders.publish(options)
        except (OSError, HardwareError) as error:  # machines with iPXE in their firmware need none
            logger.warning("dhcp.no_loaders", setting="[pxe]loader_file_paths", detail=str(error))
        commands = dnsmasq_programs.prepare(self.folder, options)
        return [
            Program(name, command, self.folder / f"{name}.output")
            for name, command in commands.items()
        ]


def of(runtime: Runtime) -> DhcpServer | None:
    """Return the server that the settings ask for; None: they ask for none."""
    if not runtime.settings.dhcp_server.backend:
        return None
    return DhcpServer(runtime, Path(runtime.settings.default.data_dir, "dhcp"))
