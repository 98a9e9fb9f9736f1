"""Redis and the database, out of reach in every way: nothing is lost, and what is back is used."""

import os
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress

import psycopg
import pytest
import requests

from app.broker import client
from tests import postgresql
from tests.conftest import not_run
from tests.fleet import Fleet, until
from tests.ports import free_port
from tests.processes import children
from workers import redis_server

#: Seconds that an outage lasts; it may be a minute as well.
OUTAGE = float(os.environ.get("OUTAGE_SECONDS", "2"))
#: Longest seconds that a request takes while something is out of reach.
PROMPT = 8.0
#: Most lines of log that all processes write in a second of an outage, on average.
CHATTER = 12
SETTINGS = {
    "INGOT_BROKER_CONNECT_TIMEOUT": "1",
    "INGOT_DATABASE_CONNECT_TIMEOUT": "1",
    "INGOT_DATABASE_STATEMENT_TIMEOUT": "2",
    "INGOT_DATABASE_BUSY_TIMEOUT": "1",
    "INGOT_FAKE_VENDOR_DELAY": "0.1,0.4",
    "INGOT_FAKE_DEPLOY_DELAY": "0.1,0.4",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "2",
}
NODES = 6


def threads_and_files(fleet):
    """Threads and open files of all processes of the service."""
    pids = fleet.pids()
    roots = [*pids["api"], *pids["conductors"].values(), *pids["beat"]]
    everyone = [*roots, *(child for pid in roots for child in children(pid))]
    return (
        sum(len(os.listdir(f"/proc/{pid}/task")) for pid in everyone),
        sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in everyone),
    )


def ask(fleet, method, path, **options):
    """The answer, and the seconds that it took."""
    began = time.monotonic()
    headers = {"X-OpenStack-Ironic-API-Version": "1.96"}
    url = f"{fleet.url}/v1/{path}"
    answer = requests.request(method, url, headers=headers, timeout=60, **options)
    return answer, time.monotonic() - began


def put(fleet, node, verb):
    return ask(fleet, "PUT", f"nodes/{node}/states/provision", json={"target": verb})


def assert_please_retry(answer):
    assert 503 == answer.status_code, answer.text
    assert 0 < int(answer.headers["Retry-After"]) <= 10
    assert "faultstring" in answer.json()["error_message"]


class Outage:
    """
    A fleet through which an outage goes: half of its nodes are asked before, half of them meanwhile.
    """

    def __init__(self, fleet):
        self.fleet, self.later = fleet, []
        until(self.is_back, "an answer of every process", 30)
        states = fleet.states()
        self.nodes = sorted(states)
        fleet.provision([node for node in self.nodes if states[node] != "manageable"], "manage")
        fleet.await_state(self.nodes, "manageable")

    @contextmanager
    def watched(self):
        """The processes live on, log little, and keep no thread and no connection."""
        pids, before = self.fleet.pids(), threads_and_files(self.fleet)
        began, lines = time.monotonic(), len(self.fleet.text())
        text = len(self.fleet.text().splitlines())
        yield
        until(lambda: self._as_many(before), f"as few threads and files as {before}", 40, 0.5)
        seconds = time.monotonic() - began
        assert pids == self.fleet.pids(), "somebody died"
        said = self.fleet.text()[lines:]
        assert "Traceback" not in said, said[said.index("Traceback") - 300 :][:3000]
        events = len(self.fleet.text().splitlines()) - text
        steps = said.count("step.acted") + said.count("operation.ended")
        assert events - steps < CHATTER * (seconds + 5), f"{events} lines in {seconds:.0f} s"

    def _as_many(self, before):
        now = threads_and_files(self.fleet)
        return all(few <= many + 40 for few, many in zip(now, before, strict=True))

    def clean(self, begin, end, meanwhile):
        """
        Clean all nodes through an outage, and go back. Returns the seconds from its end until all
        were clean.
        """
        half = len(self.nodes) // 2
        before = self.asked()
        with self.watched():
            self.fleet.provision(self.nodes[:half], "provide")
            began = time.monotonic()
            begin()
            try:
                meanwhile(self.nodes[half:])
                time.sleep(max(0, OUTAGE - (time.monotonic() - began)))
            finally:
                end()
            back = time.monotonic()
            for node in self.later:
                until(
                    lambda node=node: put(self.fleet, node, "provide")[0].status_code == 202, "yes"
                )
            until(self.is_back, "an answer of every process", 30)
            self.fleet.await_state(self.nodes, "available", 60)
            took = time.monotonic() - back
            print(f"all there {took:.1f} s after it was back")
            assert [many + 1 for many in before] == self.asked(), "half asked, or twice"
            for node in self.nodes:
                operation = self.fleet.operation(node, "provide")
                assert "succeeded" == operation["state"]
                assert 0 == operation["refused"]
                assert [0] * 3 == [step["deaths"] for step in operation["steps"]]
            self.fleet.provision(self.nodes, "manage")
            self.fleet.await_state(self.nodes, "manageable")
        return took

    def asked(self):
        """How many operations each node has had."""
        found = (self.fleet.get(f"nodes/{node}/operations") for node in self.nodes)
        return [len(each["operations"]) for each in found]

    def is_back(self):
        """Whether every process of the API has found out."""
        ours = self.fleet.http.get(f"{self.fleet.url}/v1/nodes")
        others = [ask(self.fleet, "GET", "nodes")[0] for _ in range(8)]
        return {200} == {each.status_code for each in (ours, *others)}

    def accepted(self, nodes):
        """Verbs are accepted, and promptly; who needs a conductor's answer is told to come back."""
        for node in nodes:
            answer, seconds = put(self.fleet, node, "provide")
            assert 202 == answer.status_code, answer.text
            assert seconds < PROMPT
        answer, seconds = ask(
            self.fleet, "GET", f"nodes/{nodes[0]}/management/boot_device/supported"
        )
        assert_please_retry(answer)
        assert seconds < PROMPT
        answer, seconds = ask(self.fleet, "GET", "nodes")
        assert (200, True) == (answer.status_code, seconds < PROMPT)

    def refused(self, nodes, told):
        """What writes is answered with 503, and promptly; it is asked for again later."""
        self.later = nodes
        for node in nodes:
            answer, seconds = put(self.fleet, node, "provide")
            assert_please_retry(answer)
            assert told in answer.text
            assert seconds < PROMPT


def ready(fleet):
    nodes = fleet.create_nodes(NODES)
    fleet.provision(nodes, "manage")
    fleet.await_state(nodes, "manageable")
    return fleet


# Redis


class Redis:
    """A Redis by TCP, without persistence, that can be anything but well."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "redis").mkdir()
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


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def with_redis(redis, tmp_path_factory):
    folder = tmp_path_factory.mktemp("with-redis")
    with Fleet(folder, "--broker", redis.url, **SETTINGS) as fleet:
        yield ready(fleet)


@pytest.mark.parametrize(
    ("begin", "end"),
    [("stop", "start"), ("pause", "go_on"), ("fill", "empty"), ("follow", "lead")],
)
def test_verbs_are_accepted_and_carried_out_whatever_redis_does(with_redis, redis, begin, end):
    outage = Outage(with_redis)
    outage.clean(getattr(redis, begin), getattr(redis, end), outage.accepted)


# PostgreSQL

#: Ends all connections but our own.
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND application_name <> 'held'"
)


class PostgreSQL:
    """A server that can be anything but well."""

    CONNECTIONS = 40

    def __init__(self, folder):
        self.folder, self.held = folder, []
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

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        self.process.wait(30)

    def crash(self):
        self.stop(signal.SIGQUIT)

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
        """Take every connection that there is; those who have one are sent away."""
        self.held.append(self._connect())
        until(self._crowded, "having every connection", 10)

    def _crowded(self):
        self.held[0].execute(CUT)
        with suppress(psycopg.OperationalError):
            while True:
                self.held.append(self._connect())
        return len(self.held) == self.CONNECTIONS

    def _connect(self):
        return psycopg.connect(self.url, application_name="held", autocommit=True)

    def leave(self):
        while self.held:
            self.held.pop().close()

    def only_read(self):
        self.server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        self.server.execute("SELECT pg_reload_conf()")

    def write_again(self):
        self.server.execute("ALTER SYSTEM RESET default_transaction_read_only")
        self.server.execute("SELECT pg_reload_conf()")

    def watch_the_disk(self):
        """Ask before each write whether there is space: from now on, that is a function's answer."""
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
        """Without a lock on any table: nobody is in the way of anybody."""
        with self._connect() as session:
            session.execute(
                "CREATE OR REPLACE FUNCTION disk() RETURNS trigger LANGUAGE plpgsql"
                f" AS $$ BEGIN {does}; END $$"
            )


@pytest.fixture(scope="module")
def postgres():
    try:
        with tempfile.TemporaryDirectory(prefix="ingot-pg-") as folder:
            server = PostgreSQL(folder)
            server.start()
            server.url = server.server.database()
            yield server
            server.go_on()
            server.stop(signal.SIGQUIT)
    except postgresql.NoServer as error:
        not_run(str(error))


@pytest.fixture(scope="module")
def with_postgres(postgres, tmp_path_factory):
    folder = tmp_path_factory.mktemp("with-postgres")
    with Fleet(folder, "--database", postgres.url, **SETTINGS) as fleet:
        postgres.watch_the_disk()
        yield ready(fleet)


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [
        ("stop", "start", "The database is out of reach"),
        ("crash", "start", "The database is out of reach"),
        ("pause", "go_on", "The database is out of reach"),
        ("crowd", "leave", "The database has no connection left"),
        ("only_read", "write_again", "The database takes no writes"),
        ("fill", "empty", "The database is full"),
    ],
)
def test_who_writes_is_told_to_come_back_whatever_postgresql_does(
    with_postgres, postgres, begin, end, told
):
    outage = Outage(with_postgres)
    begin, end = getattr(postgres, begin), getattr(postgres, end)
    outage.clean(begin, end, lambda nodes: outage.refused(nodes, told))


def test_connections_that_are_cut_again_and_again_are_made_anew(with_postgres, postgres):
    outage = Outage(with_postgres)

    def cut(nodes):
        outage.later = nodes
        end = time.monotonic() + OUTAGE
        while time.monotonic() < end:
            postgres.cut()
            time.sleep(0.1)

    outage.clean(lambda: None, lambda: None, cut)
