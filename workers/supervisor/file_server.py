"""
File server: serves `[deploy]http_root` to machines, agents and BMCs.

`ingot up` runs it unless `[deploy]http_url` is set. In production a web server of the site does
this, or `ingot files` on each host with conductors. It supports range requests, and lists no
folders: only a client that knows the name of a file can fetch it.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces, Loops
from granian.log import LogLevels
from granian.server.mp import MPServer
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.utils import send_from_directory
from werkzeug.wrappers import Request

from app import log
from app.config.settings import Settings
from app.parent import die_with_parent
from app.serve import LOGGING, STOP_TIMEOUT

logger = log.get(__name__)

#: Most concurrent requests; others wait.
THREADS = 32

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


def main(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    root = Path(settings.deploy.http_root)
    root.mkdir(parents=True, exist_ok=True)
    multiprocessing.set_start_method("fork", force=True)
    master = os.getpid()

    def load() -> Wsgi:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # until granian sets its handler
        die_with_parent(master)
        return served(root)

    server = MPServer(
        "files",
        settings.api.host_ip,  # machines reach both servers in one network
        settings.deploy.http_port,
        interface=Interfaces.WSGI,
        workers=1,
        blocking_threads=THREADS,
        loop=Loops.asyncio,
        http=HTTPModes.http1,
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=LOGGING,
        respawn_failed_workers=True,
        respawn_interval=0,
        workers_kill_timeout=STOP_TIMEOUT,
    )
    logger.info("files.started", root=str(root), port=settings.deploy.http_port)
    server.serve(target_loader=load, wrap_loader=False)


def served(root: Path) -> Wsgi:
    """Return a WSGI application that serves the files below a folder."""

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        try:
            if request.method not in ("GET", "HEAD"):
                raise MethodNotAllowed(["GET", "HEAD"])
            answer = send_from_directory(
                root, request.path.lstrip("/"), environ, mimetype="application/octet-stream"
            )
        except HTTPException as error:
            return error(environ, start_response)
        return answer(environ, start_response)

    return serve
