"""
File server: serves `[deploy]http_root` to machines, agents and BMCs.

`ingot up` runs it unless `[deploy]http_url` is set. In production a web server of the site does
this, or `ingot files` on each host with conductors. It supports range requests, and lists no
folders: only a client that knows the name of a file can fetch it. The answer to GET / tells probes
whether the folder is readable.

A slow client occupies no thread. Each address has a limited number of connections, and each request
and response a limited time.
"""

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import ssl
import struct
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from werkzeug.security import safe_join

from app.config.settings import Settings
from app.observe import log
from app.process import own_server, vital_signs
from app.server import tls_files

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds for responses in progress at SIGTERM.
STOP_TIMEOUT = 1
#: Seconds for the header of a request, and for a response in addition to the time for its length.
REQUEST_TIMEOUT, RESPONSE_TIMEOUT = 30.0, 60.0
#: Answer to GET / if the folder is readable.
READABLE = 204
#: Connections of an address: machines behind a translation of addresses have one.
MAX_CONNECTIONS = 64
#: Least bytes per second of a response, after `RESPONSE_TIMEOUT`: a BMC with virtual media is slow.
LEAST_RATE = 65_536
BINARY = "application/octet-stream"


def main(settings: Settings) -> None:
    """
    Serve until SIGTERM or SIGINT.

    Raises SettingsError: HTTPS is enabled, and the certificate is not usable.
    """
    deploy = settings.deploy
    root = Path(deploy.http_root)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        # a volume of conductors, which make the folder in it; until then the probe answers 503
        logger.warning("files.no_folder", root=str(root))
    pair = tls_files.files(
        settings.api, "[deploy]enable_ssl_files", enabled=deploy.enable_ssl_files
    )
    context = None
    if pair:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*pair)
    asyncio.run(_serve(settings, root, context))


async def _serve(settings: Settings, root: Path, context: ssl.SSLContext | None) -> None:
    deploy = settings.deploy
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    files = FileServer(root, MAX_CONNECTIONS, LEAST_RATE)
    runner = web.ServerRunner(files, shutdown_timeout=STOP_TIMEOUT)
    await runner.setup()
    # machines reach the API and this server in one network
    site = web.TCPSite(runner, settings.api.host_ip, deploy.http_port, ssl_context=context)
    await site.start()
    logger.info("files.started", root=str(root), port=deploy.http_port, tls=context is not None)
    signs: list[asyncio.Task[None]] = []
    if vital_signs.are_noted(settings):
        signs.append(asyncio.create_task(_give_signs(settings)))
    await stop.wait()
    vital_signs.stop("ends its responses")
    for task in signs:
        task.cancel()
    await runner.cleanup()


async def _give_signs(settings: Settings) -> None:
    """Give a vital sign for each answer to a request of its own."""
    address, port = settings.api.host_ip, settings.deploy.http_port
    while True:
        # in a thread, as this one answers
        status = await asyncio.to_thread(
            own_server.status, address, port, tls=settings.deploy.enable_ssl_files
        )
        if status == READABLE:
            vital_signs.work(f"serves {settings.deploy.http_root}")
        else:
            vital_signs.report(f"{settings.deploy.http_root} is not readable")
        await asyncio.sleep(vital_signs.REQUEST_INTERVAL)


class FileServer(web.Server):
    """
    Serves the files below a folder.

    max_connections: connections per address; 0: no limit. rate: least bytes per second of a
    response.
    """

    def __init__(self, root: Path, max_connections: int, rate: int) -> None:
        # the timeout also ends a connection that has not sent a complete first request
        super().__init__(self._answer, keepalive_timeout=REQUEST_TIMEOUT, access_log=None)
        self._root, self._max_connections, self._rate = root, max_connections, rate
        self._open: Counter[str] = Counter()  # address -> its connections
        self._address: dict[object, str] = {}  # connection -> its address

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        address = _host_of(transport)
        self._address[handler] = address
        self._open[address] += 1
        if self._max_connections and self._open[address] > self._max_connections:
            seldom.warning(
                "files.too_many_connections", address=address, most=self._max_connections
            )
            _reset(transport)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        address = self._address.pop(handler)
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        if request.path == "/":  # a probe
            is_readable = await asyncio.to_thread(os.access, self._root, os.R_OK | os.X_OK)
            return web.Response(status=READABLE if is_readable else 503)
        file_entry = await asyncio.to_thread(self._find, request.path)
        if file_entry is None:
            # UEFI waits for the end of the connection after an empty answer, for half a minute;
            # a shim asks for several files that may be missing before it asks for GRUB
            return web.Response(status=404, text="There is no such file.\n")
        path, size = file_entry
        return _TimedFile(path, RESPONSE_TIMEOUT + size / self._rate)

    def _find(self, path: str) -> tuple[Path, int] | None:
        """Return a file and its size; None if there is no such file below the folder."""
        absolute_path = safe_join(str(self._root), path.lstrip("/"))
        if absolute_path is None or "\0" in absolute_path or not Path(absolute_path).is_file():
            return None
        return Path(absolute_path), Path(absolute_path).stat().st_size


class _TimedFile(web.FileResponse):
    """A file, sent within so many seconds; else the connection is reset."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(path, headers={"Content-Type": BINARY})
        self._seconds = seconds

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the file. aiohttp calls this once for each request."""
        try:
            async with asyncio.timeout(self._seconds):
                return await super().prepare(request)
        except TimeoutError:
            seldom.warning("files.too_slow", path=request.path, address=request.remote)
            if request.transport is not None:
                _reset(request.transport)
            raise ConnectionResetError from None


def _reset(transport: asyncio.Transport) -> None:
    """Close a connection at once; the kernel drops what the client has not read."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _host_of(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    address = ipaddress.ip_address(peer[0].partition("%")[0]) if peer else ""
    return str(getattr(address, "ipv4_mapped", None) or address)
