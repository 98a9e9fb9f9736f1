"""A private PostgreSQL server: on a unix socket, in a temporary directory, without fsync."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg

from app.parent import die_with_parent
from tests.support import debian

#: initdb and postgres refuse to run as root; this account is what they run as then.
ACCOUNT = "postgres"


class NoServer(Exception):
    """There are no server programs, and they could not be installed; one line says why."""


class Server:
    """A running server; `folder` holds its data and its socket."""

    def __init__(self, folder):
        self._folder = folder
        self._made = 0

    def execute(self, statement):
        with psycopg.connect(f"postgresql:///postgres?{self._where}", autocommit=True) as session:
            session.execute(statement)

    def database(self, template="template1"):
        """The URL of a new database, a copy of `template`."""
        self._made += 1
        name = f"t{self._made}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return f"postgresql:///{name}?{self._where}"

    @property
    def pid(self):
        """Of the process that all others of the server come from."""
        return int((Path(self._folder) / "data" / "postmaster.pid").read_text().split()[0])

    def drop(self, url):
        self.execute(f"DROP DATABASE {name_of(url)} WITH (FORCE)")

    @property
    def _where(self):
        return f"host={self._folder}&user={ACCOUNT}"


def names_in(folder):
    return set(os.listdir(folder)) if folder.is_dir() else set()


def name_of(url):
    return url.partition("///")[2].partition("?")[0]


@contextmanager
def serving():
    """A server of our own, gone in the end. Raises NoServer."""
    with tempfile.TemporaryDirectory(prefix="ingot-pg-") as folder:
        parent = os.getpid()
        command = initialised(folder)
        with subprocess.Popen(
            command, stderr=subprocess.DEVNULL, cwd="/", **as_account(),
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - no other thread yet
        ) as server:  # fmt: skip
            try:
                await_answer(Server(folder))
                yield Server(folder)
            finally:
                server.send_signal(signal.SIGQUIT)  # no farewells: nothing here lasts


def as_account():
    """What makes `subprocess` run a server program as somebody else than root."""
    if os.geteuid():
        return {}
    return {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []}


def initialised(folder, **more):
    """
    The command line of a server in an empty folder, its data made ready there. Raises NoServer.

    more: settings of the server that differ from those of a server that may lose everything.
    """
    programs = find()
    if not os.geteuid():
        shutil.chown(folder, ACCOUNT, ACCOUNT)
    data = f"{folder}/data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", ACCOUNT, "-A", "trust", "-E", "UTF8",
         "--locale=C", "--no-sync", "--no-instructions"],
        check=True, capture_output=True, cwd="/", **as_account(),
    )  # fmt: skip
    settings = {
        "listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off",
        "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200",
        "shared_buffers": "32MB", "log_min_messages": "fatal", **more,
    }  # fmt: skip
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [str(programs / "postgres"), "-D", data, *options]


def await_answer(server):
    """Return once it takes connections. Raises NoServer."""
    for _ in range(500):
        try:
            server.execute("SELECT 1")
            return
        except psycopg.OperationalError:
            time.sleep(0.02)
    raise NoServer("the PostgreSQL server did not start")


def find():
    """The directory of the server programs. Raises NoServer."""
    found = debian.provide(_installed, "postgresql")
    if found is None:
        raise NoServer("no PostgreSQL server programs (initdb, postgres) on this machine")
    return found


def _installed():
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(each) for each in os.get_exec_path()]
    complete = (each for each in folders if {"initdb", "postgres"} <= names_in(each))
    return next(complete, None)
