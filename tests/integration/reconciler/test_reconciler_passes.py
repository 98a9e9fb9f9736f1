"""Passes of the reconciler: batches, order, and rows that change meanwhile."""

from contextlib import nullcontext

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from app.db.clock import after
from app.engine import dispatch, operations
from app.models import Conductor, Operation
from tests.support.redis import breakers
from workers.periodic import control_tasks, reconciler, schedule

from .conftest import TRUSTED, claim, reconcile


@pytest.fixture
def orphans(inside):
    """UUIDs of five operations with a dead conductor, the oldest claim first."""
    dead = inside.conductor("c-1")
    names = [inside.request(inside.node("manageable"), "provide") for _ in range(5)]
    for age, name in enumerate(names):  # in the order of their due times, not of their ids
        claim(inside, dead, name)
        inside.change(Operation, name, deadline_at=after(600 - age))
    inside.conductor("c-2")
    inside.change(Conductor, "c-1", heartbeat_at=after(-16))
    inside.messages.clear()
    return names[::-1]


def test_a_pass_takes_operations_over_in_batches(inside, orphans, monkeypatch):
    monkeypatch.setattr(reconciler, "TOGETHER", 2)
    assert {"taken_over": 5} == reconcile(inside)
    assert sorted(orphans) == sorted(message.operation for message in inside.messages)
    assert [2] * 5 == [inside.operation(name).fence for name in orphans]
    assert {} == reconcile(inside)


def test_a_limited_pass_takes_over_the_oldest(inside, orphans, monkeypatch):
    monkeypatch.setattr(reconciler, "BATCH", 2)
    assert {"taken_over": 2} == reconcile(inside)
    assert orphans[:2] == [message.operation for message in inside.messages]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)  # PostgreSQL's are concurrent
def test_the_batches_of_all_actions_are_interleaved(inside, monkeypatch):
    begun = []
    monkeypatch.setattr(reconciler, "TOGETHER", 1)
    monkeypatch.setattr(
        reconciler, "_each", lambda _runtime, act, *ids: begun.append((act, *ids)) or 1
    )
    todo = [("woken", "wake", [1, 2]), ("expired", "expire", [3, 4])]
    assert {"woken": 2, "expired": 2} == reconciler._do(inside.runtime, todo)
    assert [{1, 3}, {2, 4}] == [{number for _, number in begun[at : at + 2]} for at in (0, 2)]


def test_an_operation_that_cannot_be_driven_delays_no_other(inside, orphans, monkeypatch):
    monkeypatch.setattr(reconciler, "TOGETHER", 2)
    inside.change(Operation, orphans[1], cursor=99)  # there is no such step
    assert {"taken_over": 4} == reconcile(inside)
    assert ("running", 1) == (
        inside.operation(orphans[1]).state, inside.operation(orphans[1]).fence
    )  # fmt: skip


def test_a_node_locked_by_another_transaction_is_left_to_the_next_pass(inside, orphans):
    if inside.runtime.engine.dialect.name == "sqlite":
        return  # SQLite has one writer, and no row locks
    other = inside.another()
    with other.runtime.transaction() as session:
        operations.lock(session, inside.operation(orphans[0]).node_id)
        assert {"taken_over": 4} == reconcile(inside)
    other.close()
    assert {"taken_over": 1} == reconcile(inside)


@pytest.mark.parametrize(
    ("orig", "whole"), [("57014", False), ("40P01", False), ("25006", True), ("53100", True)]
)
def test_a_pass_ends_when_the_database_is_unreachable_and_not_when_one_statement_fails(
    inside, orphans, monkeypatch, orig, whole
):
    error = Exception("no")
    error.sqlstate = orig
    failed = []
    real = dispatch.dispatch

    def hand_out(session, node, operation, event):
        if operation.uuid == orphans[0]:
            failed.append(1)
            raise OperationalError("UPDATE", None, error)
        real(session, node, operation, event)

    monkeypatch.setattr(dispatch, "dispatch", hand_out)
    with pytest.raises(OperationalError) if whole else nullcontext():
        assert {"taken_over": 4} == reconcile(inside)
    assert failed


@pytest.mark.parametrize("changed", [{"state": "waiting"}, {"queue": "clean", "admitted_at": None}])
def test_an_operation_that_was_changed_since_it_was_found_is_not_sent(
    inside, cleaning, meanwhile, changed
):
    inside.change(Operation, cleaning[1], sent_at=None)
    meanwhile(Operation, cleaning[1], **changed)
    assert "resent" not in reconcile(inside)


@pytest.mark.parametrize("changed", [{"state": "waiting"}, {"claimed_by": "live"}])
def test_a_claim_that_was_changed_since_it_was_found_is_not_taken_over(
    inside, orphans, meanwhile, changed
):
    if "claimed_by" in changed:
        changed = {"claimed_by": inside.conductor("c-3").incarnation}
    meanwhile(Operation, orphans[0], **changed)
    assert {"taken_over": 4} == reconcile(inside)
    assert 1 == inside.operation(orphans[0]).fence


def test_the_broker_has_held_no_message_before_the_first_operation(inside):
    node = inside.node("manageable")
    assert not reconciler.has_had_work(inside.runtime)
    inside.conductor("c-1")
    inside.request(node, "provide")
    assert reconciler.has_had_work(inside.runtime)


def test_all_queued_operations_are_sent_again_once_after_redis_was_emptied(
    inside, cleaning, redis_client, redis_url, monkeypatch
):
    from celery import Celery

    monkeypatch.setattr(control_tasks, "_spaced", lambda _seconds, work: work)
    application = Celery(set_as_current=False)
    application.breakers = breakers(redis_url)
    control_tasks.register_tasks(application, inside.runtime, "c-1", redis_client)
    reconcile_task = application.tasks[schedule.RECONCILE]
    for count in (2, 2):
        reconcile_task()
        assert count == len(inside.messages)
    redis_client.flushall()
    reconcile_task()
    assert 3 == len(inside.messages)


def test_a_pass_without_unfinished_operations_makes_no_further_reads(inside):
    inside.conductor()
    inside.node()
    statements = []

    def note(_connection, _cursor, statement, *_rest):
        statements.append(statement)

    event.listen(inside.runtime.engine, "before_cursor_execute", note)
    try:
        assert {0} == set(reconciler.reconcile(inside.runtime, TRUSTED).values())
        idle = len([statement for statement in statements if "SELECT" in statement])
        inside.request(inside.node("manageable"), "provide")
        statements.clear()
        reconciler.reconcile(inside.runtime, TRUSTED)
    finally:
        event.remove(inside.runtime.engine, "before_cursor_execute", note)
    assert idle <= 2 < len([statement for statement in statements if "SELECT" in statement])
