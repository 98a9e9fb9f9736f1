"""
The API's processes: granian in front of the WSGI application.

The parent process creates the application and granian forks the others from it, so that a process
serves some ten milliseconds after its fork. Connections to database and broker cannot be shared:
each process opens its own after the fork.
"""

import ctypes
import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from wsgiref.types import WSGIApplication

from flask import Flask
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from app import runtime
from app.api.agent.heartbeat_fast_path import MOST
from app.api.authentication import passwords
from app.api.request.context import services_of
from app.api.transport import request_body
from app.broker import backlog, queue
from app.broker.calls import RedisCalls
from app.broker.consoles import ConsoleChannel
from app.broker.redis_broker import client
from app.broker.refused_lookups import Refusals
from app.config.settings import Settings
from app.db.sealing import keyring_of
from app.events.event_feed import EventFeed
from app.metrics import recording
from app.observe import log
from app.process import kill_points, own_server, tracing, vital_signs
from app.process.before_fork import BuiltBeforeFork
from app.process.parent_death import die_with_parent
from app.server import gateway, tls_files
from app.server.application import AGENTS_AT_ONCE, AGENTS_QUEUED, QUEUED, create_app

logger = log.get(__name__)

STOPS = (signal.SIGTERM, signal.SIGINT)
#: Seconds between SIGTERM and SIGKILL for a process.
STOP_TIMEOUT = 1
#: Seconds between replacements of killed processes.
RESPAWN_PAUSE = 0.5
#: Seconds between the requests to itself until the first is answered.
FIRST_REQUESTS = 0.1
#: Connections that may wait to be accepted; the kernel lowers it to net.core.somaxconn.
BACKLOG = 1024
#: Allocations between garbage collections: more than most requests leave behind.
GC_THRESHOLD = 20_000
#: Seconds for which a thread that computes keeps the interpreter from others (default: 0.005): a
#: short request, which gives it up at each query, waits that long each time while a list is
#: computed.
SWITCH = 0.001
#: Most open files of a process besides its connections.
OTHER_FILES = 256
#: Parameter of glibc's `mallopt` -> value. M_TRIM_THRESHOLD: bytes of free memory that are kept.
#: M_MMAP_THRESHOLD: larger blocks are returned at once. M_ARENA_MAX: few, as every arena keeps
#: memory, and the interpreter lock lets only one thread run.
MALLOPT = {-1: 16 << 20, -3: 32 << 20, -8: 2}
#: granian adds no handlers of its own: its records reach the handler of `app.observe.log`.
LOGGING = {
    "version": 1,
    "incremental": True,  # else all handlers are closed, and all loggers visited
    "formatters": {},
    "handlers": {},
    "loggers": {
        "_granian": {"handlers": [], "propagate": True},
        "granian.access": {"handlers": [], "propagate": True},
    },
}


@BuiltBeforeFork
def application(settings: Settings) -> Flask:
    """
    Create the WSGI application; nothing of it opens a connection before a request.

    Raises SettingsError: see `create_app`.
    """
    celery, broker = queue.celery(settings), settings.broker
    api_runtime = runtime.make(settings, queue.sender(celery))
    keyring = keyring_of(api_runtime.engine.dialect)
    api_runtime.calls = RedisCalls(celery, settings, keyring)
    api_runtime.consoles = ConsoleChannel(settings, keyring)
    redis = client(broker.url, broker.connect_timeout)
    api_runtime.refusals = Refusals(redis, broker.prefix, celery.breakers.of_writes())
    messages = backlog.messages_of(celery, settings, redis)
    api_runtime.backlog = backlog.reader(messages, celery.breakers.of_queues())
    return create_app(api_runtime)


def main(settings: Settings) -> None:
    """
    Serve the API until SIGTERM or SIGINT.

    Raises SettingsError: the certificate, the authentication or a driver is not usable as set.
    """
    pair = tls_files.files(settings.api)
    kill_points.arm(settings.default.kill_points, "api")
    app = application(settings)
    services_of(app).runtime.engine.dispose()  # no process shares a connection
    multiprocessing.set_start_method("fork", force=True)
    api = settings.api
    master = os.getpid()

    def load() -> WSGIApplication:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until granian sets its own
        die_with_parent(master)
        recording.start()
        tracing.start(settings, "api")
        _close_at_stop(services_of(app).followers.tail)
        gc.freeze()  # the collector skips the objects that exist by now
        gc.set_threshold(GC_THRESHOLD)
        sys.setswitchinterval(SWITCH)
        _keep_memory()
        return app

    if vital_signs.are_noted(settings):
        Server.watched = settings
    server = _server(settings, pair)
    if settings.is_open:
        logger.warning("api.no_authentication", host=api.host_ip, setting="[DEFAULT]auth_strategy")
    if settings.trusts_host:
        logger.warning("api.links_by_host", host=api.host_ip, setting="[api]public_endpoint")
    logger.info("api.started", host=api.host_ip, port=api.port, processes=api.api_workers)
    server.serve(spawn_target=gateway.TARGET, target_loader=load, wrap_loader=False)


def _server(settings: Settings, pair: tuple[Path, Path] | None) -> "Server":
    """Return granian's server. pair: certificate and key, for TLS."""
    api = settings.api
    return Server(
        "ingot",
        api.host_ip,
        api.port,
        interface=Interfaces.WSGI,
        workers=api.api_workers,
        blocking_threads=_threads(settings),
        backlog=BACKLOG,
        backpressure=_connections(api.max_connections),
        http1_settings=HTTP1Settings(header_read_timeout=round(api.keep_alive_time * 1000)),
        loop=Loops.asyncio,
        http=HTTPModes.http1,  # with HTTP/2, an unfinished body cannot be timed out
        websockets=False,  # `app.server.gateway` has them, and granian's WSGI has none
        log_level=LogLevels.error,
        log_dictconfig=LOGGING,
        ssl_cert=pair and pair[0],
        ssl_key=pair and pair[1],
        respawn_failed_workers=True,
        respawn_interval=0,
        workers_kill_timeout=STOP_TIMEOUT,
    )


class Server(MPServer):  # type: ignore[misc]
    """
    granian's server, which outlives processes that are killed one after the other.

    granian ends, with all its processes, when one ends twice within 5.5 s. That is right for a
    process that cannot start, which ends by itself; a killed one can be replaced.

    While it serves, its parent process asks it for an answer at an interval: its vital sign.
    """

    #: Settings for the requests to itself, if its signs are noted.
    watched: Settings | None = None

    def _serve_loop(self, spawn_target: object, target_loader: object) -> None:
        self._ended = threading.Event()
        if self.watched is not None:  # the processes are forked by now
            thread = threading.Thread(target=self._ask, args=(self.watched,), daemon=True)
            thread.start()
        super()._serve_loop(spawn_target, target_loader)

    def _ask(self, settings: Settings) -> None:
        """Ask for an answer until the end; any one is a sign, be it that of a busy server."""
        api, interval = settings.api, FIRST_REQUESTS
        while not self._ended.wait(interval):
            if own_server.status(api.host_ip, api.port, tls=api.enable_ssl_api) is not None:
                vital_signs.work(f"serves {api.host_ip}:{api.port}")
                interval = vital_signs.REQUEST_INTERVAL

    def shutdown(self, exit_code: int = 0) -> None:
        vital_signs.stop("ends its requests")
        self._ended.set()
        super().shutdown(exit_code)

    def _respawn_workers(
        self, workers: list[int], spawn_target: object, target_loader: object, delay: float = 0
    ) -> None:
        killed = [index for index in workers if (self.wrks[index].inner.exitcode or 0) < 0]
        super()._respawn_workers(workers, spawn_target, target_loader, delay)
        for index in killed:
            self.respawned_wrks.pop(index, None)
        if killed:
            time.sleep(RESPAWN_PAUSE)  # however soon they die, granian does not end


def _close_at_stop(tail: EventFeed) -> None:
    """
    Close the tail at SIGTERM or SIGINT, so that requests that follow events end regularly.

    granian sets handlers of its own afterwards, so the signals arrive in a pipe.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def wait() -> None:
        while os.read(reading, 1)[0] not in STOPS:
            pass
        tail.close()

    threading.Thread(target=wait, name="stop", daemon=True).start()


def _threads(settings: Settings) -> int:
    """
    Return the number of threads of a process: a number for each kind of request, so that many
    requests of one kind leave threads for the others.
    """
    api = settings.api
    waiting = 2 * api.waiting_threads + api.polling_threads + api.event_streams + passwords.CHECKED
    waiting += settings.console.streams
    agents = AGENTS_AT_ONCE + 2 * AGENTS_QUEUED + 2 * MOST
    reading = request_body.AT_ONCE + request_body.QUEUED + request_body.LARGE_QUEUED
    callers = 2 * (api.blocking_threads + QUEUED)  # reads, and writes
    return callers + waiting + agents + reading


def _connections(connections: int) -> int:
    """Limit the wanted number of connections per process to its limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    file_limit = connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < file_limit:
        soft = file_limit if hard == resource.RLIM_INFINITY else min(file_limit, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < file_limit:
            logger.warning("api.too_few_files", limit=hard, needed=file_limit)
            return max(soft - OTHER_FILES, 1)
    return connections


def _keep_memory() -> None:
    """
    Keep freed memory in the process.

    Returning the memory of a large page to the kernel, and requesting it again, costs half as much
    as the page itself. Other C libraries than glibc lack these parameters.
    """
    with suppress(OSError, AttributeError):
        allocator = ctypes.CDLL(None)
        for parameter, size in MALLOPT.items():
            allocator.mallopt(parameter, size)
