"""
PostgreSQL on two hosts: a primary and its standby, which fail over and come back by pg_rewind.

The data is in memory, in a file system of a size, so that its disk can be really full.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.chaos.disks import Disk
from tests.hosts import isolation
from tests.support import postgresql
from tests.support.fleet import until
from tests.support.processes import children

HOSTS = ("db-1", "db-2")
NAME = "ingot"
SIZE = 600  # MiB of each disk
SETTINGS = {
    "listen_addresses": "*", "synchronous_commit": "on", "full_page_writes": "on",
    "wal_log_hints": "on", "wal_keep_size": "128MB", "max_wal_size": "128MB",
    "min_wal_size": "32MB", "max_connections": "120", "deadlock_timeout": "500ms",
    "wal_sender_timeout": "5s", "wal_receiver_timeout": "5s", "wal_retrieve_retry_interval": "500ms",
    "hot_standby_feedback": "off",
}  # fmt: skip

#: In a file, because pg_rewind starts the server without the options of the command line.
REWINDABLE = "wal_log_hints = on\nfull_page_writes = on\nfsync = off\nwal_keep_size = 128MB\n"


class Pair:
    """The two servers. folder: where their disks are mounted. start: runs a command on a host."""

    def __init__(self, folder, network, start):
        self._folder, self._network, self._start = Path(folder), network, start
        self.primary, self.standby = HOSTS
        self.disks, self._programs, self._commands = {}, {}, {}
        self._crowd = []

    @property
    def url(self):
        """URL of the service's database, on both hosts."""
        hosts = ",".join(self._network.address(host) for host in HOSTS)
        return f"postgresql://{NAME}@{hosts}/{NAME}?target_session_attrs=read-write&sslmode=disable"

    def begin(self):
        """Create both servers."""
        for host in HOSTS:
            path = self._folder / host
            path.mkdir()
            isolation.mount_memory(path, options=f"size={SIZE}m,mode=755")
            self.disks[host] = Disk(path)
        self._commands[self.primary] = postgresql.initialised(self._path(self.primary), **SETTINGS)
        data = self._path(self.primary) / "data"
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(REWINDABLE)
        with (data / "pg_hba.conf").open("a") as rules:
            for database in ("all", "replication"):
                rules.write(f"host {database} all 10.77.0.0/24 trust\n")
        self.run(self.primary)
        self.ask(self.primary, f"CREATE ROLE {NAME} LOGIN")
        self.ask(self.primary, f"CREATE DATABASE {NAME} OWNER {NAME}")
        other = self._path(self.standby)
        os.chown(other, *_owner(self._path(self.primary) / "data"))
        command = self._commands[self.primary]
        self._commands[self.standby] = [
            command[0], "-D", str(other / "data"),
            *(word.replace(f"/{self.primary}", f"/{self.standby}") for word in command[3:]),
        ]  # fmt: skip
        self._copy()
        self.run(self.standby)
        self.await_replication()

    def _path(self, host):
        return self._folder / host

    def run(self, host):
        """Start the server of a host."""
        self._programs[host] = self._start(host, self._commands[host])
        until(lambda: self._answers(host), f"PostgreSQL on {host}", 60)

    def _answers(self, host):
        with suppress(psycopg.OperationalError):
            return self.ask(host, "SELECT 1")
        return None

    def ask(self, host, question, *values, database="postgres"):
        """Send a statement to a host's server by its socket, without the network; return rows."""
        url = f"host={self._path(host)} user={postgresql.ACCOUNT} dbname={database}"
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as session:
            cursor = session.execute(question, values or None)
            return cursor.fetchall() if cursor.description else []

    def pids(self, host):
        """Pids of all processes of a host's server."""
        root = self._programs[host].pid
        return [root, *children(root)]

    def signal(self, host, number):
        for pid in self.pids(host):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self, host):
        """Kill all processes of a host's server, as a loss of power does."""
        self.signal(host, signal.SIGKILL)
        self._programs[host].wait(30)

    def lives(self, host):
        """Whether the server of a host runs."""
        return self._programs[host].poll() is None

    def start_again(self, host):
        """Start the server of a host that was killed; wait until it replicates again."""
        (self._path(host) / "data" / "postmaster.pid").unlink(missing_ok=True)
        self.run(host)
        self.await_replication()

    # replication

    def set_synchronous(self, on):
        """Have commits wait for the standby, or not."""
        names = "'*'" if on else "''"
        self._set(self.primary, "synchronous_standby_names", names)

    def stop_replication(self):
        """From now on the standby gets nothing of the primary's."""
        self._set(self.standby, "primary_conninfo", "''")
        until(lambda: not self._receives(), "the end of replication")

    def checkpoint(self):
        """Write a checkpoint on both servers, so that pg_rewind needs no WAL that was removed."""
        for host in (self.primary, self.standby):
            self.ask(host, "CHECKPOINT")

    def promote(self):
        """Promote the standby; the former primary must not run."""
        self.ask(self.standby, "SELECT pg_promote()")
        self.primary, self.standby = self.standby, self.primary

    def bring_back(self):
        """Bring the former primary back as the standby of the new one, by pg_rewind."""
        self._set(self.primary, "primary_conninfo", "''")
        data, source = self._path(self.standby) / "data", self._source()
        for name in ("postmaster.pid", "standby.signal"):
            (data / name).unlink(missing_ok=True)
        rewind = ["pg_rewind", "--target-pgdata", str(data), "--source-server", source, "--no-sync"]
        status = self._tool(self.standby, *rewind, "--write-recovery-conf")
        if status:
            raise AssertionError(f"pg_rewind has failed: {status}")
        self._follow(data)
        self.run(self.standby)
        self.await_replication()

    def await_replication(self):
        until(self._receives, "replication", 60)

    def _receives(self):
        rows = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'"
        return self.ask(self.standby, rows)[0][0]

    def _copy(self):
        data = str(self._path(self.standby) / "data")
        backup = ["pg_basebackup", "--pgdata", data, "--dbname", self._source(), "--no-sync"]
        assert not self._tool(self.standby, *backup, "--checkpoint", "fast")
        self._follow(Path(data))

    def _follow(self, data):
        """Make the server of a data directory a standby of the primary."""
        (data / "standby.signal").touch()
        with (data / "postgresql.auto.conf").open("w") as file:
            file.write(f"primary_conninfo = '{self._source()} application_name=standby'\n")
            file.write("recovery_target_timeline = 'latest'\n")
        for path in (data / "standby.signal", data / "postgresql.auto.conf"):
            os.chown(path, *_owner(data))

    def _source(self):
        address = self._network.address(self.primary)
        return f"host={address} user={postgresql.ACCOUNT} dbname=postgres sslmode=disable"

    def _tool(self, host, name, *words):
        command = [str(postgresql.find() / name), *words]
        return self._start(host, command).wait(120)

    def _set(self, host, name, value):
        self.ask(host, f"ALTER SYSTEM SET {name} = {value}")
        self.ask(host, "SELECT pg_reload_conf()")

    # connections

    def crowd(self):
        """Take all connections that are free."""
        address = self._network.address(self.primary)
        url = f"host={address} user={NAME} dbname={NAME} sslmode=disable"
        with suppress(psycopg.OperationalError):
            while True:
                self._crowd.append(psycopg.connect(url, autocommit=True, connect_timeout=5))

    def leave(self):
        while self._crowd:
            self._crowd.pop().close()


def _owner(path):
    about = path.stat()
    return about.st_uid, about.st_gid


def tools():
    """Return why the tools of replication cannot be used; None: they can."""
    folder = postgresql.find()
    missing = [name for name in ("pg_basebackup", "pg_rewind") if not (folder / name).exists()]
    return f"{', '.join(missing)} missing" if missing else None
