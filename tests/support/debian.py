"""Programs that tests need: installed from Debian's packages where they are missing."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def provide(find, package):
    """
    Return the result of `find()`; if that is None, install a package first (as root on Debian).

    None if the program is not available.
    """
    with open(Path(tempfile.gettempdir(), f"ingot-install-{os.getuid()}"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # apt takes one process at a time
        found = find()
        if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
            _install(package)
            found = find()
    return found


def _install(package):
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *package.split()]):
        command = ["apt-get", "-qq", *arguments]
        subprocess.run(command, env=environ, check=False, capture_output=True, timeout=300)
