"""Redis and PostgreSQL servers with injectable faults."""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

import psycopg

from app.broker.redis_broker import client
from tests.support import postgresql
from tests.support.fleet import until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run
from tests.support.processes import children
from workers.supervisor import redis_server

#: Ends all connections of other clients.
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND application_name <> 'held'"
)


class PostgreSQL:
    """A server in its own folder. Raises NoServer."""

    CONNECTIONS = 40

    def __init__(self, folder):
        self.folder, self.connections = folder, []
        self.command = postgresql.initialised(
            folder, max_connections=str(self.CONNECTIONS), synchronous_commit="on"
        )
        self.server = postgresql.Server(folder)

    def start(self):
        self.process = subprocess.Popen(
            self.command, stderr=subprocess.DEVNULL, cwd="/", process_group=0,
            **postgresql.as_account(),
        )  # fmt: skip
        postgresql.await_answer(self.server)

    @cached_property
    def url(self):
        """URL of the server's database."""
        return self.server.database()

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        self.process.wait(30)

    def crash(self):
        self.stop(signal.SIGQUIT)

    def end(self):
        """End the server in any state."""
        if self.process.poll() is None:
            self.go_on()
            self.crash()

    def pause(self):
        self._signal(signal.SIGSTOP)

    def go_on(self):
        self._signal(signal.SIGCONT)

    def _signal(self, number):
        for pid in [self.process.pid, *children(self.process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def cut(self):
        with self._connect() as session:
            session.execute(CUT)

    def crowd(self):
        """Take all connections; those of other clients are ended."""
        self.connections.append(self._connect())
        until(self._crowded, "the use of every connection")

    def _crowded(self):
        self.connections[0].execute(CUT)
        with suppress(psycopg.OperationalError):
            while True:
                self.connections.append(self._connect())
        return len(self.connections) == self.CONNECTIONS

    def _connect(self):
        return psycopg.connect(self.url, application_name="held", autocommit=True)

    def leave(self):
        while self.connections:
            self.connections.pop().close()

    def only_read(self):
        self.server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        self.server.execute("SELECT pg_reload_conf()")
        until(self._only_reads, "the new configuration")

    def _only_reads(self):
        # the server tells its sessions to reload before it starts a new one with the new value
        with self._connect() as session:
            row = session.execute("SHOW default_transaction_read_only").fetchone()
        return row == ("on",)

    def write_again(self):
        self.server.execute("ALTER SYSTEM RESET default_transaction_read_only")
        self.server.execute("SELECT pg_reload_conf()")

    def watch_the_disk(self):
        """Check for space before each write: from now on a function simulates the full disk."""
        self.empty()
        with self._connect() as session:
            for table in ("nodes", "operations", "operation_steps", "conductors", "beat_lease"):
                session.execute(
                    f"CREATE TRIGGER disk BEFORE INSERT OR UPDATE ON {table}"
                    " EXECUTE FUNCTION disk()"
                )

    def fill(self):
        self._disk("RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'")

    def empty(self):
        self._disk("RETURN NULL")

    def _disk(self, does):
        """Replace the function, which locks no table."""
        with self._connect() as session:
            session.execute(
                "CREATE OR REPLACE FUNCTION disk() RETURNS trigger LANGUAGE plpgsql"
                f" AS $$ BEGIN {does}; END $$"
            )


@contextmanager
def a_folder():
    """A folder that the server's account can enter; without server programs the test is not run."""
    try:
        with tempfile.TemporaryDirectory(prefix="ingot-pg-") as folder:
            postgresql.find()
            yield Path(folder)
    except postgresql.NoServer as error:
        not_run(str(error))


@contextmanager
def running(server):
    """Run a server until the end of the block."""
    server.start()
    try:
        yield server
    finally:
        server.end()


@contextmanager
def a_postgresql():
    with a_folder() as folder, running(PostgreSQL(folder)) as server:
        yield server


class Replica(PostgreSQL):
    """A server that replicates another one, until it is cut off and promoted."""

    def __init__(self, folder, primary):
        super().__init__(folder)
        shutil.rmtree(f"{folder}/data")
        copy = ["--host", primary.folder, "--username", postgresql.ACCOUNT, "--write-recovery-conf"]
        subprocess.run(
            [postgresql.find() / "pg_basebackup", *copy, "--pgdata", f"{folder}/data"],
            check=True, capture_output=True, timeout=60, cwd="/", **postgresql.as_account(),
        )  # fmt: skip

    def cut_off(self):
        self.server.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.server.execute("SELECT pg_reload_conf()")
        until(lambda: not self.receives(), "the end of replication")

    def receives(self):
        return ask(self, "postgres", "SELECT count(*) FROM pg_stat_wal_receiver")

    def promote(self):
        self.server.execute("SELECT pg_promote()")


def ask(server, database, question):
    url = f"postgresql:///{database}?host={server.folder}&user={postgresql.ACCOUNT}"
    with psycopg.connect(url) as session:
        return session.execute(question).fetchone()[0]


class Redis:
    """A Redis on TCP, without persistence, with injectable faults."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "redis").mkdir(exist_ok=True)
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        command = redis_server.command(redis_server.find(), self.folder, self.folder / "r.sock")
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--appendonly", "no"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        redis_server.await_answer(self.url, 1, 20)

    def stop(self):
        self.process.kill()
        self.process.wait()

    end = stop

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def ask(self, *command):
        with client(self.url, 5) as session:
            session.execute_command(*command)

    def fill(self):
        self.ask("CONFIG", "SET", "maxmemory", "1")

    def empty(self):
        self.ask("CONFIG", "SET", "maxmemory", "0")

    def follow(self):
        self.ask("REPLICAOF", "127.0.0.1", "1")

    def lead(self):
        self.ask("REPLICAOF", "NO", "ONE")
