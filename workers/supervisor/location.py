"""
Data directory, ports and URLs of the service: defaults for settings that are not set.
"""

import base64
import contextlib
import dataclasses
import errno
import fcntl
import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from app.config.settings import Settings
from app.metrics import recording
from app.observe import log
from app.process import own_server
from drivers.net import service_addresses
from workers.supervisor import redis_server

logger = log.get(__name__)

DATABASE = "ingot.db"  # in the data directory
#: Seconds to wait for the lock of a data directory whose processes are just ending.
LOCK_TIMEOUT = 2.0


class StartError(Exception):
    """The service cannot start; the message is one line with the reason."""


def data_dir(settings: Settings) -> Path:
    """Return the data directory: [DEFAULT]data_dir, `.ingot`, or the user's state directory."""
    if settings.default.data_dir:
        return Path(settings.default.data_dir).expanduser().resolve()
    local_folder = Path(".ingot").resolve()
    if local_folder.is_dir() or os.access(local_folder.parent, os.W_OK):
        return local_folder
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state, "ingot").resolve()


def key_file(settings: Settings) -> Path | None:
    """Return the path of the service's master key, unless the settings have a key or database."""
    database = settings.database
    if database.connection or database.secrets_key_file or database.secrets_key:
        return None
    folder = data_dir(settings)
    return folder.with_name(f"{folder.name}.key")


def make_key(settings: Settings) -> None:
    """
    Create the master key of the service's own database, next to the data directory.

    None is created for a database with sealed values: its key is missing, and a new one opens
    nothing. The start then names the key that it needs.
    """
    path = key_file(settings)
    if path is None or path.exists() or _has_data_keys(data_dir(settings) / DATABASE):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
    except FileExistsError:  # by another `ingot up`, at the same time
        pass
    except OSError as error:
        logger.warning("secrets.no_key", path=str(path), detail=error.strerror)


def _has_data_keys(database: Path) -> bool:
    """Return whether a database has keys that a master key has encrypted."""
    if not database.is_file():
        return False
    try:
        with contextlib.closing(
            sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
        ) as connection:
            return connection.execute("SELECT 1 FROM data_keys LIMIT 1").fetchone() is not None
    except sqlite3.Error:  # without this table, or unreadable: the start fails with the reason
        return False


def complete(settings: Settings) -> Settings:
    """Return the settings with paths and URLs that depend on the data directory filled in."""
    folder, key = data_dir(settings), key_file(settings)
    own_key = str(key) if key is not None and key.exists() else settings.database.secrets_key_file
    url = settings.database.connection or f"sqlite:///{folder / DATABASE}"
    deploy, pxe = settings.deploy, settings.pxe
    files_url = deploy.http_url or (deploy.http_port and _files_url(settings, deploy.http_port))
    return dataclasses.replace(
        settings,
        default=dataclasses.replace(settings.default, data_dir=str(folder)),
        database=dataclasses.replace(settings.database, connection=url, secrets_key_file=own_key),
        deploy=dataclasses.replace(
            deploy,
            http_root=deploy.http_root or str(folder / "httpboot"),
            http_url=files_url or None,
        ),
        pxe=dataclasses.replace(
            pxe,
            tftp_root=pxe.tftp_root or str(folder / "tftpboot"),
            instance_master_path=pxe.instance_master_path or str(folder / "master_images"),
        ),
    )


def with_own_redis(settings: Settings) -> Settings:
    """Return the settings with the URL of the service's own Redis, if that is running."""
    path = redis_server.socket_path(Path(settings.default.data_dir))
    if settings.broker.url or not path.exists():
        return settings
    broker = dataclasses.replace(settings.broker, url=f"redis+socket://{path}")
    return dataclasses.replace(settings, broker=broker)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """
    Lock the data directory.

    The children inherit the lock, so it is released when the last of them has ended.
    Raises StartError: the directory is in use, or cannot be created or read.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        list(folder.iterdir())  # raises an error if it is not readable
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartError(f"data directory {folder}: {error.strerror}") from None
    os.set_inheritable(fd, True)
    try:
        end = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise StartError(f"data directory {folder}: {error.strerror}") from None
                if time.monotonic() > end:
                    holder = os.pread(fd, 20, 0).decode().strip() or "unknown"
                    raise StartError(
                        f"data directory {folder}: in use by another ingot up, process {holder}"
                    ) from None
                time.sleep(0.02)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield folder
    finally:
        os.close(fd)


def with_port(settings: Settings) -> Settings:
    """
    Return the settings with a free port for the API.

    Raises StartError.
    """
    port = _free(settings.api.host_ip, settings.api.port)
    return dataclasses.replace(settings, api=dataclasses.replace(settings.api, port=port))


def with_files(settings: Settings) -> Settings:
    """
    Return the settings with port and URL of the file server of `ingot up`.

    Raises StartError.
    """
    port = _free(settings.api.host_ip, settings.deploy.http_port, settings.api.port)
    url = _files_url(settings, port)
    deploy = dataclasses.replace(settings.deploy, http_port=port, http_url=url)
    return dataclasses.replace(settings, deploy=deploy)


def prepare_metrics(settings: Settings) -> Settings:
    """
    Let this process and its descendants record metrics, unless they are off.

    Returns the settings with a free port for the exporter. Raises StartError.
    """
    metrics = settings.metrics
    if metrics.port is None:
        return settings
    port = _free(metrics.host_ip, metrics.port, settings.api.port)
    folder = Path(settings.default.data_dir) / "metrics"
    try:
        recording.prepare(folder)
    except OSError as error:
        raise StartError(f"{error.filename or folder}: {error.strerror}") from None
    return dataclasses.replace(settings, metrics=dataclasses.replace(metrics, port=port))


def _files_url(settings: Settings, port: int) -> str:
    scheme = "https" if settings.deploy.enable_ssl_files else "http"
    return f"{scheme}://{service_addresses.in_url(service_addresses.of_host(settings.options()))}:{port}"


def _free(host: str, port: int, other_port: int = 0) -> int:
    """
    Return `port` if it is free; for 0, any free port but `other_port`, the API's.

    Raises StartError.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            port_number = int(probe.getsockname()[1])
    except OSError as error:
        reason = "in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise StartError(f"port {port} of {host}: {reason}") from None
    if port_number != other_port:
        return port_number
    if port:
        raise StartError(f"port {port} of {host}: it is [api]port, too")
    return _free(host, port, other_port)


def base_url(settings: Settings) -> str:
    """Return the API's URL for clients on this host."""
    host = own_server.reached_at(settings.api.host_ip)
    scheme = "https" if settings.api.enable_ssl_api else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.api.port}"
