"""
`ingot up`: runs the whole service under one supervisor.

The supervisor imports the large modules once, and then forks its children. Each child is a role
that can also run alone: API, conductor, beat. The supervisor has one thread and waits for signals.
Its Redis and a SQLite database are in the data directory, which only one supervisor may use.
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
from app.config.settings import Settings, SettingsError
from drivers.environment import without_settings
from workers.supervisor import location, permissions, redis_server
from workers.supervisor.children import Children, fork, wait_for_signal, watch_signals
from workers.supervisor.location import StartError, base_url

logger = log.get(__name__)

#: Modules that are imported before the children are forked, so that these share their memory.
PRELOAD = (
    "app.db.connections", "app.serve", "workers.supervisor.file_server",
    "workers.conductor.process", "workers.periodic.beat",
    # modules that Celery imports by name when a worker or a beat starts
    "celery.app.log", "celery.backends.base", "celery.concurrency.thread", "celery.events",
    "celery.fixups.django", "celery.worker.autoscale", "celery.worker.consumer",
    "celery.worker.strategy", "kombu.transport.redis",
)  # fmt: skip
#: Seconds for the whole service to become ready.
READY_TIMEOUT = 60.0
#: Signals that stop the service.
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

Role = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `ingot up` that are no settings."""

    conductors: int = 1  # number of conductors
    pidfile: Path | None = None  # None: none is written
    restart: bool = True  # restart children that end


def late(module: str, name: str = "main") -> Role:
    """Return a function that imports a module and calls its function `name`."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments)

    return call


def _alive(settings: Settings) -> dict[str, str]:
    """Return name -> incarnation of the live conductors."""
    from app.db import (  # here: the import takes long, and Redis starts in the meantime
        connections,
        transactions,
    )
    from app.kit import conductors

    engine = connections.connect(settings.database.connection, **settings.database.limits)
    try:
        with transactions.reading(engine) as session:
            timeout = settings.conductor.heartbeat_timeout
            return {each.name: each.incarnation for each in conductors.alive(session, timeout)}
    finally:
        engine.dispose()


def _check(settings: Settings) -> None:
    """
    Check the settings that a role would refuse, before any role is forked.

    Raises SettingsError.
    """
    from app import certificate, runtime  # here: the import takes long

    certificate.files(settings.api)
    runtime.load_drivers(settings)


def _upgrade(settings: Settings) -> None:
    from app.db import schema  # here: the import takes long
    from app.kit import data_keys

    schema.upgrade(settings.database.connection)
    data_keys.start(settings.database)


#: Role -> main function of its process; the last four run in the supervisor. Tests replace them.
ROLES: Mapping[str, Role] = {
    "api": late("app.serve"),
    "exporter": late("workers.supervisor.exporter"),
    "files": late("workers.supervisor.file_server"),
    "conductor": late("workers.conductor.process"),
    "beat": late("workers.periodic.beat"),
    "check": _check,
    "upgrade": _upgrade,
    "alive": _alive,
    "users": late("workers.supervisor.first_admin", "ensure"),
}


def migrate(settings: Settings) -> None:
    """
    Migrate the database to the schema of this release.

    Raises StartError.
    """
    from alembic.util import CommandError
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    from app.db.diagnosis import reason

    try:
        shown = make_url(settings.database.connection).render_as_string()
        ROLES["upgrade"](settings)
    except SettingsError as error:
        raise StartError(str(error)) from None
    except (ArgumentError, ValueError):  # ValueError: the port is no number
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
    """Run one role in this process, with its name in the log."""
    log.set_up(settings.default.log_level, settings.default.log_format, role=role)
    return work(settings, *arguments)


def become_alone(settings: Settings, name: str, role: str, *arguments: Any) -> Any:
    """
    Run a role in this process, outside of a supervisor; fork its exporter first.

    Raises StartError.
    """
    settings = location.prepare_metrics(settings)
    if settings.metrics.port is not None:
        fork(partial(become, settings, "exporter", ROLES["exporter"], role == "beat"))
    return become(settings, name, ROLES[role], *arguments)


def run(settings: Settings, options: Options) -> int:
    """
    Start all roles, print `ready <url>`, and supervise them until a signal. Return the exit status.

    Raises StartError.
    Raises SettingsError.
    """
    serves_files = not settings.deploy.http_url
    location.make_key(settings)
    settings = with_authentication(location.complete(settings))
    with location.locked(Path(settings.default.data_dir)) as folder:
        permissions.prepare(settings)
        settings = location.with_port(settings)
        settings = location.with_files(settings) if serves_files else settings
        settings = location.prepare_metrics(settings)
        supervisor = _Supervisor(settings, options, folder, serves_files=serves_files)
        watch_signals()
        try:
            return supervisor.run()
        finally:
            supervisor.stop()


def with_authentication(settings: Settings) -> Settings:
    """
    Return the settings with `auth_strategy = local`, if no strategy is configured and other hosts
    can reach the API.
    """
    configured = settings.origins.get("DEFAULT.auth_strategy", "default") != "default"
    if configured or not settings.is_open:
        return settings
    default = dataclasses.replace(settings.default, auth_strategy="local")
    return dataclasses.replace(settings, default=default)


class _Supervisor:
    """The supervisor process: starts, watches and stops the roles."""

    def __init__(
        self, settings: Settings, options: Options, folder: Path, *, serves_files: bool
    ) -> None:
        self.settings = settings
        self.serves_files = serves_files  # whether the file server is one of the roles
        self.options = options
        self.folder = folder  # data directory
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
        gc.disable()  # imports create hardly any garbage
        for name in PRELOAD:
            importlib.import_module(name)
        gc.freeze()  # collections in the children leave these pages shared
        gc.enable()
        ROLES["check"](self.settings)
        if not self.await_migration(migrated):
            return 0
        if self.settings.default.auth_strategy == "local":
            ROLES["users"](self.settings)
        self.check_redis(own_redis)
        before = ROLES["alive"](self.settings)
        names = self.start_roles()
        if not self.await_ready(names, before):
            return 0
        url = base_url(self.settings)
        print(f"ready {url}\npage {url}/ui", flush=True)  # noqa: T201 - the contract
        logger.info("up.ready", url=url, data_dir=str(self.folder))
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
        work = partial(os.execve, program, command, without_settings())
        self.children.start("redis", "redis", work)
        broker = dataclasses.replace(self.settings.broker, url=f"redis+socket://{path}")
        self.settings = dataclasses.replace(self.settings, broker=broker)

    def start_migration(self) -> int:
        """
        Migrate the database in a child process; return the pipe that its result comes from.

        The result is an empty line, or a line with the error.
        """
        result, output = os.pipe()

        def work() -> None:
            try:
                migrate(self.settings)
                os.write(output, b"\n")
            except StartError as error:
                os.write(output, f"{error}\n".encode())

        fork(work)
        os.close(output)
        return result

    def await_migration(self, result: int) -> bool:
        """
        Wait for the migration; False: a signal stops the service.

        Raises StartError: the migration failed.
        """
        while not select.select([result], [], [], 0)[0]:
            if wait_for_signal(0.01) in STOPS:
                return False
        with open(result) as pipe:
            answer = pipe.read()
        if answer != "\n":
            raise StartError(answer.strip() or "the migration failed; see its log")
        return True

    def check_redis(self, own: bool) -> None:
        url, timeout = self.settings.broker.url, self.settings.broker.connect_timeout
        try:
            redis_server.await_answer(url, timeout, 10 if own else 0, cancelled=self.reaped)
        except (redis_server.RedisUnavailable, ValueError) as error:
            where = f"see {self.folder / 'redis.log'}" if own else "[broker]url"
            raise StartError(f"Redis ({where}): {error}") from None

    def reaped(self) -> bool:
        """Whether a child has ended."""
        return bool(self.children.reap())

    def start_roles(self) -> list[str]:
        """Fork the roles; return the names of the conductors."""
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
        if settings.metrics.port is not None:
            work = partial(become, settings, "exporter", ROLES["exporter"], True)
            start("exporter", "exporter", work)
        return names

    def await_ready(self, names: list[str], before: Mapping[str, str]) -> bool:
        """
        Wait until the API answers and every conductor has registered a new incarnation.

        before: name -> incarnation before the start. False: a signal stops the service.
        Raises StartError: a child has ended, or READY_TIMEOUT has passed.
        """
        end = time.monotonic() + READY_TIMEOUT
        missing = ["the API", *names]
        while missing:
            if wait_for_signal(0.02) in STOPS:
                return False
            for child in self.children.reap():
                raise StartError(f"{child.name} ended while it started; see its log")
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
        """Restart children that end, until a signal; return the exit status."""
        from app.db import sqlite  # here: the import takes long

        wait: float | None = None
        while wait_for_signal(wait) not in STOPS:
            self.children.reap()
            wait = self.children.start_due()
            if self.settings.database.connection.startswith("sqlite"):
                wait = min(wait or 1.0, 1.0)
                sqlite.release_stopped_writer(self.settings.database.connection)
        return 0

    def stop(self) -> None:
        """Stop all children; Redis last, as the other roles use it until they end."""
        self.children.restart = False
        timeout = self.settings.conductor.graceful_shutdown_timeout + 5
        others = [each for each in self.children.all if each.role != "redis"]
        self.children.stop(others, timeout)
        self.children.stop([each for each in self.children.all if each.role == "redis"], 10)
        self.children.kill_orphans()
        path = redis_server.socket_path(self.folder)
        if path.parent != self.folder:
            with contextlib.suppress(OSError):  # it does not exist if Redis is external
                path.unlink(missing_ok=True)
                path.parent.rmdir()
        if self.options.pidfile:
            self.options.pidfile.unlink(missing_ok=True)
        logger.info("up.stopped")

    def write_pidfile(self) -> None:
        """
        Write {"up": pid, "api": [pid], "conductors": {name: pid}, "beat": [pid], "redis": [pid]}.

        "api" has the pid of the API, and then that of the file server. With metrics there is
        "exporter": [pid], too.
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
                pids.setdefault(child.role, []).append(child.pid)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(pids) + "\n")
        temporary.replace(path)


def _answers(settings: Settings) -> bool:
    """Whether the API answers GET /."""
    host = base_url(settings).partition("://")[2]
    connection: http.client.HTTPConnection
    if settings.api.enable_ssl_api:
        # unverified: the certificate is not for loopback's name, and no data is exchanged
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
