"""
The API's processes: granian in front of the application.

granian forks them from this one, which has made the application: a process begins to serve some
ten milliseconds after its fork. What cannot be shared (the connections to database and broker) is
opened afterwards, by each for itself.
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

#: Seconds after which a process that was told to stop is killed.
PATIENCE = 1
#: Objects that are made before Python looks for garbage: more than most requests leave at once.
UNSEEN = 20_000
#: Files that a process has open beside its connections, at most.
OTHER_FILES = 256
#: glibc's `mallopt`: M_TRIM_THRESHOLD, so much free memory is kept; M_MMAP_THRESHOLD, blocks of so
#: much never are; M_ARENA_MAX, as all threads would keep theirs, and Python lets only one run.
MEMORY = {-1: 16 << 20, -3: 32 << 20, -8: 2}
#: Nothing of granian's own: its lines go where ours go.
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

    Raises SettingsError when a setting does not let it: a certificate, a way to log in, a driver.
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
        shared.send, shared.asks = queue.sender(application), queue.Asks(application, settings)
        broker = settings.broker
        shared.refusals = Refusals(client(broker.url, broker.connect_timeout), broker.prefix)
        gc.freeze()  # what is loaded by now stays, and is no longer looked through
        gc.set_threshold(UNSEEN)
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
        http=HTTPModes.http1,  # of HTTP/2, a body that never arrives cannot be given up
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=LOGGING,
        ssl_cert=pair and pair[0],
        ssl_key=pair and pair[1],
        respawn_failed_workers=True,
        respawn_interval=0,
        workers_kill_timeout=PATIENCE,
    )
    logger.info("api.started", host=api.host_ip, port=api.port, processes=api.api_workers)
    server.serve(target_loader=load, wrap_loader=False)


def _connections(wanted: int) -> int:
    """How many connections a process may have, of those wanted: as many as it may open files."""
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
    What a large page took stays with the process: to give it back each time, and to ask for it
    again, costs as much as half of the page. Other libraries than glibc do not know of it.
    """
    with suppress(OSError, AttributeError):
        allocator = ctypes.CDLL(None)
        for parameter, size in MEMORY.items():
            allocator.mallopt(parameter, size)
