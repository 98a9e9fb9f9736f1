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

from app.process.parent_death import die_with_parent
from tests.support import debian
from tests.support.fleet import PATIENCE

#: initdb and postgres refuse to run as root; they run as this account then.
ACCOUNT = "postgres"


class NoServer(Exception):
    """The server programs are missing and could not be installed; one line says why."""


class Server:
    """A running server; `folder` holds its data and its socket."""

    def __init__(self, folder):
        self.folder = folder
        self._database_count = 0

    def connect(self, database="postgres"):
        return psycopg.connect(f"postgresql:///{database}?{self._where}", autocommit=True)

    def execute(self, statement):
        with self.connect() as session:
            session.execute(statement)

    def rename(self, url, session):
        """End the sessions of a database, and rename it: return its URL; None if one goes on."""
        old, name = name_of(url), self._name()
        for _ in range(1000):
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [old]
            )
            try:
                session.execute(f"ALTER DATABASE {old} RENAME TO {name}")
                return f"postgresql:///{name}?{self._where}"
            except psycopg.errors.ObjectInUse:
                time.sleep(0.01)
        return None

    def _name(self):
        self._database_count += 1
        return f"t{self._database_count}"

    def database(self, template="template1"):
        """The URL of a new database, a copy of `template`."""
        name = self._name()
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return f"postgresql:///{name}?{self._where}"

    @property
    def pid(self):
        """Pid of the server's root process."""
        return int((Path(self.folder) / "data" / "postmaster.pid").read_text().split()[0])

    def drop(self, url):
        self.execute(f"DROP DATABASE {name_of(url)} WITH (FORCE)")

    @property
    def _where(self):
        return f"host={self.folder}&user={ACCOUNT}"


#: Digest of the properties that a database keeps if later tests use it: its tables, columns,
#: indices, constraints, triggers, functions, statistics and settings. Each change of one of them
#: writes a new version of its row in the catalog, with the number of its transaction; a copy has the
#: numbers of its template. The definitions as texts would cost more.
SCHEMA = """
SELECT md5(string_agg(part, ';' ORDER BY part)) FROM (
  SELECT concat('class', oid, '.', xmin) FROM pg_class WHERE relnamespace = 'public'::regnamespace
  UNION ALL SELECT concat('column', attrelid, '.', attnum, '.', pg_attribute.xmin) FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = 'public'::regnamespace
  UNION ALL SELECT concat('constraint', oid, '.', xmin) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace
  UNION ALL SELECT concat('index', indexrelid, '.', pg_index.xmin) FROM pg_index
    JOIN pg_class ON pg_class.oid = indrelid WHERE relnamespace = 'public'::regnamespace
  UNION ALL SELECT concat('trigger', oid, '.', xmin) FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT concat('function', oid, '.', xmin) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT concat('schema', oid, '.', xmin) FROM pg_namespace WHERE nspname !~ '^pg_'
  UNION ALL SELECT concat('statistics', starelid, '.', staattnum) FROM pg_statistic
    WHERE starelid >= 16384
  UNION ALL SELECT concat('setting', setrole, '.', setconfig) FROM pg_db_role_setting
    WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
) AS parts (part)
"""
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'"
#: Bytes that a database may have grown by; a larger one is slower to read.
GROWN = 4_000_000


class Copies:
    """
    Copies of a template database. One that a test gives back is emptied for the next test, under
    another name, unless its schema was changed: that costs a tenth of a new copy.

    session: renames the copies; a new session for each would cost as much again.
    """

    def __init__(self, server, session, template):
        self._server, self._session, self._template = server, session, template
        self._free = []
        with server.connect(template) as here:
            self._schema, self._size = _shape(here)
            self._tables = [name for (name,) in here.execute(TABLES)]
            self._sequences = [name for (name,) in here.execute(SEQUENCES)]
            counts = {name: here.execute(f"SELECT count(*) FROM {name}") for name in self._tables}
            filled = [name for name, cursor in counts.items() if cursor.fetchone()[0]]
            self._rows = {name: b"".join(_lines(here, name)) for name in filled}

    def take(self):
        """The URL of a copy that no process uses."""
        return self._free.pop() if self._free else self._server.database(self._template)

    def give_back(self, url):
        """Empty a copy for the next test, or drop it."""
        renamed = self._server.rename(url, self._session)
        if renamed and self._emptied(renamed):
            self._free.append(renamed)
        else:
            self._server.drop(renamed or url)

    def _emptied(self, url):
        with self._server.connect(name_of(url)) as session:
            schema, size = _shape(session)
            if schema != self._schema or size > self._size + GROWN:
                return False
            empty = [f"DELETE FROM {name}" for name in self._tables]
            empty += [f"SELECT setval('{name}', 1, false)" for name in self._sequences]
            # in this role, the order of tables with foreign keys does not matter
            session.execute("SET session_replication_role = replica;" + ";".join(empty))
            for name, lines in self._rows.items():
                with session.cursor().copy(f"COPY {name} FROM STDIN") as rows:
                    rows.write(lines)
        return True


def _shape(session):
    """Return a digest of a database's schema, and its size."""
    (schema,) = session.execute(SCHEMA).fetchone()
    return schema, session.execute("SELECT pg_database_size(current_database())").fetchone()[0]


def _lines(session, table):
    with session.cursor().copy(f"COPY {table} TO STDOUT") as rows:
        yield from (bytes(row) for row in rows)


def names_in(folder):
    return set(os.listdir(folder)) if folder.is_dir() else set()


def name_of(url):
    return url.partition("///")[2].partition("?")[0]


@contextmanager
def serving():
    """Run a private server, which ends with the block. Raises NoServer."""
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
    """Arguments of `subprocess` that run a server program as an account other than root."""
    if os.geteuid():
        return {}
    return {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []}


def initialised(folder, **other_settings):
    """
    Initialise a server in an empty folder; return its command line. Raises NoServer.

    other_settings: settings of the server besides those that trade durability for speed.
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
        "shared_buffers": "32MB", "log_min_messages": "fatal", **other_settings,
    }  # fmt: skip
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [str(programs / "postgres"), "-D", data, *options]


def await_answer(server):
    """Wait until the server accepts connections. Raises NoServer."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            server.execute("SELECT 1")
            return
        except psycopg.OperationalError:
            time.sleep(0.02)
    raise NoServer("the PostgreSQL server did not start")


def find():
    """The directory of the server programs. Raises NoServer."""
    folder = debian.provide(_installed, "postgresql")
    if folder is None:
        raise NoServer("no PostgreSQL server programs (initdb, postgres) on this machine")
    return folder


def _installed():
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(folder) for folder in os.get_exec_path()]
    complete = (folder for folder in folders if {"initdb", "postgres"} <= names_in(folder))
    return next(complete, None)
