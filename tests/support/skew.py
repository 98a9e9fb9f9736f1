"""Processes whose wall clock is wrong, by a library that is preloaded."""

import shutil
import subprocess
from pathlib import Path

from tests.support import debian
from tests.support.prerequisites import not_run

SOURCE = Path(__file__).with_suffix(".c")


class Clock:
    """The wall clock of the processes that are started with `environ`; others have the right one."""

    def __init__(self, folder):
        compiler = debian.provide(lambda: shutil.which("cc"), "gcc libc6-dev")
        if compiler is None:
            not_run("no C compiler on this machine")
        self._file, library = Path(folder, "skew"), Path(folder, "skew.so")
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE]
        subprocess.run(command, check=True, timeout=60)
        self.set(0)
        self.environ = {"LD_PRELOAD": str(library), "SKEW": str(self._file)}

    def set(self, seconds):
        """Move the clock; takes effect at once in all processes."""
        self._file.write_text(str(seconds))
