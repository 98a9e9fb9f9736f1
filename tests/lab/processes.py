"""
The lab's processes: started apart from whoever starts them, and all found again by their folder.

Each has the lab's folder as HOME or in `LAB_FOLDER`: what the lab ends is what has one of these, and
nothing else.
"""

import os
import pwd
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from tests.support.fleet import until

#: Seconds to end by themselves.
GRACE = 15.0


def nobody():
    """Popen's arguments of a user who owns nothing."""
    owner = pwd.getpwnam("nobody")
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


class Processes:
    """Those of one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.logs = folder / "logs"

    def start(self, name, *command, environ=None, **about):
        """Start a process; its output is in logs/NAME.log."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with open(self.logs / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(environ or {}), "LAB_FOLDER": str(self.folder)},
                start_new_session=True, **about,
            )  # fmt: skip

    def running(self):
        """The pids of all that run."""
        marks = {f"LAB_FOLDER={self.folder}", f"HOME={self.folder}"}
        found = set()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environ = set((path / "environ").read_text(errors="replace").split("\0"))
                if marks & environ and int(path.name) != os.getpid():
                    found.add(int(path.name))
        return found

    def end(self):
        """End them all; what does not end by itself is killed."""
        for sent in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.running():
                with suppress(ProcessLookupError):
                    os.kill(pid, sent)
            with suppress(AssertionError):
                until(lambda: self._reap() or not self.running(), "the end", GRACE)
                return

    @staticmethod
    def _reap():
        """Forget children that have ended: they count as running until somebody asks."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
