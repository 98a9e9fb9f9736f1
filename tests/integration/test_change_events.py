"""Change events: every change of nodes and operations is a row, in order, and none is missed."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session
from structlog.testing import capture_logs

from app.db import connections
from app.errors import Invalid
from app.events import change_events
from app.models import ChangeEvent, Node, Operation, OperationStep
from tests.integration.harness import Harness
from workers.periodic import pruning

ALL = select(ChangeEvent.__table__)


def page(inside, position=0, limit=10_000, query=ALL, **options):
    """Number the events, and return those after a number, with `first` and `last`."""
    change_events.number(inside.runtime)
    with inside.runtime.read_connection() as connection:
        return change_events.read(connection, query, position, limit, **options)


def read(inside, position=0, limit=10_000):
    """Number the events, and return those after a number."""
    return page(inside, position, limit).rows


def brief(events):
    """(type, step, before, after) of each event."""
    return [(event.type, event.step, event.before, event.after) for event in events]


def test_the_events_of_a_flow_are_its_changes_in_order(inside):
    harness = Harness(inside)
    node = harness.node("manageable", name="n-1", owner="p-1", lessee="p-2")
    assert "available" == harness.do(node, "provide")
    events = read(inside)
    assert [*range(1, len(events) + 1)] == [event.sequence for event in events]
    row = inside.read(node)
    assert {(row.uuid, "n-1", "p-1", "p-2")} == {
        (event.node_uuid, event.node_name, event.owner, event.lessee) for event in events
    }
    states = [
        (event.before, event.after) for event in events if event.type == "node.provision_state"
    ]
    assert [("manageable", "cleaning"), ("cleaning", "available")] == states
    operation = harness.last(node)
    of_operation = [event for event in events if event.type == "operation.state"]
    assert [(None, "queued"), ("queued", "running"), ("running", "succeeded")] == [
        (event.before, event.after) for event in of_operation
    ]
    assert {(operation.uuid, "provide")} == {
        (event.operation_uuid, event.operation_kind) for event in events if event.operation_uuid
    }
    labels = [event.step for event in events if (event.type, event.after) == ("step.state", "done")]
    assert [label for label, _ in harness.labels(node)] == labels
    times = [event.created_at for event in events]
    assert sorted(times) == times


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"power_state": "power on"}, [("node.power_state", None, None, "power on")]),
        ({"maintenance": True}, [("node.maintenance", None, "false", "true")]),
        ({"extra": {"a": 1}, "updated_at": "now"}, [("node.updated", None, None, None)]),
        (
            {"maintenance": True, "updated_at": "now"},
            [("node.maintenance", None, "false", "true")],
        ),
        ({"health": "OK"}, []),
        ({"provision_state": "manageable"}, []),
    ],
    ids=str,
)
def test_an_update_of_a_node_is_one_event(inside, change, expected):
    node = inside.read(inside.node("manageable"))
    begin = len(read(inside))
    if "updated_at" in change:
        change = {**change, "updated_at": node.created_at}
    with inside.runtime.write_connection() as connection:
        connection.execute(update(Node).where(Node.id == node.id).values(change))
    assert expected == brief(read(inside, begin))


def test_a_deleted_node_leaves_its_events(inside):
    harness = Harness(inside)
    node = harness.node("manageable", name="gone", owner="p-1")
    harness.do(node, "provide")
    with inside.runtime.write_connection() as connection:
        of_node = select(Operation.id).where(Operation.node_id == node)
        connection.execute(delete(OperationStep).where(OperationStep.operation_id.in_(of_node)))
        connection.execute(delete(Operation).where(Operation.node_id == node))
        for table in ("ports", "node_history"):
            connection.execute(text(f"DELETE FROM {table} WHERE node_id = :id"), {"id": node})
        connection.execute(delete(Node).where(Node.id == node))
    event = read(inside)[-1]
    assert ("node.deleted", "available", None) == (event.type, event.before, event.after)
    assert ("gone", "p-1") == (event.node_name, event.owner)


def test_a_change_that_is_rolled_back_is_no_event(inside):
    node = inside.read(inside.node("manageable"))
    begin = len(read(inside))
    with inside.runtime.transaction() as session:
        session.get_one(Node, node.id).maintenance = True
        session.flush()
        session.rollback()
    assert [] == read(inside, begin)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_events_of_a_transaction_that_ends_late_are_not_missed(inside, database):
    early, late = (inside.read(inside.node("manageable")) for _ in range(2))
    begin = len(read(inside))
    engine = connections.connect(database)
    with Session(engine) as slow:
        slow.execute(update(Node).where(Node.id == late.id).values(maintenance=True))
        with inside.runtime.write_connection() as connection:
            connection.execute(update(Node).where(Node.id == early.id).values(maintenance=True))
        (early_event,) = read(inside, begin)
        assert (early.uuid, begin + 1) == (early_event.node_uuid, early_event.sequence)
        slow.commit()
    (late_event,) = read(inside, early_event.sequence)
    assert (late.uuid, begin + 2) == (late_event.node_uuid, late_event.sequence)
    assert late_event.id < early_event.id, "the slow transaction drew its id first"
    engine.dispose()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_one_process_at_a_time_numbers_events(inside):
    inside.node("manageable")
    unnumbered = ALL.where(ChangeEvent.sequence.is_(None))
    with inside.runtime.write_connection() as other, ThreadPoolExecutor() as pool:
        other.execute(select(func.pg_advisory_xact_lock(change_events.LOCK)))
        numbering = pool.submit(change_events.number, inside.runtime)
        with pytest.raises(TimeoutError):
            numbering.result(timeout=0.5)
        assert 1 == len(other.execute(unnumbered).all())
        other.commit()
        numbering.result(timeout=30)
    assert [1] == [event.sequence for event in read(inside)]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_process_that_stops_while_it_numbers_delays_no_reader_for_long(inside):
    inside.node("manageable")
    assert [1] == [event.sequence for event in read(inside)]
    inside.node("manageable")
    with inside.runtime.write_connection() as stopped, capture_logs() as logged:
        stopped.execute(select(func.pg_advisory_xact_lock(change_events.LOCK)))
        newest = [change_events.newest(inside.runtime) for _ in range(2)]
        stopped.rollback()
    assert [1, 1] == newest, "the event that is not numbered yet comes later"
    (warning,) = logged
    assert ("change_events.not_numbered", "canceling statement due to lock timeout") == (
        warning["event"], warning["error"]
    )  # fmt: skip
    assert 2 == change_events.newest(inside.runtime)


WRITERS, NODES, ROUNDS = 4, 6, 15


def flip(inside, nodes, number):
    """Change the maintenance of each node `ROUNDS` times."""
    view = inside.another()
    for at in range(ROUNDS * NODES):
        node = nodes[(at + number) % NODES]
        with view.runtime.write_connection() as connection:
            row = select(Node.maintenance).where(Node.id == node).with_for_update()
            changed = {"maintenance": not connection.scalar(row)}
            connection.execute(update(Node).where(Node.id == node).values(changed))
    view.close()


def follow(inside, position, total):
    """Return the next `total` events, in pages."""
    view, rows = inside.another(), []
    end = time.monotonic() + 60
    while len(rows) < total and time.monotonic() < end:
        rows += read(view, position, 7)
        position = rows[-1].sequence if rows else position
    view.close()
    return rows


def test_concurrent_readers_see_each_event_once_and_in_order(inside):
    """Writers flip nodes; readers that number at the same time miss and repeat none."""
    nodes = [inside.node("manageable") for _ in range(NODES)]
    begin, total = len(read(inside)), WRITERS * ROUNDS * NODES
    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(follow, inside, begin, total) for _ in range(2)]
        for writer in [pool.submit(flip, inside, nodes, number) for number in range(WRITERS)]:
            writer.result()
    for reader in readers:
        events = reader.result()
        assert [*range(begin + 1, begin + total + 1)] == [event.sequence for event in events]
        for node in {event.node_uuid for event in events}:
            mine = [(event.before, event.after) for event in events if event.node_uuid == node]
            flips = [("false", "true"), ("true", "false")] * len(mine)
            assert flips[: len(mine)] == mine


def test_a_page_tells_where_to_continue(inside, monkeypatch):
    monkeypatch.setattr(change_events, "SPAN", 10)
    assert ([], 0, 0) == page(inside)
    nodes = [inside.read(inside.node("manageable")).uuid for _ in range(25)]
    first_query = ALL.where(ChangeEvent.node_uuid == nodes[0])
    third_query = ALL.where(ChangeEvent.node_uuid == nodes[12])
    assert (1, 4) == (page(inside, 0, 4).first, page(inside, 0, 4).last)
    assert [22, 23, 24, 25] == [row.sequence for row in page(inside, None, 4).rows]
    result = page(inside, 0, 10, third_query)
    assert ([], 10) == (list(result.rows), result.last), "no more than a span at once"
    result = page(inside, result.last, 10, third_query)
    assert ([13], 20) == ([row.sequence for row in result.rows], result.last)
    assert [] == page(inside, None, 10, first_query).rows
    assert [1] == [row.sequence for row in page(inside, None, 10, first_query, of_node=True).rows]
    assert ([], 25) == (list(page(inside, 25).rows), page(inside, 25).last)
    with pytest.raises(Invalid, match="no event 26 yet, the newest is 25"):
        page(inside, 26)


def test_old_events_are_deleted_and_numbers_are_never_used_again(inside):
    for _ in range(5):
        inside.node("manageable")
    assert 5 == len(read(inside))
    settings = inside.runtime.settings
    inside.runtime.settings = replace(
        settings, conductor=replace(settings.conductor, change_events_lifetime=60)
    )
    assert 0 == pruning.prune_change_events(inside.runtime)
    with inside.runtime.write_connection() as connection:
        connection.execute(update(ChangeEvent).values(created_at=datetime(2020, 1, 1)))
    assert 4 == pruning.prune_change_events(inside.runtime)
    inside.node("manageable")
    assert [5, 6] == [event.sequence for event in read(inside)]
    assert 5 == page(inside).first
