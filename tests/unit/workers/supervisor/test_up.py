"""The supervisor, with fakes of the API, the conductors and beat."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.support import programs
from tests.support.fleet import until
from tests.support.processes import children, inside, logging_to, marked
from tests.support.systemd import Systemd
from workers.supervisor import redis_server

ROOT = Path(__file__).parents[4]
ROLES = "tests.unit.workers.fake_roles"
TIMEOUT = 30


class Up:
    """
    One `ingot up`; its context manager leaves nothing running.

    forked: from the fork server, which kills the rest of the supervisor's process group at its end;
    else by a new interpreter, for tests of the end of the supervisor.
    """

    def __init__(self, folder, *options, forked=True, **environ):
        self.folder, self.pidfile = folder, folder / "up.pid"
        self.mark = f"{folder}-{time.monotonic_ns()}"
        self.log = folder / f"up-{time.monotonic_ns()}.log"
        words = ["up", "--port", "0", "--data-dir", str(folder / "data")]
        words += ["--pidfile", str(self.pidfile), *options]
        popen_options = {"stdout": subprocess.PIPE, "cwd": ROOT}
        environ = {**os.environ, "UP_MARK": self.mark, **environ}
        with self.log.open("w") as log:
            if forked:
                self.process = programs.start(
                    f"{ROLES}:main", argv=words, environ=environ, stderr=log, **popen_options
                )
            else:
                command = [sys.executable, "-m", ROLES, *words]
                self.process = subprocess.Popen(
                    command, env=environ, stderr=log, text=True, **popen_options
                )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in {self.process.pid, *self.processes()}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(TIMEOUT)
        self.process.stdout.close()

    def ready(self):
        """Wait for the first line of standard output, and return its URL."""
        line = self.process.stdout.readline()
        assert line.startswith("ready http://127.0.0.1:"), self.ended()
        return line.split()[1]

    def pids(self):
        return json.loads(self.pidfile.read_text())

    def processes(self):
        """All living descendants, including those that left the process group."""
        # a forked process has its parent's environment in /proc, Redis overwrites its own
        return marked(f"UP_MARK={self.mark}") | logging_to(self.log) | inside(self.folder)

    def ended(self):
        """Wait for the end; return the exit status, the rest of the output, and the log."""
        status = self.process.wait(TIMEOUT)
        return status, self.process.stdout.read(), self.log.read_text()

    def stop(self, number=signal.SIGTERM):
        """Send a signal, and return the exit status."""
        self.process.send_signal(number)
        return self.ended()[0]


def refused(up, beside=frozenset()):
    """
    Return the exit status and the error line; fail if it becomes ready.

    beside: processes that are already running there.
    """
    status, out, err = up.ended()
    assert "" == out
    lines = [line for line in err.splitlines() if line.startswith("ingot: ")]
    assert 1 == len(lines), err
    assert "Traceback" not in lines[0]
    assert beside >= up.processes()
    return status, lines[0]


def test_readiness_is_printed_when_all_children_run_and_the_pidfile_names_them(tmp_path):
    with Up(tmp_path, "--conductors", "2") as up:
        url = up.ready()
        with urllib.request.urlopen(url) as answer:
            assert 200 == answer.status
        pids = up.pids()
        assert {"up", "api", "conductors", "beat", "redis"} == set(pids)
        assert up.process.pid == pids["up"]
        assert 2 == len(pids["conductors"])
        every = [*pids["api"], *pids["conductors"].values(), *pids["beat"], *pids["redis"]]
        assert 6 == len(set(every))  # a server of the API and one of files
        assert set(every) < up.processes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_and_leaves_nothing_running(tmp_path, number):
    with Up(tmp_path, forked=False) as up:
        up.ready()
        assert 0 == up.stop(number)
        assert set() == up.processes()
        assert not up.pidfile.exists()


@pytest.fixture
def systemd(tmp_path):
    server = Systemd(str(tmp_path / "notify"))
    yield server
    server.close()


def supervised(folder, systemd, seconds=1.5):
    """An `ingot up` with a watchdog of systemd, which it feeds thrice in so many seconds."""
    return Up(folder, **systemd.environ, WATCHDOG_USEC=str(int(seconds * 1e6)))


def test_systemd_hears_when_all_roles_run_and_while_they_work(tmp_path, systemd):
    with supervised(tmp_path, systemd) as up:
        url = up.ready()
        until(lambda: systemd.has_heard("READY=1", f"STATUS=ready at {url}"))
        until(lambda: systemd.has_heard("WATCHDOG=1", "STATUS=all roles work"))
        (name,) = up.pids()["conductors"]
        (tmp_path / "data" / "conductors" / name).unlink()
        until(lambda: systemd.has_heard(f"STATUS=no heartbeat from {name}"))
        systemd.heard()
        until(lambda: 3 <= up.log.read_text().count("up.impaired"))
        assert not any("WATCHDOG=1" in message for message in systemd.heard())
        assert 0 == up.stop()
        assert systemd.has_heard("STOPPING=1")


def test_an_examination_that_hangs_feeds_no_watchdog_and_delays_no_end(tmp_path, systemd):
    with supervised(tmp_path, systemd) as up:
        up.ready()
        until(lambda: systemd.has_heard("STATUS=all roles work"))
        (tmp_path / "data" / "hangs").touch()
        until(lambda: asking(up) and not systemd.heard(), "a hanging examination")
        ((name, pid),) = up.pids()["conductors"].items()
        os.kill(pid, signal.SIGKILL)
        until(lambda: up.pids()["conductors"].get(name) not in (None, pid))
        assert not any("WATCHDOG=1" in message for message in systemd.heard())
        assert 0 == up.stop()
        assert set() == up.processes()


def asking(up):
    """Whether a child of the supervisor examines the service, as it is in no pid file."""
    pids = up.pids()
    roles = {*pids["api"], *pids["conductors"].values(), *pids["beat"], *pids["redis"]}
    return set(children(up.process.pid)) - roles


def test_a_killed_supervisor_ends_its_children_and_frees_the_directory(tmp_path):
    with Up(tmp_path, forked=False) as up:
        up.ready()
        pids = up.pids()
        children = {*pids["api"], *pids["conductors"].values(), *pids["beat"], *pids["redis"]}
        up.process.kill()
        up.process.wait()
        until(lambda: not children & up.processes())
        with Up(tmp_path) as again:
            again.ready()


def test_a_child_that_dies_is_replaced_and_the_pidfile_follows(tmp_path):
    with Up(tmp_path) as up:
        up.ready()
        pids = up.pids()
        ((name, pid),) = pids["conductors"].items()
        os.kill(pid, signal.SIGKILL)
        until(lambda: up.pids()["conductors"].get(name) not in (None, pid))
        assert pids["api"] == up.pids()["api"]


def test_processes_of_a_dead_child_are_killed_before_it_is_replaced(tmp_path):
    with Up(tmp_path) as up:
        url = up.ready()
        processes = up.processes()
        old = up.pids()["api"]
        with suppress(OSError):
            urllib.request.urlopen(f"{url}/crash")
        until(lambda: up.pids()["api"] not in ([], old))
        until(lambda: len(up.processes()) == len(processes))
        assert 2 == len(processes - up.processes())


def test_dead_children_are_not_replaced_with_no_restart(tmp_path):
    with Up(tmp_path, "--no-restart", "--conductors", "2") as up:
        up.ready()
        (name, pid), (other, _) = up.pids()["conductors"].items()
        os.kill(pid, signal.SIGKILL)
        until(lambda: name not in up.pids()["conductors"])
        time.sleep(0.3)  # longer than the first back-off
        assert [other] == list(up.pids()["conductors"])


def test_redis_and_the_database_survive_a_restart(tmp_path):
    for start in (1, 2):
        with Up(tmp_path) as up:
            up.ready()
            client = redis.Redis(unix_socket_path=str(tmp_path / "data/redis.sock"))
            assert start == client.incr("starts")
            assert 0 == up.stop()
    with sqlite3.connect(tmp_path / "data/ingot.db") as connection:
        assert (2,) == connection.execute("SELECT count(*) FROM starts").fetchone()


def test_the_socket_of_a_long_data_directory_is_elsewhere(tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    with Up(folder) as up:
        up.ready()
        path = redis_server.socket_path(folder / "data")
        assert Path(tempfile.gettempdir()) == path.parent.parent
        assert path.parent.name.startswith(f"ingot-{os.getuid()}-")
        directory = redis.Redis(unix_socket_path=str(path)).config_get("dir")["dir"]
        assert str(folder / "data/redis") == directory
        assert 0o700 == path.parent.stat().st_mode & 0o777
        up.stop()
        assert not path.parent.exists()


def test_a_second_supervisor_on_a_data_directory_is_refused(tmp_path):
    with Up(tmp_path) as up:
        up.ready()
        with Up(tmp_path) as second:
            status, line = refused(second, up.processes())
        assert 1 == status
        assert f"in use by another ingot up, process {up.process.pid}" in line


def test_a_port_in_use_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with Up(tmp_path, "--port", str(port)) as up:
            assert (1, f"ingot: port {port} of 127.0.0.1: in use") == refused(up)


def test_a_wrong_setting_is_reported(tmp_path):
    with Up(tmp_path, INGOT_CONDUCTOR_LEASE_TTL="soon") as up:
        assert (1, "ingot: INGOT_CONDUCTOR_LEASE_TTL: 'soon' is not a number") == refused(up)


def test_an_unusable_data_directory_is_reported(tmp_path):
    (tmp_path / "data").write_text("a file")
    with Up(tmp_path) as up:
        assert (1, f"ingot: data directory {tmp_path / 'data'}: File exists") == refused(up)


def test_a_database_of_a_newer_release_is_reported(tmp_path):
    with Up(tmp_path, FAKE_DATABASE="newer") as up:
        status, line = refused(up)
    assert 1 == status
    assert "it is newer than this release of Ingot" in line


def test_an_unreachable_redis_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Up(tmp_path, INGOT_BROKER_URL=f"redis://:secret@127.0.0.1:{port}/0") as up:
        status, line = refused(up)
    assert 1 == status
    assert "refused" in line
    assert "secret" not in line


def test_a_child_that_cannot_start_ends_the_supervisor(tmp_path):
    with Up(tmp_path, FAKE_CONDUCTOR="broken") as up:
        status, line = refused(up)
    assert 1 == status
    assert "-1 ended while it started" in line
