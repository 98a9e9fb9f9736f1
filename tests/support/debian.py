"""Programs that tests need: installed from Debian's packages where they are missing."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


def provide(find, package):
    """
    Return the result of `find()`; if that is None, install a package first (as root on Debian).

    None if the program is not available.
    """
    with _turn():
        program = find()
        if program is None and os.geteuid() == 0 and shutil.which("apt-get"):
            _install(package)
            program = find()
    return program


def unpacked(*packages):
    """
    Return a folder with the files of packages, which are not installed; None if they are not there.

    They are fetched once, and kept in a cache for later runs.
    """
    cache = Path("/var/cache" if os.geteuid() == 0 else Path.home() / ".cache", "ingot-tests")
    folder = cache / "-".join(("debian", *packages))
    with _turn():
        if (folder / "ready").exists():
            return folder
        if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
            return None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if _download(folder, packages) != 0:  # unknown, or of a version that has gone
            _apt("update")
            if _download(folder, packages) != 0:
                return None
        for archive in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", archive, folder], check=True, timeout=60)
            archive.unlink()
        (folder / "ready").touch()
    return folder


def _download(folder, packages):
    return _apt("download", *packages, cwd=folder)


def _install(package):
    _apt("update")
    _apt("install", "-y", "--no-install-recommends", *package.split())


def _apt(*arguments, cwd=None):
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ["apt-get", "-qq", *arguments]
    return subprocess.run(
        command, env=environ, cwd=cwd, check=False, capture_output=True, timeout=300
    ).returncode


@contextmanager
def _turn():
    """Wait for other processes: apt takes one at a time."""
    with open(Path(tempfile.gettempdir(), f"ingot-install-{os.getuid()}"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
