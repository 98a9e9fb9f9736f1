"""
`ingot up`: runs the whole service under one supervisor.

The supervisor forks its children, the roles. It has one thread and waits for signals.
Its Redis and a SQLite database are in the data directory, which only one supervisor may use.
"""

import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.config.settings import Settings
from app.observe import log
from app.process import fork_memory, own_server, vital_signs
from drivers.net.child_environment import without_settings
from workers.supervisor import location, permissions, redis_server, roles
from workers.supervisor.children import Children, result_of, wait_for_signal, watch_signals
from workers.supervisor.examinations import Examinations, examine
from workers.supervisor.location import StartError, base_url

logger = log.get(__name__)

#: Seconds for the whole service to become ready.
READY_TIMEOUT = 60.0
#: Signals that stop the service.
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `ingot up` that are no settings."""

    conductors: int = 1  # number of conductors
    pidfile: Path | None = None  # None: none is written
    restart: bool = True  # restart children that end


def run(settings: Settings, options: Options) -> int:
    """
    Start all roles, print `ready <url>`, and supervise them until a signal. Return the exit status.

    Raises StartError.
    Raises SettingsError.
    """
    vital_signs.begin(os.environ)
    vital_signs.report("starts")
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
        roles.preload()
        roles.ROLES["check"](self.settings)
        if not self.await_result(migrated):
            return 0
        if self.settings.default.auth_strategy == "local":
            roles.ROLES["users"](self.settings)
        self.check_redis(own_redis)
        roles.ROLES["prepare"](self.settings)
        former_incarnations = roles.ROLES["alive"](self.settings)
        fork_memory.share()
        names = self.start_roles()
        # in a child, as the pages that it writes to are then given back
        ready = result_of(lambda: _await_ready(self.settings, names, former_incarnations))
        if not self.await_result(ready, of_roles=True):
            return 0
        self.children.restart = self.options.restart
        url = base_url(self.settings)
        print(f"ready {url}\npage {url}/ui", flush=True)  # noqa: T201 - the contract
        logger.info("up.ready", url=url, data_dir=str(self.folder))
        vital_signs.work(f"ready at {url}")
        return self.watch(Examinations(partial(examine, self.settings, names)))

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
        """Migrate the database in a child process; return the pipe of its result."""
        return result_of(lambda: roles.migrate(self.settings))

    def await_result(self, result: int, *, of_roles: bool = False) -> bool:
        """
        Wait for the result of a child process; False: a signal stops the service.

        Raises StartError: it failed; or, while it concerns the roles, one of these has ended.
        """
        while not select.select([result], [], [], 0)[0]:
            if wait_for_signal(0.01) in STOPS:
                return False
            for child in self.children.reap() if of_roles else ():
                raise StartError(f"{child.name} ended while it started; see its log")
        with open(result) as pipe:
            answer = pipe.read()
        if answer != "\n":
            raise StartError(answer.strip() or "the start failed; see its log")
        return True

    def check_redis(self, is_bundled: bool) -> None:
        url, timeout = self.settings.broker.url, self.settings.broker.connect_timeout
        try:
            redis_server.await_answer(url, timeout, 10 if is_bundled else 0, cancelled=self.reaped)
        except (redis_server.RedisUnavailable, ValueError) as error:
            place = f"see {self.folder / 'redis.log'}" if is_bundled else "[broker]url"
            raise StartError(f"Redis ({place}): {error}") from None

    def reaped(self) -> bool:
        """Whether a child has ended."""
        return bool(self.children.reap())

    def start_roles(self) -> list[str]:
        """Fork the roles; return the names of the conductors."""
        settings = self.settings
        host = settings.default.host or socket.gethostname()
        names = [f"{host}-{number}" for number in range(1, self.options.conductors + 1)]
        start = self.children.start
        start("api", "api", partial(roles.become, settings, "api", roles.ROLES["api"]))
        if self.serves_files:
            start("api", "files", partial(roles.become, settings, "files", roles.ROLES["files"]))
        for name in names:
            work = partial(roles.become, settings, name, roles.ROLES["conductor"], name)
            start("conductors", name, work)
        start("beat", "beat", partial(roles.become, settings, "beat", roles.ROLES["beat"]))
        if settings.metrics.port is not None:
            work = partial(roles.become, settings, "exporter", roles.ROLES["exporter"], True)
            start("exporter", "exporter", work)
        return names

    def watch(self, examinations: Examinations) -> int:
        """Restart children that end, until a signal; return the exit status."""
        from app.db import sqlite  # here: the import takes long

        wait: float | None = 0.0  # an examination may be due before the first signal
        while wait_for_signal(wait) not in STOPS:
            self.children.reap()
            waits = (self.children.start_due(), examinations.go_on())
            wait = min((seconds for seconds in waits if seconds is not None), default=None)
            if self.settings.database.connection.startswith("sqlite"):
                wait = min(wait or 1.0, 1.0)
                sqlite.release_stopped_writer(self.settings.database.connection)
        return 0

    def stop(self) -> None:
        """Stop all children; Redis last, as the other roles use it until they end."""
        vital_signs.stop("ends its roles")
        self.children.restart = False
        timeout = self.settings.conductor.graceful_shutdown_timeout + 5
        children = [child for child in self.children.all if child.role != "redis"]
        self.children.stop(children, timeout)
        self.children.stop([child for child in self.children.all if child.role == "redis"], 10)
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


def _await_ready(
    settings: Settings, names: Sequence[str], former_incarnations: Mapping[str, str]
) -> None:
    """
    Wait until the API answers and every conductor has registered a new incarnation.

    names: of the conductors. former_incarnations: name -> incarnation before the start.
    Raises StartError: READY_TIMEOUT has passed.
    """
    end = time.monotonic() + READY_TIMEOUT
    _await(lambda: [] if _answers(settings) else ["the API", *names], end)
    _await(lambda: _not_registered(settings, names, former_incarnations), end)


def _await(find_missing: Callable[[], Sequence[str]], end: float) -> None:
    """
    Wait until nothing is missing.

    Raises StartError: it is later than `end`, a monotonic time.
    """
    while absent := find_missing():
        if time.monotonic() > end:
            raise StartError(f"not ready after {READY_TIMEOUT:g} s: {', '.join(absent)}")
        time.sleep(0.02)


def _not_registered(
    settings: Settings, names: Sequence[str], former_incarnations: Mapping[str, str]
) -> Sequence[str]:
    """Return the conductors that have not registered a new incarnation yet."""
    incarnations = roles.ROLES["alive"](settings)
    return [
        name for name in names if incarnations.get(name) in (None, former_incarnations.get(name))
    ]


def _answers(settings: Settings) -> bool:
    """Whether the API answers GET /."""
    api = settings.api
    status = own_server.status(api.host_ip, api.port, tls=api.enable_ssl_api)
    return status is not None and status < 500
