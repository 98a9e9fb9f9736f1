"""A private Redis of the test: with passwords, users and TLS; Debian's program has TLS."""

import subprocess
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from app.broker.breakers import Breakers
from app.config import settings
from tests.support import debian
from tests.support.fleet import until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run
from workers.supervisor import redis_server

#: In `redis-tools`, which starts no service; under the name `redis-server` it is the server.
WITH_TLS = Path("/usr/bin/redis-check-rdb")


def program_with_tls(folder):
    """Path of a server with TLS; the test is not run without one."""
    program = debian.provide(lambda: WITH_TLS if WITH_TLS.exists() else None, "redis-tools")
    if program is None:
        not_run("no Redis with TLS (redis-tools) on this machine")
    link = Path(folder, "redis-server")
    link.symlink_to(program)
    return link


@contextmanager
def serving(folder, *, program=None, tls=False, **settings):
    """
    Run a server on a port of loopback; yield the port. settings: such as `requirepass`.
    """
    port = free_port()
    options = {"bind": "127.0.0.1", "save": "", "dir": str(folder), "port": str(port)} | settings
    options |= {"tls_port": str(port)} if tls else {}
    words = [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", *(value.split() or [""]))
    ]
    with (Path(folder) / "redis.out").open("w") as out:
        server = subprocess.Popen([program or redis_server.find(), *words], stdout=out, stderr=out)
    try:
        until(lambda: "Ready to accept" in Path(folder, "redis.out").read_text(), "Redis")
        yield port
    finally:
        server.kill()
        server.wait()


def breakers(url):
    """Return the circuit breakers of a process that uses a Redis."""
    return Breakers(settings.load({"INGOT_BROKER_URL": url}).broker)


@contextmanager
def sentinel(folder):
    """Run a Sentinel with the configuration `sentinel.conf` in a folder."""
    command = [redis_server.find(), Path(folder, "sentinel.conf"), "--sentinel"]
    with Path(folder, "sentinel.out").open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def client(port, **options):
    return Redis(port=port, socket_timeout=5, **options)
