"""
Processes of the lab: detached from their parent, and found again by the lab's folder.

Each has the lab's folder as HOME or in `LAB_PROCESS_OF`; the lab ends these processes and no others.
"""

import os
import pwd
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.support.fleet import until

#: Seconds that processes have to end after SIGTERM.
GRACE = 15.0


def unprivileged():
    """Popen's arguments of the user `nobody`."""
    owner = pwd.getpwnam("nobody")
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


class Processes:
    """Processes of one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.logs = folder / "logs"

    def start(self, name, *command, environ=None, **about):
        """Start a process; its output is in logs/NAME.log."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with open(self.logs / f"{name}.log", "ab") as log:
            # SPT_NOENV: titles of processes leave the environment, by which `running` finds them
            mark = {"LAB_PROCESS_OF": str(self.folder), "SPT_NOENV": "1"}
            return subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(environ or {}), **mark},
                start_new_session=True, **about,
            )  # fmt: skip

    def running(self):
        """Pids of the running processes."""
        marks = {f"LAB_PROCESS_OF={self.folder}", f"HOME={self.folder}"}
        pids = set()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environ = set((path / "environ").read_text(errors="replace").split("\0"))
                if marks & environ and int(path.name) != os.getpid():
                    pids.add(int(path.name))
        return pids

    def end(self):
        """End the processes; kill those that ignore SIGTERM."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.running():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            with suppress(AssertionError):
                until(lambda: self._reap() or not self.running(), "the end", GRACE)
                return

    @staticmethod
    def _reap():
        """Reap zombies, which count as running."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
