"""Programs that tests need and a machine may lack: taken from Debian's packages where we may."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def provide(find, package):
    """
    What `find()` finds, installing a package first if it finds None and we are root on Debian.

    None when it cannot be had.
    """
    with open(Path(tempfile.gettempdir(), f"ingot-install-{os.getuid()}"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # several test processes, one package manager
        found = find()
        if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
            _install(package)
            found = find()
    return found


def _install(package):
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
        command = ["apt-get", "-qq", *arguments]
        subprocess.run(command, env=environ, check=False, capture_output=True, timeout=300)
