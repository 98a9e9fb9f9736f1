"""
`ingot up`: the whole service under one supervisor.

The supervisor imports the heavy modules once, then forks its children, each of which is a role
that could run by itself: API, conductors, beat. It has one thread and waits for signals. Its own
Redis and a SQLite database live in the data directory, which only one supervisor may use.
"""

import contextlib
import dataclasses
import gc
import http.client
import importlib
import json
import os
import select
import signal
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app import log
from app.settings import Settings
from workers import permissions, places, redis_server
from workers.children import Children, fork, wait_for_signal, watch_signals
from workers.places import StartError, base_url

logger = log.get(__name__)

#: What the children share by being imported before they are forked.
PRELOAD = (
    "app.db", "app.serve", "workers.files", "workers.conductor", "workers.beat",
    # what Celery imports by name when a worker or a beat starts
    "celery.app.log", "celery.backends.base", "celery.concurrency.thread", "celery.events",
    "celery.fixups.django", "celery.worker.autoscale", "celery.worker.consumer",
    "celery.worker.strategy", "kombu.transport.redis",
)  # fmt: skip
#: Seconds for all of it to become ready.
READY_TIMEOUT = 60.0
#: The signals that mean: stop.
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

Role = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Options:
    """What `ingot up` was asked for, beside the settings."""

    conductors: int = 1
    pidfile: Path | None = None
    restart: bool = True


def late(module: str, name: str = "main") -> Role:
    """A function of a module that is imported when the function is called."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments)

    return call


def _alive(settings: Settings) -> dict[str, str]:
    """Name and incarnation of every live conductor."""
    from app import db  # here, as it takes long to import: Redis starts in the meantime
    from app.services import conductors

    engine = db.connect(settings.database.connection, **settings.database.limits)
    try:
        with db.reading(engine) as session:
            timeout = settings.conductor.heartbeat_timeout
            return {each.name: each.incarnation for each in conductors.alive(session, timeout)}
    finally:
        engine.dispose()


def _check(settings: Settings) -> None:
    """Raise SettingsError for settings that a role would refuse, before any role is forked."""
    from app import certificate, runtime  # as above

    certificate.files(settings.api)
    runtime.load_drivers(settings)


def _upgrade(settings: Settings) -> None:
    from app import db  # as above

    db.upgrade(settings.database.connection)


#: Role -> what its process runs; the last three run in the supervisor. Tests put others.
ROLES: Mapping[str, Role] = {
    "api": late("app.serve"),
    "files": late("workers.files"),
    "conductor": late("workers.conductor"),
    "beat": late("workers.beat"),
    "check": _check,
    "upgrade": _upgrade,
    "alive": _alive,
}


def migrate(settings: Settings) -> None:
    """Bring the database to the schema of this release. Raises StartError."""
    from alembic.util import CommandError
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    from app.db import reason

    try:
        shown = make_url(settings.database.connection).render_as_string()
        ROLES["upgrade"](settings)
    except (ArgumentError, ValueError):  # the latter for a port that is no number
        raise StartError("[database]connection: not a database URL") from None
    except CommandError as error:
        if "locate revision" not in str(error):
            raise StartError(f"database {shown}: {error}") from None
        raise StartError(
            f"database {shown}: it is newer than this release of Ingot ({error})"
        ) from None
    except SQLAlchemyError as error:
        raise StartError(f"database {shown}: {reason(error)}") from None


def become(settings: Settings, role: str, work: Role, *arguments: Any) -> Any:
    """Be one role for the rest of this process, and say so in its log."""
    log.set_up(settings.default.log_level, settings.default.log_format, role=role)
    return work(settings, *arguments)


def run(settings: Settings, options: Options) -> int:
    """
    Start everything, print `ready <url>`, and watch until a signal says to stop.

    Returns the exit status. Raises StartError, SettingsError.
    """
    serves_files = not settings.deploy.http_url
    settings = places.complete(settings)
    with places.locked(Path(settings.default.data_dir)) as folder:
        permissions.prepare(settings)
        settings = places.with_port(settings)
        settings = places.with_files(settings) if serves_files else settings
        supervisor = _Supervisor(settings, options, folder, serves_files=serves_files)
        watch_signals()
        try:
            return supervisor.run()
        finally:
            supervisor.stop()


class _Supervisor:
    """serves_files: no web server of the site hands out what machines fetch."""

    def __init__(
        self, settings: Settings, options: Options, folder: Path, *, serves_files: bool
    ) -> None:
        self.settings = settings
        self.serves_files = serves_files
        self.options = options
        self.folder = folder
        self.children = Children(changed=self.write_pidfile)

    def run(self) -> int:
        try:
            self.write_pidfile()
        except OSError as error:
            raise StartError(f"pid file {self.options.pidfile}: {error.strerror}") from None
        own_redis = not self.settings.broker.url
        if own_redis:
            self.start_redis()
        migrated = self.start_migration()
        gc.disable()  # importing makes no garbage worth looking for
        for name in PRELOAD:
            importlib.import_module(name)
        gc.freeze()  # collections in the children leave these pages shared
        gc.enable()
        ROLES["check"](self.settings)
        if not self.await_migration(migrated):
            return 0
        self.check_redis(own_redis)
        before = ROLES["alive"](self.settings)
        names = self.start_roles()
        if not self.await_ready(names, before):
            return 0
        print("ready", base_url(self.settings), flush=True)  # noqa: T201 - the contract
        logger.info("up.ready", url=base_url(self.settings), data_dir=str(self.folder))
        return self.watch()

    def start_redis(self) -> None:
        try:
            program = redis_server.find()
            path = redis_server.socket_path(self.folder)
            (self.folder / "redis").mkdir(mode=0o700, exist_ok=True)
            if path.parent != self.folder:
                redis_server.make_private(path.parent)
        except (redis_server.RedisUnavailable, OSError) as error:
            raise StartError(f"Redis: {error}") from None
        command = redis_server.command(program, self.folder, path)
        self.children.start("redis", "redis", lambda: os.execv(program, command))  # noqa: S606
        broker = dataclasses.replace(self.settings.broker, url=f"redis+socket://{path}")
        self.settings = dataclasses.replace(self.settings, broker=broker)

    def start_migration(self) -> int:
        """Migrate in a process beside this one; a pipe that tells "" or what is wrong."""
        told, tell = os.pipe()

        def work() -> None:
            try:
                migrate(self.settings)
                os.write(tell, b"\n")
            except StartError as error:
                os.write(tell, f"{error}\n".encode())

        fork(work)
        os.close(tell)
        return told

    def await_migration(self, told: int) -> bool:
        """False when a signal said to stop. Raises StartError when the database is not ours."""
        while not select.select([told], [], [], 0)[0]:
            if wait_for_signal(0.01) in STOPS:
                return False
        with open(told) as pipe:
            answer = pipe.read()
        if answer != "\n":
            raise StartError(answer.strip() or "the migration failed; its log says why")
        return True

    def check_redis(self, own: bool) -> None:
        url, seconds = self.settings.broker.url, self.settings.broker.connect_timeout
        try:
            redis_server.await_answer(url, seconds, patience=10 if own else 0, given_up=self.reaped)
        except (redis_server.RedisUnavailable, ValueError) as error:
            where = f"see {self.folder / 'redis.log'}" if own else "[broker]url"
            raise StartError(f"Redis ({where}): {error}") from None

    def reaped(self) -> bool:
        """Whether a child has ended."""
        return bool(self.children.reap())

    def start_roles(self) -> list[str]:
        """Fork the roles; the names of the conductors."""
        settings = self.settings
        host = settings.default.host or socket.gethostname()
        names = [f"{host}-{number}" for number in range(1, self.options.conductors + 1)]
        start = self.children.start
        start("api", "api", partial(become, settings, "api", ROLES["api"]))
        if self.serves_files:
            start("api", "files", partial(become, settings, "files", ROLES["files"]))
        for name in names:
            work = partial(become, settings, name, ROLES["conductor"], name)
            start("conductors", name, work)
        start("beat", "beat", partial(become, settings, "beat", ROLES["beat"]))
        return names

    def await_ready(self, names: list[str], before: Mapping[str, str]) -> bool:
        """
        Wait until the API answers and every conductor has registered anew.

        False when a signal said to stop. Raises StartError when a child ends or time is over.
        """
        end = time.monotonic() + READY_TIMEOUT
        missing = ["the API", *names]
        while missing:
            if wait_for_signal(0.02) in STOPS:
                return False
            for child in self.children.reap():
                raise StartError(f"{child.name} ended while it started; its log says why")
            if missing[0] == "the API":
                missing = missing[1:] if _answers(self.settings) else missing
            if missing[:1] != ["the API"]:
                alive = ROLES["alive"](self.settings)
                missing = [name for name in names if alive.get(name) in (None, before.get(name))]
            if missing and time.monotonic() > end:
                raise StartError(f"not ready after {READY_TIMEOUT:g} s: {', '.join(missing)}")
        self.children.restart = self.options.restart
        return True

    def watch(self) -> int:
        from app import sqlite  # imported already, by then

        wait: float | None = None
        while wait_for_signal(wait) not in STOPS:
            self.children.reap()
            wait = self.children.start_due()
            if self.settings.database.connection.startswith("sqlite"):
                wait = min(wait or 1.0, 1.0)
                sqlite.free_database(self.settings.database.connection)
        return 0

    def stop(self) -> None:
        """End everything: Redis last, as the others still talk to it."""
        self.children.restart = False
        patience = self.settings.conductor.graceful_shutdown_timeout + 5
        others = [each for each in self.children.all if each.role != "redis"]
        self.children.stop(others, patience)
        self.children.stop([each for each in self.children.all if each.role == "redis"], 10)
        self.children.kill_orphans()
        path = redis_server.socket_path(self.folder)
        if path.parent != self.folder:
            with contextlib.suppress(OSError):  # not there: Redis was not ours
                path.unlink(missing_ok=True)
                path.parent.rmdir()
        if self.options.pidfile:
            self.options.pidfile.unlink(missing_ok=True)
        logger.info("up.stopped")

    def write_pidfile(self) -> None:
        """
        {"up": pid, "api": [pid], "conductors": {name: pid}, "beat": [pid], "redis": [pid]}

        api: the servers, that of the API first, and that of files.
        """
        path = self.options.pidfile
        if path is None:
            return
        pids: dict[str, Any] = {"up": os.getpid()}
        pids |= {"api": [], "conductors": {}, "beat": [], "redis": []}
        for child in self.children.all:
            if child.pid is None:
                continue
            if child.role == "conductors":
                pids["conductors"][child.name] = child.pid
            else:
                pids[child.role].append(child.pid)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(pids) + "\n")
        temporary.replace(path)


def _answers(settings: Settings) -> bool:
    """GET / is answered."""
    host = base_url(settings).partition("://")[2]
    connection: http.client.HTTPConnection
    if settings.api.enable_ssl_api:
        # only whether it answers: the certificate is for other names than loopback's
        context = ssl._create_unverified_context()  # noqa: S323
        connection = http.client.HTTPSConnection(host, timeout=2, context=context)
    else:
        connection = http.client.HTTPConnection(host, timeout=2)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
