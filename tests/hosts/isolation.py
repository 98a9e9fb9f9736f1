"""
Isolation: a run has its own processes, mounts and network devices, in namespaces of its own.

The kernel ends all of them with the run, even if it is killed: no process, mount or device remains.
Only the folder of its logs could; the next run removes those of killed runs.
"""

import fcntl
import os
import select
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

from app.process.parent_death import die_with_parent
from tests.support.fleet import ROOT, until
from tests.support.processes import children

PREFIX = "ingot-hosts-"
#: In the environment of the isolated process.
INSIDE = "INGOT_HOSTS_INSIDE"
UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def is_inside():
    return INSIDE in os.environ


def why_not():
    """Return why no isolated process can be started here; None: it can."""
    probe = [*UNSHARE, "ip", "link", "add", "probe", "type", "bridge"]
    try:
        ended = subprocess.run(probe, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if ended.returncode == 0 else ended.stderr.strip() or "unshare has failed"


@contextmanager
def running(*words, **files):
    """
    Run `python -m tests.hosts WORDS` isolated while the block runs; yield the process.

    Its end, also that of this process, ends all processes inside.
    """
    parent = os.getpid()
    program = subprocess.Popen(
        [*UNSHARE, sys.executable, "-m", "tests.hosts", *map(str, words)], cwd=ROOT,
        env={**os.environ, INSIDE: "1"}, start_new_session=True, **files,
        preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - it makes one call
    )  # fmt: skip
    try:
        yield program
    finally:
        pids = children(program.pid)
        ends = [descriptor for pid in pids if (descriptor := _open(pid)) is not None]
        program.kill()
        program.wait()
        for end in ends:  # the first process ends after all others of its namespace
            select.select([end], [], [])
            os.close(end)


def _open(pid):
    with suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None


@contextmanager
def folder():
    """Create a folder for logs. It is removed at the end of the block, unless `keep` was called."""
    remove_left()
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    path.chmod(0o755)
    with _locked(path):
        try:
            yield path
        finally:
            if not (path / "kept").exists():
                shutil.rmtree(path)


def keep(path):
    """Keep a folder of logs."""
    (path / "kept").touch()


def remove_left():
    """Remove the folders of runs that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is in use, or another run removes it
            if not (path / "kept").exists():
                with _locked(path):
                    shutil.rmtree(path)


@contextmanager
def _locked(path):
    """Mark a folder as in use. Raises OSError: another process uses it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def mount_memory(path, *, options="mode=755"):
    """Mount an empty file system in memory, which only the isolated processes see."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "ingot-hosts", str(path)]
    subprocess.run(mount, check=True, capture_output=True, timeout=10)
    until(Path(path).is_dir, "the mount")
