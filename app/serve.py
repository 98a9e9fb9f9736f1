"""
The API's processes: granian in front, and one application per process.

granian forks its processes from this one, so that all that was imported is shared, and a process
begins to serve some ten milliseconds after its fork.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces, Loops
from granian.server.mp import MPServer

from app import log, queue, runtime
from app.api import auth
from app.main import create_app
from app.parent import die_with_parent
from app.services.turns import Turns
from app.settings import Settings

logger = log.get(__name__)

#: Seconds after which a process that was told to stop is killed.
PATIENCE = 1
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

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


def main(settings: Settings) -> None:
    """
    Serve the API until SIGTERM or SIGINT.

    Raises SettingsError when nobody could ever log in, SystemExit when a process fails.
    """
    auth.make(settings)
    multiprocessing.set_start_method("fork", force=True)
    api = settings.api
    master = os.getpid()

    def load() -> Wsgi:
        die_with_parent(master)
        return application(settings)

    server = MPServer(
        "ingot",
        api.host_ip,
        api.port,
        interface=Interfaces.WSGI,
        workers=api.api_workers,
        blocking_threads=api.blocking_threads + api.waiting_threads,
        backlog=api.backlog,
        loop=Loops.asyncio,
        http=HTTPModes.auto,
        websockets=False,
        log_dictconfig=LOGGING,
        ssl_cert=Path(api.cert_file) if api.enable_ssl_api and api.cert_file else None,
        ssl_key=Path(api.key_file) if api.enable_ssl_api and api.key_file else None,
        respawn_failed_workers=True,
        respawn_interval=0,
        workers_kill_timeout=PATIENCE,
    )
    logger.info("api.started", host=api.host_ip, port=api.port, processes=api.api_workers)
    server.serve(target_loader=load, wrap_loader=False)


def application(settings: Settings) -> Wsgi:
    """What one process serves: its own runtime, and turns for its threads."""
    own = runtime.make(settings, queue.sender(queue.celery(settings)))
    app = create_app(own)
    turns = Turns(settings.api.blocking_threads, settings.api.waiting_threads)

    def in_turn(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with turns.taken():
            return app(environ, start_response)

    return in_turn
