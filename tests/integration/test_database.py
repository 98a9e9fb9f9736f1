"""Schema, and races that only a real database decides, on SQLite and PostgreSQL."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from psycopg.pq import TransactionStatus
from sqlalchemy import (
    Text,
    bindparam,
    create_engine,
    event,
    inspect,
    literal,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from app import models
from app.agents import heartbeats
from app.db import clock, connections, detached_rows, diagnosis, prepared, schema, transactions
from app.db.prepared import Prepared
from app.engine import operations
from app.errors import IllegalMove, NodeLocked
from app.models import AgentRecord, Node, Operation, OperationState
from drivers.core.steps import Done, Wait
from tests.support import programs
from workers.conductor import attempts, claims, poller, recording
from workers.periodic import reconciler

ROUNDS = 12


def alembic(url):
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    config.attributes["url"] = url
    return config


def tables(url):
    engine = connections.connect(url)
    try:
        return set(inspect(engine).get_table_names()) - {"alembic_version"}
    finally:
        engine.dispose()


def together(*calls, allowed=()):
    """Run the calls concurrently; return their results or their `allowed` errors."""
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait()
        try:
            return call()
        except allowed as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.fixture
def other(inside):
    """A second process with the same database."""
    view = inside.another()
    yield view
    view.close()


def test_migrations_go_up_down_and_up_again(empty_database):
    command.upgrade(alembic(empty_database), "head")
    assert set(models.Base.metadata.tables) == tables(empty_database)
    command.downgrade(alembic(empty_database), "base")
    assert set() == tables(empty_database)
    command.upgrade(alembic(empty_database), "head")
    assert set(models.Base.metadata.tables) == tables(empty_database)


def test_the_migrations_create_the_schema_of_the_models(database):
    engine = connections.connect(database)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert [] == compare_metadata(context, models.Base.metadata)
    engine.dispose()


def test_concurrent_migrations_wait_for_each_other(empty_database):
    if empty_database.startswith("sqlite"):
        Path(make_url(empty_database).database).touch()  # the fork server does not copy one then
    # in processes, because Alembic's context is global
    migrations = [programs.start("app.db.schema:upgrade", empty_database) for _ in range(4)]
    assert [0] * 4 == [migration.wait(programs.PATIENCE) for migration in migrations]
    assert set(models.Base.metadata.tables) == tables(empty_database)


def test_one_of_many_requests_wins(inside, other):
    inside.conductor()
    node = inside.node()
    asks = [partial(view.request, node, "manage") for view in [inside, other] * 8]
    answers = together(*asks, allowed=(IllegalMove, NodeLocked))
    winners = [answer for answer in answers if isinstance(answer, str)]
    assert 1 == len(winners)
    assert 1 == inside.read(node).fence
    assert 1 == len(inside.messages) + len(other.messages)


def test_one_of_many_messages_runs_each_step(inside, other):
    one, two = inside.conductor("c-1"), other.conductor("c-2")
    for _ in range(ROUNDS):
        name = inside.request(inside.node("manageable"), "provide")
        for _step in inside.steps(name):
            message = inside.message(name)
            together(*(partial(attempts.run, conductor, message) for conductor in [one, two] * 3))
        assert [1, 1, 1] == [step.attempts for step in inside.steps(name)]
        assert "succeeded" == inside.operation(name).state


def test_a_late_record_and_a_takeover_do_not_both_happen(inside, other):
    dead, living = inside.conductor("c-1"), other.conductor("c-2")
    take_over = reconciler._take_over(lambda _: {living.incarnation})
    for _ in range(ROUNDS):
        name = inside.request(inside.node("manageable"), "provide")
        attempt = claims.claim(dead, name, 1, 0)
        together(
            partial(recording._record, dead, attempt, Done()),
            partial(reconciler._each, other.runtime, take_over, attempt.operation.id),
        )
        operation, step = inside.operation(name), inside.steps(name)[0]
        facts = operation.fence, operation.cursor, operation.refused, step.deaths, step.state
        assert facts in {(1, 1, 0, 0, "done"), (2, 0, 1, 1, "running")}


def test_a_write_with_the_fence_before_a_takeover_is_refused_and_counted(inside, other):
    dead, living = inside.conductor("c-1"), other.conductor("c-2")
    node = inside.node("manageable")
    name = inside.request(node, "provide")
    attempt = claims.claim(dead, name, 1, 0)
    attempt.reports["power_state"] = "power on"
    assert reconciler._each(
        other.runtime, reconciler._take_over(lambda _: {living.incarnation}), attempt.operation.id
    )
    assert 1 == recording._record(living, claims.claim(living, name, 2, 0), Done())
    assert recording._record(dead, attempt, Done()) is None
    assert not claims.advance(dead, attempt, {})
    assert 1 == inside.operation(name).refused
    assert 1 == inside.operation(name).cursor
    assert inside.read(node).power_state is None
    assert 2 == inside.steps(name)[0].attempts


def test_one_of_many_concurrent_resumptions_succeeds(inside, other):
    inside.conductor()
    for _ in range(ROUNDS):
        name = inside.request(inside.node(), "manage")
        inside.change(Operation, name, state="waiting", claimed=0)
        key = inside.operation(name).id
        wakes = [
            partial(poller.resume_operation, view.runtime, key) for view in [inside, other] * 3
        ]
        woken = together(*wakes)
        assert [False] * 5 + [True] == sorted(woken)
        assert 2 == inside.operation(name).fence


def test_a_heartbeat_during_the_record_of_a_wait_is_not_lost(inside, other):
    conductor = inside.conductor()
    sign = {"callback_url": "https://agent:9999", "agent_token": "t", "agent_version": "11"}
    for _ in range(ROUNDS):
        node = inside.node("available")
        inside.agent(node)
        name = inside.request(node, "active")
        attempt = claims.claim(conductor, name, 1, 0)
        together(
            partial(recording._record, conductor, attempt, Wait({"booted": True})),
            partial(heartbeats.heartbeat, other.runtime, attempt.node.uuid, sign),
        )
        assert ("queued", 2) == (inside.operation(name).state, inside.operation(name).fence)
        assert "deploying" == inside.read(node).provision_state


def test_heartbeats_are_recorded_together(inside, other):
    """None fails because of another, and none waits for a row that another transaction locks."""
    row_locks = inside.runtime.engine.dialect.name == "postgresql"  # SQLite has one lock for all
    nodes = [inside.node("clean wait") for _ in range(6)]
    for node in nodes:
        inside.agent(node, heartbeats=0)
    inside.change(Node, nodes[1], provision_state="active")
    report = {"callback_url": "https://agent:9999", "agent_token": "t", "agent_version": "11"}
    wrong, moved = report | {"agent_token": "x"}, report | {"callback_url": "https://b"}
    reports = [report, report, wrong, moved, report, report]
    signs = [
        heartbeats.AgentHeartbeat(inside.read(node).uuid, sign)
        for node, sign in zip(nodes, reports, strict=True)
    ]
    # on SQLite a reader: a writer would hold its only lock
    begun = transactions.write_connection if row_locks else transactions.read_connection
    with begun(other.runtime.engine) as connection:
        row = select(AgentRecord.node_id).where(AgentRecord.node_id == nodes[4])
        connection.execute(row.with_for_update())
        heard = heartbeats.record_batch(inside.runtime, signs)

    first, fifth, last = (heartbeats.RecordedHeartbeat(nodes[at], False) for at in (0, 4, 5))
    assert [first, None, None, None, None if row_locks else fifth, last] == heard
    with inside.runtime.reading() as session:
        counts = [session.get_one(AgentRecord, node).heartbeats for node in nodes]
    assert [1, 0, 0, 0, 0 if row_locks else 1, 1] == counts


def test_two_operations_of_one_node_never_run_concurrently(inside):
    inside.conductor()
    node = inside.node()
    inside.request(node, "manage")
    with pytest.raises(Exception, match=r"(?i)unique"), inside.runtime.transaction() as session:
        session.add(
            Operation(
                uuid="another",
                node_id=node,
                kind="power",
                state="queued",
                created_at=clock.utcnow(),
            )
        )


def test_a_node_locked_by_one_connection_waits_for_the_other(inside, other):
    node = inside.node()

    def count():
        view = inside if threading.get_ident() % 2 else other
        for _ in range(20):
            with view.runtime.transaction() as session:
                operations.lock(session, node).fence += 1

    assert [None] * 4 == together(count, count, count, count)
    assert 80 == inside.read(node).fence


def test_a_prepared_statement_raises_the_usual_error(inside):
    node = inside.node()
    statement = Prepared(select(Node.uuid).where(Node.id == bindparam("node")))
    with inside.runtime.read_connection() as connection:
        assert (inside.read(node).uuid,) == statement.first(connection, {"node": node})
        assert statement.first(connection, {"node": 0}) is None
        with pytest.raises(DBAPIError) as raised:
            Prepared(text("SELECT no_such_column FROM nodes")).first(connection, {})
    assert isinstance(raised.value.orig, inside.runtime.engine.dialect.loaded_dbapi.Error)
    assert "no_such_column" in diagnosis.reason(raised.value)


def test_a_prepared_statement_may_repeat_parameters_and_have_percent_signs(inside):
    one, two = bindparam("one", type_=Text), bindparam("two", type_=Text)
    statement = Prepared(select(literal_column("'9 % and %s'"), two, one, two))
    with inside.runtime.read_connection() as connection:
        row = statement.first(connection, {"one": "a%", "two": "b"})
    assert ("9 % and %s", "b", "a%", "b") == row


def test_a_prepared_statement_converts_the_values_of_its_columns(inside):
    moment, settings = datetime(2026, 1, 2, 3, 4, 5, 678901), {"address": "10.0.0.1"}
    node, nodes = inside.node(), Node.__table__.c
    parameters = {"node": node, "moment": moment, "settings": settings, "off": True}
    change = (
        update(Node.__table__)
        .where(nodes.id == bindparam("node"))
        .values(
            provision_updated_at=bindparam("moment", type_=nodes.provision_updated_at.type),
            driver_info=bindparam("settings", type_=nodes.driver_info.type),
            disable_power_off=bindparam("off", type_=nodes.disable_power_off.type),
            properties={"kept": 1},
            name=None,
        )
    )
    columns = (
        nodes.provision_updated_at,
        nodes.driver_info,
        nodes.disable_power_off,
        nodes.properties,
    )
    with inside.runtime.write_connection() as connection:
        assert 1 == Prepared(change).count(connection, parameters)
        returned_row = Prepared(change.returning(*columns)).first(connection, parameters)
    expected = (moment, settings, True, {"kept": 1})
    assert expected == returned_row
    with inside.runtime.read_connection() as connection:
        read = Prepared(select(*columns).where(nodes.id == bindparam("node")))
        assert [expected] == [tuple(row) for row in read.all(connection, {"node": node})]
        assert [] == read.all(connection, {"node": 0})


def test_a_detached_row_writes_only_the_changed_columns(inside):
    inside.conductor()
    node = inside.node("manageable", name="one")
    name = inside.request(node, "provide")
    old_row = inside.read(node)
    with (
        inside.runtime.transaction() as session,
        operations.detached(session, node, old_row.operation_id) as (row, operation),
    ):
        assert (name, False) == (operation.uuid, operation.is_queued)
        row.last_error, row.extra, row.name = "broken", {"a": [1]}, "one"
        operation.wake_at = clock.now()
        operations.current_step(session, operation).result = {"found": 2}
        transactions.connection_of(session).exec_driver_sql(
            "UPDATE nodes SET name = 'two', owner = 'me'"
        )
    new_row = inside.read(node)
    assert ("broken", {"a": [1]}) == (new_row.last_error, new_row.extra)
    assert ("two", "me") == (new_row.name, new_row.owner)
    assert inside.operation(name).wake_at is not None
    assert [{"found": 2}, None, None] == [step.result for step in inside.steps(name)]


def test_a_detached_row_that_waited_for_its_lock_has_the_values_of_the_last_commit(inside, other):
    inside.conductor()
    node = inside.node("manageable")
    name = inside.request(node, "provide")
    number, locked = inside.operation(name).id, threading.Event()

    def change():
        with inside.runtime.transaction() as session:
            row = operations.lock(session, node)
            locked.set()
            time.sleep(0.5)  # meanwhile the other one waits for the node
            row.last_error = "broken"
            session.get_one(Operation, number).refused = 7

    def read():
        assert locked.wait(60)
        with (
            other.runtime.transaction() as session,
            operations.detached(session, node, number) as (row, operation),
        ):
            return row.last_error, operation.refused

    assert [None, ("broken", 7)] == together(change, read)


def test_a_row_outside_of_the_session_is_inserted_with_the_defaults_of_its_model(inside):
    node = inside.node()
    with inside.runtime.transaction() as session:
        row = Operation(uuid="by-session", node_id=node, kind="power", created_at=clock.utcnow())
        row.state = OperationState.SUCCEEDED
        session.add(row)
        values = {**vars(row), "uuid": "detached", "sent_at": clock.now()}
        values.pop("_sa_instance_state")
        number = detached_rows.add(transactions.connection_of(session), Operation(**values))
    one, other = inside.operation("by-session"), inside.operation("detached")
    assert number == other.id
    assert other.sent_at is not None
    differ = {"id", "uuid", "sent_at"}
    for column in set(Operation.__table__.columns.keys()) - differ:
        assert getattr(one, column) == getattr(other, column), column


@pytest.fixture
def built(inside, monkeypatch):
    """Record the statements of SQLAlchemy's ORM by their first words."""
    statements = []

    def note(connection, cursor, statement, *_):
        statements.append(statement.split(None, 2)[:2])

    event.listen(inside.runtime.engine, "before_cursor_execute", note)
    return statements


def test_a_step_is_claimed_and_the_end_of_an_operation_recorded_without_the_orm(inside, built):
    claimant = inside.conductor("c-1")
    node = inside.node("manageable")
    name = inside.request(node, "provide")
    message = inside.message(name)
    built.clear()
    inside.deliver(claimant, message)
    assert "available" == inside.read(node).provision_state
    # the end of the flow reads the agent; the last one is the read of this test
    assert 2 == len(built), built
    assert {"SELECT"} == {verb for verb, _ in built}


def test_an_operation_is_recorded_with_one_change_of_its_node(inside, built):
    inside.conductor()
    node = inside.node("manageable")
    built.clear()
    inside.request(node, "provide")
    assert [["UPDATE", "nodes"]] == [statement for statement in built if statement[0] != "SELECT"]


def test_the_agent_record_counts_every_heartbeat(inside, other):
    inside.conductor()
    node = inside.node("deploying")
    inside.agent(node, heartbeats=0)
    uuid = inside.read(node).uuid
    sign = {"callback_url": "https://agent:9999", "agent_token": "t", "agent_version": "11"}

    def beat(view):
        return lambda: [heartbeats.heartbeat(view.runtime, uuid, sign) for _ in range(10)] and None

    assert [None] * 4 == together(*map(beat, [inside, other] * 2))
    with inside.runtime.reading() as session:
        assert 40 == session.get_one(AgentRecord, node).heartbeats
        assert session.get_one(Node, node).reservation is None


def test_a_read_on_postgresql_opens_no_transaction_on_the_server(postgresql_server):
    engine = connections.connect(postgresql_server.database())

    def status_after_a_statement(connect):
        with connect(engine) as connection:
            assert 1 == connection.scalar(select(1))
            return connection.connection.dbapi_connection.info.transaction_status

    try:
        for _ in range(2):  # the second time on a pooled connection that was used before
            assert TransactionStatus.IDLE == status_after_a_statement(transactions.read_connection)
            assert TransactionStatus.INTRANS == status_after_a_statement(
                transactions.write_connection
            )
    finally:
        engine.dispose()


def test_a_statement_that_was_compiled_before_a_fork_is_not_compiled_again():
    engine, statement = create_engine("sqlite://"), Prepared(select(literal(1)))
    prepared.compile_all(engine.dialect)
    statement.statement = None  # to compile it would fail

    with engine.connect() as connection:
        assert (1,) == statement.first(connection, {})
