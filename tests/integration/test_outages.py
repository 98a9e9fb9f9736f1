"""What a database and a broker out of reach do to one process, and how it answers."""

import shutil
import sqlite3
import threading
import time
from types import SimpleNamespace

import psycopg
import pytest
import redis
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from app.broker import queue, redis_broker
from app.config import settings
from app.db import connections, diagnosis, postgresql, transactions
from app.db.sqlite import LOCKED_PAUSE
from app.kit.reach import REMIND, CircuitBreaker
from app.main import create_app
from app.models import Node
from app.runtime import Link, Message
from tests.support.inside import Inside
from workers import retry
from workers.conductor.lease import Leases
from workers.periodic import beat, reconciler

EVENTS = ("server.unreachable", "server.reached_again")
MESSAGE = Message("c-1", "a-node", "an-operation", 1, (Link("a-task", 0, "power.validate"),))


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def lost(reach, clock=None, seconds=0.0):
    """Try, in vain, for so many seconds."""

    def fail():
        if clock:
            clock.now += seconds
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"), reach.trying():
        fail()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def reach(clock):
    return CircuitBreaker(EVENTS, (OSError,), ConnectionError, clock)


# reach


def test_who_comes_after_a_failure_is_told_at_once_and_may_try_a_moment_later(reach, clock):
    lost(reach)
    with pytest.raises(ConnectionError, match="did not answer a moment ago"), reach.trying():
        raise AssertionError("tried")
    clock.now += 1
    with reach.trying():
        pass
    with reach.trying():
        pass


def test_nobody_tries_again_for_as_long_as_the_last_try_took(reach, clock):
    lost(reach, clock, 4)
    clock.now += 3.9
    with pytest.raises(ConnectionError), reach.trying():
        raise AssertionError("tried")
    clock.now += 0.2
    with reach.trying():
        pass


def test_while_one_tries_again_the_others_do_not_wait_for_it(reach, clock):
    lost(reach)
    clock.now += 1
    with reach.trying(), pytest.raises(ConnectionError), reach.trying():
        raise AssertionError("tried, too")


def test_who_does_not_try_is_told_the_same_as_who_did(clock):
    reach = CircuitBreaker(EVENTS, (OSError,), ConnectionError, clock)
    for error, told in (
        (ConnectionRefusedError, ConnectionRefusedError),
        (OSError, ConnectionError),
    ):
        with pytest.raises(error), reach.trying():
            raise error
        with pytest.raises(told) as caught, reach.trying():
            raise AssertionError("tried")
        assert told is caught.type
        clock.now += 1


def test_an_outage_is_told_when_it_begins_now_and_then_and_when_it_is_over(
    reach, clock, monkeypatch
):
    told = []
    ear = SimpleNamespace(
        warning=lambda event, **_: told.append(event), info=lambda event, **_: told.append(event)
    )
    monkeypatch.setattr("app.kit.reach.logger", ear)
    for _ in range(int(REMIND) + 1):
        lost(reach)
        clock.now += 1
    with reach.trying():
        pass
    assert [EVENTS[0]] * 2 + [EVENTS[1]] == told


# Redis


@pytest.fixture
def sending(redis_url):
    loaded = settings.load({"INGOT_BROKER_URL": redis_url, "INGOT_BROKER_CONNECT_TIMEOUT": "0.5"})
    application = queue.celery(loaded)
    yield loaded, application
    application.close()


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
    ],
)
def test_a_redis_that_takes_nothing_fails_no_one_who_sends(sending, redis_client, begin, end):
    send = queue.sender(sending[1])
    assert send(MESSAGE)
    redis_client.execute_command(*begin)
    assert not send(MESSAGE)
    redis_client.execute_command(*end)
    time.sleep(1.05)
    assert send(MESSAGE)


def test_a_redis_that_does_not_answer_is_waited_for_once(sending, redis_client):
    send = queue.sender(sending[1])
    assert send(MESSAGE)
    redis_client.execute_command("CLIENT", "PAUSE", "60000", "ALL")
    began = time.monotonic()
    assert [False] * 20 == [send(MESSAGE) for _ in range(20)]
    assert time.monotonic() - began < 1.5


def test_a_lease_is_taken_without_a_redis_that_does_not_answer_and_waits_for_it_once(
    redis_url, redis_client
):
    leases = Leases(redis_broker.client(redis_url, 0.5), "somebody", 1, "test")
    redis_client.execute_command("CLIENT", "PAUSE", "60000", "WRITE")
    began = time.monotonic()
    for number in range(20):
        lease = leases.take(f"node-{number}", 1, lambda: True)
        lease.check()
        leases.give_back(lease)
    assert time.monotonic() - began < 1.5


def test_only_a_connection_that_was_closed_is_tried_again(redis_url, redis_client):
    client = redis_broker.client(redis_url, 2)
    client.set("a", 1)
    redis_client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert b"1" == client.get("a")
    client.close()


def test_beat_goes_on_when_what_is_due_cannot_be_sent(monkeypatch):
    sent = []
    scheduler = beat.LeasedScheduler.__new__(beat.LeasedScheduler)
    refuse = staticmethod(lambda call: sent.append(call) or False)
    monkeypatch.setattr(beat.LeasedScheduler, "send", refuse, raising=False)
    entry = type("Entry", (), {"task": "t", "args": (), "options": {"expires": 2.0}})
    scheduler.apply_entry(entry, producer=scheduler.producer)
    assert [("t", 2.0)] == [(call.task, call.expires) for call in sent]


def test_a_task_bears_an_outage_and_nothing_else():
    for error in (redis.ConnectionError("gone"), OperationalError("SELECT", {}, sqlite3.Error())):
        with retry.log_outages("task"):
            raise error
    with pytest.raises(ZeroDivisionError), retry.log_outages("task"):
        1 / 0  # noqa: B018
    with pytest.raises(SQLAlchemyError), retry.log_outages("task"):
        raise SQLAlchemyError("a defect")


# the database


def assert_please_retry(answer, told):
    assert 503 == answer.status_code, answer.text
    assert "5" == answer.headers["Retry-After"]
    assert told in answer.text


def create(http):
    headers = {"X-OpenStack-Ironic-API-Version": "1.96"}
    return http.post("/v1/nodes", json={"driver": "fake-hardware"}, headers=headers)


@pytest.fixture
def sqlite(migrated_sqlite, tmp_path):
    path = tmp_path / "ingot.db"
    shutil.copy(migrated_sqlite, path)
    view = Inside(f"sqlite:///{path}", INGOT_DATABASE_BUSY_TIMEOUT="0.3")
    view.path = path
    yield view
    view.close()


def test_a_full_sqlite_is_told_and_nothing_is_half_written(sqlite):
    http = create_app(sqlite.runtime).test_client()
    sqlite.conductor()
    with sqlite.runtime.engine.connect().execution_options(writes=False) as session:
        pages = session.execute(text("PRAGMA page_count")).scalar()
        session.execute(text(f"PRAGMA max_page_count = {pages}"))
    answers = [create(http) for _ in range(40)]
    full = [each for each in answers if each.status_code != 201]
    assert_please_retry(full[0], "The database is full")
    assert {201, 503} == {each.status_code for each in answers}
    listed = http.get("/v1/nodes").json["nodes"]
    assert len(listed) == sum(each.status_code == 201 for each in answers)


def test_a_sqlite_that_another_program_keeps_locked_is_waited_for_once(sqlite):
    http = create_app(sqlite.runtime).test_client()
    sqlite.conductor()
    other = sqlite3.connect(sqlite.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    for _ in range(10):
        assert_please_retry(create(http), "The database is locked by another program")
    assert time.monotonic() - began < 2, "each of them has waited"
    assert 200 == http.get("/v1/nodes").status_code
    other.execute("ROLLBACK")
    other.close()
    time.sleep(LOCKED_PAUSE)
    assert 201 == create(http).status_code


def test_a_sqlite_that_may_only_be_read_is_told(sqlite):
    http = create_app(sqlite.runtime).test_client()
    sqlite.conductor()
    with sqlite.runtime.engine.connect().execution_options(writes=False) as session:
        session.execute(text("PRAGMA query_only = ON"))
    assert_please_retry(create(http), "The database takes no writes")
    assert 200 == http.get("/v1/nodes").status_code


def test_writers_go_on_without_a_gate_that_cannot_be_opened(tmp_path):
    path = tmp_path / "ingot.db"
    (tmp_path / "ingot.db.writer").mkdir()
    engine = connections.connect(f"sqlite:///{path}")
    for number in (1, 2):
        with transactions.transaction(engine) as session:
            session.execute(text(f"CREATE TABLE t{number} (x)"))
    engine.dispose()


@pytest.fixture
def postgres(request):
    server = request.getfixturevalue("postgresql_server")
    url = server.database(request.getfixturevalue("migrated_postgresql"))
    view = Inside(url, INGOT_DATABASE_STATEMENT_TIMEOUT="1")
    view.server = server
    yield view
    view.close()
    server.drop(url)


def test_a_real_deadlock_is_tried_again(postgres):
    first, second = postgres.node(), postgres.node()
    has_first, attempts = threading.Event(), []

    def work():
        attempts.append(1)
        with postgres.runtime.transaction() as session:
            session.execute(text("SET LOCAL deadlock_timeout = '50ms'"))
            session.execute(text(f"UPDATE nodes SET name = 'a' WHERE id = {first}"))
            has_first.set()
            if len(attempts) == 1:
                time.sleep(0.3)
            session.execute(text(f"UPDATE nodes SET name = 'b' WHERE id = {second}"))

    with psycopg.connect(postgres.url) as other:
        other.execute("SET deadlock_timeout = '60s'")
        other.execute("UPDATE nodes SET owner = 'x' WHERE id = %s", [second])
        ours = threading.Thread(target=transactions.retrying, args=(work,))
        ours.start()
        has_first.wait(10)
        other.execute("UPDATE nodes SET owner = 'y' WHERE id = %s", [first])
        other.commit()
    ours.join(20)
    assert 2 == len(attempts)
    assert ("a", "y") == (postgres.read(first).name, postgres.read(first).owner)


def test_a_transaction_that_is_left_open_is_cut_and_its_locks_are_free(postgres, monkeypatch):
    monkeypatch.setattr(postgresql, "IDLE_IN_TRANSACTION", 0.2)
    idle = connections.connect(postgres.url, statement_timeout=1)
    node = postgres.node()

    def stall():
        with transactions.transaction(idle) as session:
            session.execute(text(f"UPDATE nodes SET name = 'a' WHERE id = {node}"))
            time.sleep(0.5)
            postgres.change(Node, node, name="b")
            session.execute(text("SELECT 1"))

    with pytest.raises(SQLAlchemyError) as caught:
        stall()
    assert diagnosis.database_problem(caught.value) == "is out of reach"
    assert "b" == postgres.read(node).name
    idle.dispose()


def test_the_server_compiles_none_of_our_queries(postgres):
    with postgres.runtime.reading() as session:
        assert "off" == session.scalar(text("SHOW jit"))


@pytest.fixture
def round_trips(monkeypatch):
    """Waits for an answer of the server; psycopg calls `wait` also without one."""
    found, wait = [], psycopg.Connection.wait

    def noted(connection, waits):
        try:
            wanted = next(waits)
            found.append(connection)
            while True:
                wanted = waits.send((yield wanted))
        except StopIteration as end:
            return end.value

    def counted(self, waits, *args, **named):
        return wait(self, noted(self, waits), *args, **named)

    monkeypatch.setattr(psycopg.Connection, "wait", counted)
    return found


def test_a_connection_is_checked_before_use_unless_it_was_in_use_until_a_moment_ago(
    postgres, round_trips, monkeypatch
):
    def read():
        round_trips.clear()
        with postgres.runtime.looking() as connection:
            connection.execute(text("SELECT 1"))
        return len(round_trips)

    read()
    assert 1 == read(), "the query alone"
    monkeypatch.setattr(postgresql, "FRESH", 0.0)
    assert 2 == read(), "the check beside it"


def test_a_connection_that_the_server_has_closed_meanwhile_is_replaced_before_use(
    postgres, monkeypatch
):
    def backend():
        with postgres.runtime.looking() as connection:
            return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

    first = backend()
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
    monkeypatch.setattr(postgresql, "FRESH", 0.0)
    assert first != backend()


def test_a_connection_that_is_closed_in_the_moment_without_a_check_costs_a_second_try(postgres):
    def backend():
        with postgres.runtime.writing() as connection:
            return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

    first = backend()
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
    assert first != transactions.retrying(backend)


def test_a_statement_that_takes_too_long_is_given_up(postgres):
    with pytest.raises(OperationalError) as caught, postgres.runtime.reading() as session:
        session.execute(text("SELECT pg_sleep(30)"))
    assert "was too slow" == diagnosis.database_problem(caught.value)


@pytest.mark.parametrize(
    ("sqlstate", "told"),
    [("53100", "The database is full"), ("25006", "The database takes no writes")],
)
def test_a_postgresql_that_takes_nothing_is_told_and_nothing_is_half_written(
    postgres, sqlstate, told
):
    http = create_app(postgres.runtime).test_client()
    postgres.conductor()
    with psycopg.connect(postgres.url) as session:
        session.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$"
        )
        session.execute("CREATE TRIGGER refuse BEFORE INSERT ON nodes EXECUTE FUNCTION refuse()")
    assert_please_retry(create(http), told)
    with psycopg.connect(postgres.url) as session:
        session.execute("DROP FUNCTION refuse CASCADE")
    assert 201 == create(http).status_code
    assert 1 == len(http.get("/v1/nodes").json["nodes"])


def test_a_postgresql_without_a_connection_left_is_told_to_all_who_want_one(postgres):
    postgres.server.execute("CREATE ROLE one_too_many LOGIN CONNECTION LIMIT 0")
    engine = connections.connect(f"{postgres.url}&user=one_too_many".replace("&user=postgres", ""))
    for _ in range(2):
        with pytest.raises(OperationalError) as caught, transactions.looking(engine):
            pass
        assert "has no connection left" == diagnosis.database_problem(caught.value)
    postgres.server.execute("DROP ROLE one_too_many")
    engine.dispose()


def test_a_defect_of_ours_is_no_outage(inside):
    with pytest.raises(SQLAlchemyError) as caught, inside.runtime.transaction() as session:
        session.execute(text("INSERT INTO nodes (id) VALUES (NULL)"))
    assert diagnosis.database_problem(caught.value) is None


# who is dead


def test_nobody_is_dead_while_the_database_takes_no_signs_of_life(clock):
    contact = reconciler.Contact(10, clock)
    clock.now += 10
    assert contact.made(silence=1)
    clock.now += 6
    assert not contact.made(silence=6), "nobody can write"
    clock.now += 1
    assert not contact.made(silence=0), "others may not have had their turn yet"
    clock.now += 10
    assert contact.made(silence=1)
