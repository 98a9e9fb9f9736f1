"""Unreachable databases and brokers: their effect on one process, and its answers."""

import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import psycopg
import pytest
import redis
from sqlalchemy import bindparam, literal, select, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from app.api.node.json_rows import Moment
from app.broker import outages, queue, redis_broker
from app.broker.messages import Link, Message
from app.config import settings
from app.db import connections, detached_rows, diagnosis, postgresql, transactions
from app.db.clock import utcnow
from app.db.prepared import Prepared
from app.engine import operations
from app.models import Node, NodeHistory
from app.runtime import make
from app.server.application import create_app
from tests.support.fleet import PATIENCE, until
from tests.support.inside import Inside
from tests.support.postgresql import name_of
from tests.support.redis import breakers
from workers.conductor.lease import Leases
from workers.periodic import beat
from workers.periodic.database_contact import Contact

#: Seconds, fewer than 20 attempts take if each waits for half a second.
EACH_WAITS = 8
MESSAGE = Message("c-1", "a-node", "an-operation", 1, (Link("a-task", 0, "power.validate"),))


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
def test_a_redis_that_accepts_no_writes_fails_no_sender(sending, redis_client, begin, end):
    send = queue.sender(sending[1])
    assert send(MESSAGE)
    redis_client.execute_command(*begin)
    assert not send(MESSAGE)
    redis_client.execute_command(*end)
    until(lambda: send(MESSAGE), "a message")


def test_a_silent_redis_is_awaited_once(sending, redis_client):
    send = queue.sender(sending[1])
    assert send(MESSAGE)
    redis_client.execute_command("CLIENT", "PAUSE", "60000", "ALL")
    began = time.monotonic()
    assert [False] * 20 == [send(MESSAGE) for _ in range(20)]
    assert time.monotonic() - began < EACH_WAITS


def test_a_lease_is_taken_without_a_silent_redis_and_waits_for_it_once(redis_url, redis_client):
    client, reach = redis_broker.client(redis_url, 0.5), breakers(redis_url).of_writes()
    leases = Leases(client, "somebody", 1, "test", reach)
    redis_client.execute_command("CLIENT", "PAUSE", "60000", "WRITE")
    began = time.monotonic()
    for number in range(20):
        lease = leases.take(f"node-{number}", 1, lambda: True)
        lease.check()
        leases.give_back(lease)
    assert time.monotonic() - began < EACH_WAITS


def test_only_a_closed_connection_is_retried(redis_url, redis_client):
    client = redis_broker.client(redis_url, 2)
    client.set("a", 1)
    redis_client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert b"1" == client.get("a")
    client.close()


def test_beat_continues_when_due_tasks_cannot_be_sent(monkeypatch):
    messages = []
    scheduler = beat.LeasedScheduler.__new__(beat.LeasedScheduler)
    scheduler.engine = None  # only tasks of the service ask for work
    refuse = staticmethod(lambda call: messages.append(call) or False)
    monkeypatch.setattr(beat.LeasedScheduler, "send", refuse, raising=False)
    monkeypatch.setattr(beat.LeasedScheduler, "silent_since", None)
    for task in ("t1", "t2"):
        entry = type("Entry", (), {"task": task, "args": ("a",)})
        scheduler.apply_entry(entry, producer=scheduler.producer)
    assert [("t1", ("a",)), ("t2", ("a",))] == [
        (message.task, message.arguments) for message in messages
    ]


def test_a_task_tolerates_an_outage_and_no_other_error():
    for error in (redis.ConnectionError("gone"), OperationalError("SELECT", {}, sqlite3.Error())):
        with outages.log_outages("task"):
            raise error
    with pytest.raises(ZeroDivisionError), outages.log_outages("task"):
        1 / 0  # noqa: B018
    with pytest.raises(SQLAlchemyError), outages.log_outages("task"):
        raise SQLAlchemyError("a defect")


# The database


def assert_please_retry(answer, expected):
    assert 503 == answer.status_code, answer.text
    assert "5" == answer.headers["Retry-After"]
    assert expected in answer.text


def create(http):
    headers = {"X-OpenStack-Ironic-API-Version": "1.96"}
    return http.post("/v1/nodes", json={"driver": "fake-hardware"}, headers=headers)


@pytest.fixture
def sqlite(migrated_sqlite, tmp_path):
    path = tmp_path / "ingot.db"
    shutil.copy(migrated_sqlite, path)
    view = Inside(f"sqlite:///{path}", INGOT_DATABASE_BUSY_TIMEOUT="0.5")
    view.path = path
    yield view
    view.close()


def test_a_full_sqlite_is_reported_and_nothing_is_partly_written(sqlite):
    http = create_app(sqlite.runtime).test_client()
    sqlite.conductor()
    with sqlite.runtime.engine.connect().execution_options(writes=False) as session:
        pages = session.execute(text("PRAGMA page_count")).scalar()
        session.execute(text(f"PRAGMA max_page_count = {pages}"))
    answers = [create(http) for _ in range(40)]
    full = [answer for answer in answers if answer.status_code != 201]
    assert_please_retry(full[0], "The database is full")
    assert {201, 503} == {answer.status_code for answer in answers}
    listed = http.get("/v1/nodes").json["nodes"]
    assert len(listed) == sum(answer.status_code == 201 for answer in answers)


def test_a_sqlite_locked_by_another_program_is_awaited_once(sqlite):
    http = create_app(sqlite.runtime).test_client()
    sqlite.conductor()
    other = sqlite3.connect(sqlite.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    for _ in range(20):
        assert_please_retry(create(http), "The database is locked by another program")
    assert time.monotonic() - began < EACH_WAITS, "each request has waited"
    assert 200 == http.get("/v1/nodes").status_code
    other.execute("ROLLBACK")
    other.close()
    until(lambda: create(http).status_code == 201, "a node")


def test_a_read_only_sqlite_is_reported(sqlite):
    http = create_app(sqlite.runtime).test_client()
    sqlite.conductor()
    with sqlite.runtime.engine.connect().execution_options(writes=False) as session:
        session.execute(text("PRAGMA query_only = ON"))
    assert_please_retry(create(http), "The database takes no writes")
    assert 200 == http.get("/v1/nodes").status_code


def test_writers_continue_without_a_gate_that_cannot_be_opened(tmp_path):
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


@contextmanager
def missing_standby(server):
    """Let each commit of a write wait for a synchronous standby that does not exist."""

    def set_to(names):
        server.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        server.execute("SELECT pg_reload_conf()")

    set_to("nobody")
    try:
        yield
    finally:
        set_to("")


def test_reads_go_on_while_all_writes_hang_in_their_commit(postgres):
    """PostgreSQL waits for a synchronous standby without a limit of its own."""
    postgres.conductor()
    node = postgres.read(postgres.node("manageable")).uuid
    name = name_of(postgres.url)  # the server's own setting is off
    postgres.server.execute(f"ALTER DATABASE {name} SET synchronous_commit = on")
    database = replace(postgres.settings.database, statement_timeout=300)
    runtime = make(replace(postgres.settings, database=database), lambda _message: True)
    app = create_app(runtime)

    def create():
        return app.test_client().post("/v1/nodes", json={"driver": "fake-hardware"})

    def waiting():
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        with postgres.server.connect() as session:
            return session.execute(query).fetchone()[0]

    slots = runtime.settings.api.blocking_threads
    with ThreadPoolExecutor(slots + 5) as pool:
        with missing_standby(postgres.server):
            writes = [pool.submit(create) for _ in range(slots + 4)]
            until(lambda: waiting() >= slots, "writes that hang")
            for path in ("/v1/nodes", f"/v1/nodes/{node}/why", "/v1/service", "/healthcheck"):
                read = pool.submit(app.test_client().get, path)
                assert 200 == read.result(PATIENCE).status_code
            health = pool.submit(app.test_client().get, "/healthcheck?detailed=true").result(60)
            assert not any(write.done() for write in writes), "reads were as slow as the writes"
            (database, *_) = health.json["reasons"]
            assert "has not completed a write" in database["reason"]
        assert {201} == {write.result(PATIENCE).status_code for write in writes}
    runtime.engine.dispose()


def test_a_real_deadlock_is_retried(postgres):
    first_node, second_node = postgres.node(), postgres.node()
    has_first, attempts = threading.Event(), []

    def waits():
        with postgres.server.connect() as session:
            blocked = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
            return session.execute(blocked, [other.info.backend_pid]).fetchone()

    def work():
        attempts.append(1)
        with postgres.runtime.transaction() as session:
            session.execute(text("SET LOCAL deadlock_timeout = '50ms'"))
            session.execute(text(f"UPDATE nodes SET name = 'a' WHERE id = {first_node}"))
            has_first.set()
            if len(attempts) == 1:
                until(waits, "the lock of the other transaction")
            session.execute(text(f"UPDATE nodes SET name = 'b' WHERE id = {second_node}"))

    with psycopg.connect(postgres.url) as other:
        other.execute("SET deadlock_timeout = '60s'")
        other.execute("UPDATE nodes SET owner = 'x' WHERE id = %s", [second_node])
        ours = threading.Thread(target=transactions.retrying, args=(work,))
        ours.start()
        assert has_first.wait(PATIENCE)
        other.execute("UPDATE nodes SET owner = 'y' WHERE id = %s", [first_node])
        other.commit()
    ours.join(PATIENCE)
    assert 2 == len(attempts)
    assert ("a", "y") == (postgres.read(first_node).name, postgres.read(first_node).owner)


def test_an_idle_transaction_is_ended_and_its_locks_are_released(postgres, monkeypatch):
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


def test_times_have_one_style_whatever_the_server_is_set_to(postgres, monkeypatch):
    monkeypatch.setenv("PGDATESTYLE", "SQL, DMY")
    engine = connections.connect(postgres.url)
    with transactions.read_connection(engine) as connection:
        moment = Moment(literal(datetime(2026, 1, 2, 3, 4, 5)))
        assert "2026-01-02 03:04:05" == connection.scalar(select(moment))
    engine.dispose()


def test_a_connection_is_checked_before_use_unless_it_was_used_a_moment_ago(
    postgres, round_trips, monkeypatch
):
    def read():
        round_trips.clear()
        with postgres.runtime.read_connection() as connection:
            connection.execute(text("SELECT 1"))
        return len(round_trips)

    read()
    assert 1 == read(), "the query alone"
    monkeypatch.setattr(postgresql, "FRESH", 0.0)
    assert 2 == read(), "the check beside it"


def test_a_node_and_its_operation_are_locked_by_one_statement(postgres, round_trips):
    postgres.conductor()
    node = postgres.node("manageable")
    operation = postgres.operation(postgres.request(node, "provide"))
    round_trips.clear()
    with (
        postgres.runtime.transaction() as session,
        operations.detached(session, node, operation.id),
    ):
        with psycopg.connect(postgres.url, autocommit=True) as other:
            for table, number in (("nodes", node), ("operations", operation.id)):
                query = f"SELECT id FROM {table} WHERE id = %s FOR UPDATE SKIP LOCKED"
                assert other.execute(query, [number]).fetchone() is None
        mine = [trip for trip in round_trips if trip is not other]
    assert 3 == len(mine), "BEGIN, node and operation, the steps"


def test_a_single_row_is_inserted_by_one_round_trip(postgres, round_trips):
    node = postgres.node()
    entry = {
        "node_id": node,
        "created_at": utcnow(),
        "severity": "INFO",
        "event_type": "e",
        "event": "e",
    }
    rows = [NodeHistory(uuid=name, **entry) for name in ("a", "b")]
    with postgres.runtime.write_connection() as connection:
        detached_rows.add_all(connection, rows[:1])  # its plan is prepared
        round_trips.clear()
        detached_rows.add_all(connection, rows[1:])
        assert 1 == len(round_trips)


def test_the_server_plans_a_prepared_statement_at_its_first_execution(postgres):
    statement = Prepared(select(Node.id).where(Node.uuid == bindparam("value")))
    with postgres.runtime.read_connection() as connection:
        statement.first(connection, {"value": "a-node"})
        texts = connection.execute(text("SELECT statement FROM pg_prepared_statements")).scalars()
        assert 1 == sum("nodes.uuid" in sql for sql in texts)


def test_a_connection_closed_by_the_server_is_replaced_before_use(postgres, monkeypatch):
    def backend():
        with postgres.runtime.read_connection() as connection:
            return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

    first_pid = backend()
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [first_pid])
    monkeypatch.setattr(postgresql, "FRESH", 0.0)
    assert first_pid != backend()


def test_a_connection_closed_shortly_after_its_use_costs_a_retry(postgres):
    def backend():
        with postgres.runtime.write_connection() as connection:
            return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

    first_pid = backend()
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [first_pid])
    assert first_pid != transactions.retrying(backend)


def test_a_statement_that_takes_too_long_is_cancelled(postgres):
    with pytest.raises(OperationalError) as caught, postgres.runtime.reading() as session:
        session.execute(text("SELECT pg_sleep(30)"))
    assert "was too slow" == diagnosis.database_problem(caught.value)


@pytest.mark.parametrize(
    ("sqlstate", "expected"),
    [("53100", "The database is full"), ("25006", "The database takes no writes")],
)
def test_a_postgresql_without_writes_is_reported_and_nothing_is_partly_written(
    postgres, sqlstate, expected
):
    http = create_app(postgres.runtime).test_client()
    postgres.conductor()
    with psycopg.connect(postgres.url) as session:
        session.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$"
        )
        session.execute("CREATE TRIGGER refuse BEFORE INSERT ON nodes EXECUTE FUNCTION refuse()")
    assert_please_retry(create(http), expected)
    with psycopg.connect(postgres.url) as session:
        session.execute("DROP FUNCTION refuse CASCADE")
    assert 201 == create(http).status_code
    assert 1 == len(http.get("/v1/nodes").json["nodes"])


def test_a_postgresql_without_a_free_connection_is_reported_to_every_caller(postgres):
    postgres.server.execute("CREATE ROLE one_too_many LOGIN CONNECTION LIMIT 0")
    engine = connections.connect(f"{postgres.url}&user=one_too_many".replace("&user=postgres", ""))
    for _ in range(2):
        with pytest.raises(OperationalError) as caught, transactions.read_connection(engine):
            pass
        assert "has no connection left" == diagnosis.database_problem(caught.value)
    postgres.server.execute("DROP ROLE one_too_many")
    engine.dispose()


@pytest.mark.parametrize(
    "statement", ["INSERT INTO nodes (id) VALUES (NULL)", "SELECT 1 FROM no_such_table", "SELEC 1"]
)
def test_a_defect_of_the_service_is_no_outage(inside, statement):
    with pytest.raises(SQLAlchemyError) as caught, inside.runtime.transaction() as session:
        session.execute(text(statement))
    assert diagnosis.database_problem(caught.value) is None


# Death of conductors


def test_no_conductor_is_dead_while_the_database_accepts_no_heartbeats():
    clock = SimpleNamespace(now=100.0)
    contact = Contact(10, lambda: clock.now)
    clock.now += 10
    assert contact.record(silence=1)
    clock.now += 6
    assert not contact.record(silence=6), "no process can write"
    clock.now += 1
    assert not contact.record(silence=0), "others may not have sent their heartbeats yet"
    clock.now += 10
    assert contact.record(silence=1)


def test_a_locked_sqlite_is_named_beside_the_heartbeats_that_it_stops(sqlite):
    http = create_app(sqlite.runtime).test_client()
    sqlite.conductor()
    node = sqlite.node("manageable")
    uuid = sqlite.read(node).uuid
    sqlite.request(node, "provide")
    other = sqlite3.connect(sqlite.path, isolation_level=None)
    other.execute("UPDATE conductors SET heartbeat_at = '2020-01-01 00:00:00'")
    other.execute("BEGIN IMMEDIATE")

    def reasons():
        entries = http.get("/healthcheck?detailed=true").json["reasons"]
        return {entry["class"]: entry["reason"] for entry in entries}

    def summary():
        return http.get(f"/v1/nodes/{uuid}/why").json["summary"]

    messages = reasons()
    assert "it is locked by another program" == messages["database"]
    assert "no conductor is alive" == messages["conductors"]
    assert "The database is locked by another program: all work stops" in summary()
    other.execute("ROLLBACK")
    other.close()
    until(lambda: reasons()["database"] == "OK", "the end of the lock")
    until(lambda: "No conductor is alive" in summary(), "the end of the lock in the answer")
