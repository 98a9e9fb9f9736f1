"""A private MariaDB server: on a unix socket, in a folder of its own, gone with its caller."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from app.process.parent_death import die_with_parent
from tests.support import debian
from tests.support.fleet import PATIENCE
from tests.support.postgresql import NoServer


def find():
    """Return the paths of the server and of the program that makes its data. Raises NoServer."""
    paths = debian.provide(_find, "mariadb-server")
    if paths is None:
        raise NoServer("MariaDB is not installed: apt-get install mariadb-server")
    return paths


def _find():
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    paths = [shutil.which(name, path=path) for name in ("mariadbd", "mariadb-install-db")]
    return paths if all(paths) else None


@contextmanager
def database(folder, name):
    """Start a server with an empty database; yield the URL of that."""
    server, installer = find()
    data, socket = Path(folder, "data"), Path(folder, "mariadb.sock")
    account = ["--user=root"] if os.geteuid() == 0 else []
    subprocess.run(
        [installer, "--no-defaults", *account, f"--datadir={data}", "--skip-test-db",
         "--auth-root-authentication-method=normal"],
        check=True, capture_output=True, timeout=PATIENCE,
    )  # fmt: skip
    parent = os.getpid()
    with Path(folder, "mariadb.log").open("w") as log:
        process = subprocess.Popen(
            [server, "--no-defaults", *account, f"--datadir={data}", f"--socket={socket}",
             "--skip-networking", f"--pid-file={folder}/mariadb.pid", "--innodb-flush-log-at-trx-commit=0"],
            stdout=log, stderr=log,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - no other thread yet
        )  # fmt: skip
    try:
        _create(process, socket, name)
        yield f"mysql+pymysql://root@/{name}?unix_socket={socket}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def _create(process, socket, name):
    """Wait until the server answers, and create a database."""
    import pymysql  # of the extra `mysql`

    end = time.monotonic() + PATIENCE
    while True:
        try:
            connection = pymysql.connect(unix_socket=str(socket), user="root")
            break
        except pymysql.err.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.1)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb3")
