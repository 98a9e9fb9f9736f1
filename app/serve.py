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
from contextlib import suppress

from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from app import certificate, killpoints, log, runtime
from app.api.answers import Wsgi
from app.api.bodies import AT_ONCE
from app.api.heartbeats import MOST
from app.broker import queue
from app.broker.redis_broker import client
from app.config.settings import Settings
from app.kit.refused_lookups import Refusals
from app.main import create_app
from app.parent import die_with_parent

logger = log.get(__name__)

#: Seconds between SIGTERM and SIGKILL for a process.
STOP_TIMEOUT = 1
#: Allocations between garbage collections: more than most requests leave behind.
GC_THRESHOLD = 20_000
#: Most open files of a process besides its connections.
OTHER_FILES = 256
#: Parameter of glibc's `mallopt` -> value. M_TRIM_THRESHOLD: bytes of free memory that are kept.
#: M_MMAP_THRESHOLD: larger blocks are returned at once. M_ARENA_MAX: few, as every arena keeps
#: memory, and the interpreter lock lets only one thread run.
MALLOPT = {-1: 16 << 20, -3: 32 << 20, -8: 2}
#: granian adds no handlers of its own: its records reach the handler of `app.log`.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {},
    "handlers": {},
    "loggers": {
        "_granian": {"handlers": [], "propagate": True},
        "granian.access": {"handlers": [], "propagate": True},
    },
}


def main(settings: Settings) -> None:
    """
    Serve the API until SIGTERM or SIGINT.

    Raises SettingsError: the certificate, the authentication or a driver is not usable as set.
    """
    pair = certificate.files(settings.api)
    killpoints.arm(settings.default.kill_points, "api")
    shared = runtime.make(settings, send=lambda _message: False)
    app = create_app(shared)
    multiprocessing.set_start_method("fork", force=True)
    api = settings.api
    master = os.getpid()

    def load() -> Wsgi:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until granian sets its own
        die_with_parent(master)
        shared.engine.dispose(close=False)
        application = queue.celery(settings)
        shared.send, shared.asks = (
            queue.sender(application),
            queue.RedisCalls(application, settings),
        )
        broker = settings.broker
        shared.refusals = Refusals(client(broker.url, broker.connect_timeout), broker.prefix)
        gc.freeze()  # the collector skips the objects that exist by now
        gc.set_threshold(GC_THRESHOLD)
        _keep_memory()
        return app

    server = MPServer(
        "ingot",
        api.host_ip,
        api.port,
        interface=Interfaces.WSGI,
        workers=api.api_workers,
        blocking_threads=api.blocking_threads + api.waiting_threads + 2 * MOST + AT_ONCE,
        backlog=api.backlog,
        backpressure=_connections(api.max_connections),
        http1_settings=HTTP1Settings(header_read_timeout=round(api.keep_alive_time * 1000)),
        loop=Loops.asyncio,
        http=HTTPModes.http1,  # with HTTP/2, an unfinished body cannot be timed out
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=LOGGING,
        ssl_cert=pair and pair[0],
        ssl_key=pair and pair[1],
        respawn_failed_workers=True,
        respawn_interval=0,
        workers_kill_timeout=STOP_TIMEOUT,
    )
    logger.info("api.started", host=api.host_ip, port=api.port, processes=api.api_workers)
    server.serve(target_loader=load, wrap_loader=False)


def _connections(wanted: int) -> int:
    """Limit the wanted number of connections per process to its limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < needed:
            logger.warning("api.too_few_files", limit=hard, needed=needed)
            return max(soft - OTHER_FILES, 1)
    return wanted


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
