"""Aborts during every activity of the conductor on a node."""

import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import update

from app.engine import operations, transitions
from app.errors import NodeLocked
from app.lifecycle.provision_states import State
from app.models import Node, Operation
from app.reports import why
from drivers.fake.hardware import FakeDeploy
from tests.integration.harness import Acme, AcmeManagement, Harness, requested
from tests.integration.manual_cleaning.conftest import POLISH
from workers.conductor import claims

CRAWL, STROLL = requested("management", "crawl"), requested("management", "stroll")


@pytest.fixture
def harness(inside):
    return Harness(inside)


@contextmanager
def held_up(harness, monkeypatch, node, name, interface=AcmeManagement):
    """Run the block while a thread of the conductor hangs in a step of the node."""
    begun, let_go = threading.Event(), threading.Event()
    real = getattr(interface, name)

    def hang(this, target):
        begun.set()
        assert let_go.wait(60)
        return real(this, target)

    if hasattr(real, "__ingot_step__"):
        hang.__ingot_step__ = real.__ingot_step__
    with monkeypatch.context() as patch:
        patch.setattr(interface, name, hang)
        thread = threading.Thread(target=harness.run)
        thread.start()
        assert begun.wait(60)
        assert "running" == harness.last(node).state
        try:
            yield
        finally:
            let_go.set()
            thread.join(60)
        assert not thread.is_alive()


def test_an_abort_ends_an_operation_whose_abortable_step_hangs_in_the_conductor(
    harness, monkeypatch
):
    node = harness.node()
    harness.ask(node, "clean", clean_steps=[STROLL, POLISH])
    with held_up(harness, monkeypatch, node, "stroll"):
        with harness.inside.runtime.reading() as session:
            assert ("abort",) == why.explain(session, session.get_one(Node, node)).verbs
        harness.ask(node, "abort")
        row = harness.inside.read(node)
        assert ("clean failed", "manageable", None) == (
            row.provision_state, row.target_provision_state, row.reservation,
        )  # fmt: skip
        assert "By request" in row.last_error
        assert "manageable" == harness.do(node, "manage")
    assert ("manageable", "aborted") == (harness.state(node), harness.last(node).state)
    assert [("management.stroll", "aborted"), ("management.polish", "skipped")] == harness.labels(
        node
    )


def test_an_abort_during_a_step_that_cannot_be_aborted_takes_effect_after_it(harness, monkeypatch):
    node = harness.node()
    harness.ask(node, "clean", clean_steps=[POLISH, POLISH])
    with held_up(harness, monkeypatch, node, "polish"):
        harness.ask(node, "abort")
        assert ("cleaning", "running") == (harness.state(node), harness.last(node).state)
        assert harness.steps(node)[0].abort_after
        harness.ask(node, "abort")  # a repeated abort has no effect
    assert ["polish"] == Acme.did
    assert [("management.polish", "done"), ("management.polish", "skipped")] == harness.labels(node)
    assert ("clean failed", None) == (harness.state(node), harness.inside.read(node).reservation)


def test_an_abort_is_kept_when_a_step_that_cannot_be_aborted_begins_to_wait(harness, monkeypatch):
    node = harness.node()
    harness.ask(node, "clean", clean_steps=[CRAWL, POLISH])
    with held_up(harness, monkeypatch, node, "crawl"):
        harness.ask(node, "abort")
    assert "clean wait" == harness.state(node)
    assert "clean failed" == harness.poll(node)
    assert ["crawl"] == Acme.did


def test_an_abort_before_the_next_step_is_claimed_takes_effect_at_once(harness):
    node = harness.node()
    harness.ask(node, "clean", clean_steps=[POLISH])
    message = harness.inside.messages[-1]
    harness.ask(node, "abort")
    assert "clean failed" == harness.state(node)
    hint = message.operation, message.fence, message.cursor
    assert claims.claim(harness.conductor, *hint) is None
    harness.run()
    assert [] == Acme.did
    assert "aborted" == harness.last(node).state


def test_an_abort_during_preparation_discards_the_late_outcome(harness, monkeypatch):
    node = harness.node("active")
    harness.ask(node, "service", service_steps=[requested("management", "ask_agent")])
    with held_up(harness, monkeypatch, node, "prepare_service", FakeDeploy):
        harness.ask(node, "abort")
        row = harness.inside.read(node)
        assert ("active", None) == (row.provision_state, row.reservation)
    assert ("active", "aborted") == (harness.state(node), harness.last(node).state)
    assert [("deploy.prepare_service", "aborted")] == harness.labels(node)[:1]


def test_a_rescue_that_is_aborted_during_a_step_deletes_its_password(harness, monkeypatch):
    node = harness.node("active")
    harness.ask(node, "rescue", rescue_password="open sesame")
    operation = harness.last(node)
    assert claims.claim(harness.conductor, operation.uuid, operation.fence, 0)
    harness.ask(node, "abort")
    harness.run()
    row = harness.inside.read(node)
    assert ("rescue failed", None) == (row.provision_state, row.reservation)
    assert "rescue_password" not in row.instance_info


def test_cleanup_steps_are_not_aborted(harness):
    node = harness.node("active")
    harness.ask(node, "service", service_steps=[POLISH])
    operation = harness.last(node)
    harness.inside.change(Operation, operation.uuid, error={"code": "timeout", "message": "late"})
    with pytest.raises(NodeLocked):
        harness.ask(node, "abort")


def test_an_abort_without_an_operation_changes_the_state_alone(harness):
    node = harness.node("clean wait")
    harness.ask(node, "abort")
    assert ("clean failed", []) == (harness.state(node), harness.inside.messages)


def test_an_abort_sees_the_operation_as_it_is_when_its_row_is_locked(harness):
    """The transaction has read the operation before another one advanced it."""
    node = harness.node()
    assert "clean wait" == harness.do(
        node, "clean", clean_steps=[requested("management", "crawl"), STROLL]
    )
    with harness.inside.runtime.transaction() as session:
        row = operations.lock(session, node)
        operation = operations.of_node(session, node)[0]
        assert 0 == operation.cursor
        advanced = update(Operation).where(Operation.id == operation.id).values(cursor=1)
        session.connection().execute(advanced)
        transitions.request_abort(session, row)
    assert "clean failed" == harness.state(node), "the second step may be interrupted"


def test_a_reservation_of_another_operation_refuses_an_abort(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[STROLL])
    harness.inside.change(Node, node, reservation="c-1", operation_id=None)
    with pytest.raises(NodeLocked):
        harness.ask(node, "abort")
    harness.inside.change(Node, node, provision_state=State.VERIFYING)
    with pytest.raises(NodeLocked):
        harness.ask(node, "abort")
