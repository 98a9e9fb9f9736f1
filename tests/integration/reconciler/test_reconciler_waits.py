"""Waits that the reconciler makes up for or ends: polls, heartbeats, deadlines."""

import pytest
from sqlalchemy import update

from app.db.clock import after
from app.models import AgentRecord, Conductor, Node, Operation, Watermark
from drivers.core.steps import Wait
from workers.conductor import recording
from workers.periodic import reconciler
from workers.restoration import restore

from .conftest import claim, reconcile


def wait(inside, name, outcome):
    attempt = claim(inside, inside.claimant, name)
    recording._record(inside.claimant, attempt, outcome)
    assert "waiting" == inside.operation(name).state


def test_a_missed_poll_is_made_up_for(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait({"asked": True}, poll_after=0))
    assert ("clean wait", None) == (
        inside.read(node).provision_state,
        inside.read(node).reservation,
    )
    inside.change(Operation, name, wake_at=after(-1))
    assert {} == reconcile(inside)  # its conductor's wait monitor comes first
    inside.change(Operation, name, wake_at=after(-3))
    assert {"woken": 1} == reconcile(inside)
    assert ("cleaning", "c-1") == (
        inside.read(node).provision_state, inside.read(node).reservation
    )  # fmt: skip
    assert {"asked": True} == claim(inside, inside.claimant, name).step.progress


def test_a_poll_of_a_stopped_conductor_is_made_up_for_when_it_is_due(inside, cleaning):
    _, name = cleaning
    wait(inside, name, Wait({"asked": True}, poll_after=0))
    inside.conductor("c-2")
    inside.change(Operation, name, wake_at=after(-0.1))
    assert {} == reconcile(inside)
    inside.change(Conductor, "c-1", online=False)
    assert {"woken": 1} == reconcile(inside)


def test_a_heartbeat_that_resumed_no_operation_is_made_up_for(inside, cleaning):
    node, name = cleaning
    inside.agent(node)
    wait(inside, name, Wait())
    wait(inside, inside.request(inside.node("manageable"), "provide"), Wait())  # has no agent yet
    assert {} == reconcile(inside)
    for age, made_up_for in [(-30, {}), (3, {"called": 1})]:  # the heartbeat itself comes first
        with inside.runtime.transaction() as session:
            agent = session.get_one(AgentRecord, node)
            agent.heartbeats, agent.last_heartbeat_at = 2, after(-age)
        assert made_up_for == reconcile(inside)


def test_a_wait_of_a_flow_without_a_wait_state_ends_at_its_deadline(inside):
    inside.claimant = inside.conductor("c-1")
    node = inside.node("active")
    name = inside.request(node, "deleted")
    wait(inside, name, Wait())
    assert "deleting" == inside.read(node).provision_state
    inside.change(Operation, name, deadline_at=after(-1))
    assert {"expired": 1} == reconcile(inside)
    assert ("error", "timeout") == (
        inside.read(node).provision_state,
        inside.operation(name).error["code"],
    )


def look(inside, name, seconds=0.0):
    """Poll a machine that is still working, in so many seconds; return the operation."""
    inside.change(Operation, name, wake_at=after(-1000), deadline_at=after(-900))
    assert {"woken": 1} == reconcile(inside)
    attempt = claim(inside, inside.claimant, name)
    attempt.seconds = seconds
    recording._record(inside.claimant, attempt, Wait(poll_after=10, timeout=25))
    return inside.operation(name)


def test_time_without_polls_does_not_count_towards_the_timeout(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait(poll_after=10, timeout=25))
    operation = inside.operation(name)
    time_left = operation.deadline_at - operation.wake_at
    assert abs(time_left.total_seconds() - inside.steps(name)[0].remaining) < 1
    for _ in range(2):
        assert "waiting" == look(inside, name).state
    # the third poll was at the end of 10 + 10 + 5 seconds: it was the last
    assert "timeout" == look(inside, name).error["code"]
    assert "the machine did not get there in time" in inside.read(node).last_error


def test_the_duration_of_a_poll_counts_towards_the_timeout(inside, cleaning):
    _, name = cleaning
    wait(inside, name, Wait(poll_after=10, timeout=25))
    assert "waiting" == look(inside, name, seconds=14).state
    assert 1 > inside.steps(name)[0].remaining  # the last poll is in a second
    assert "timeout" == look(inside, name).error["code"]


@pytest.mark.parametrize(("away", "extension"), [(600, 600), (14, 0)])
def test_time_without_conductors_does_not_count_towards_the_timeout_of_agents(
    inside, cleaning, away, extension
):
    _, name = cleaning
    wait(inside, name, Wait(timeout=40))
    assert {} == reconcile(inside)
    with inside.runtime.transaction() as session:
        restore.advance(session, 0)
    first_deadlines = inside.operation(name).deadline_at, inside.steps(name)[0].deadline_at
    with inside.runtime.transaction() as session:
        session.execute(update(Watermark).values(raised_at=after(-away)))
        restore.advance(session, 0)
    later_deadlines = inside.operation(name).deadline_at, inside.steps(name)[0].deadline_at
    for old, new in zip(first_deadlines, later_deadlines, strict=True):
        assert abs(extension - (new - old).total_seconds()) < 2


def test_an_agent_without_a_heartbeat_fails_the_node_at_its_deadline(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait())
    assert {} == reconcile(inside)
    inside.change(Operation, name, deadline_at=after(-1))
    assert {"expired": 1} == reconcile(inside)
    row = inside.read(node)
    assert ("clean failed", True, "clean failure") == (
        row.provision_state, row.maintenance, row.fault
    )  # fmt: skip
    assert "Timeout reached" in row.last_error
    assert "timeout" == inside.operation(name).error["code"]


def test_a_heartbeat_of_the_agent_extends_the_deadline(inside, cleaning):
    node, name = cleaning
    inside.agent(node)
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    with inside.runtime.transaction() as session:
        session.get_one(AgentRecord, node).last_heartbeat_at = after(-100)
    assert {"expired": 1} == reconcile(inside)
    assert "waiting" == inside.operation(name).state
    with inside.runtime.reading() as session:
        heartbeat = session.get_one(AgentRecord, node).last_heartbeat_at
    waits = inside.operation(name).deadline_at - heartbeat
    assert abs(waits.total_seconds() - inside.settings.conductor.clean_callback_timeout) < 2
    assert {} == reconcile(inside)


def test_the_agent_of_a_node_in_maintenance_has_no_deadline(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    inside.change(Node, node, maintenance=True)
    assert {} == reconcile(inside)


def test_a_clean_of_a_node_whose_clean_has_failed_has_a_deadline(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    inside.change(Node, node, maintenance=True, fault="clean failure")
    assert {"expired": 1} == reconcile(inside)


@pytest.mark.parametrize("changed", [{"maintenance": True}, {"reservation": "c-2"}])
def test_a_wait_that_must_not_expire_has_no_part_in_a_limited_pass(
    inside, cleaning, monkeypatch, changed
):
    monkeypatch.setattr(reconciler, "BATCH", 1)
    node = inside.node("manageable")
    for age, name in enumerate([inside.request(node, "provide"), cleaning[1]]):
        wait(inside, name, Wait())
        inside.change(Operation, name, deadline_at=after(-1 - age))
    inside.change(Node, cleaning[0], **changed)
    assert {"expired": 1} == reconcile(inside)
    assert "clean failed" == inside.read(node).provision_state


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (Operation, {"state": "queued"}),
        (Operation, {"wake_at": after(60)}),
        (Operation, {"deadline_at": None}),
        (Operation, {"deadline_at": after(60)}),
        (Node, {"reservation": "c-2"}),
        (Node, {"maintenance": True}),
    ],
)
def test_a_wait_that_was_changed_since_it_was_found_does_not_expire(
    inside, cleaning, meanwhile, kind, changed
):
    node, name = cleaning
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    meanwhile(kind, name if kind is Operation else node, **changed)
    assert {} == reconcile(inside)
    assert inside.operation(name).error is None


def test_a_wait_that_keeps_its_node_reserved_expires(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    inside.change(Node, node, reservation="c-1", operation_id=inside.operation(name).id)
    assert {"expired": 1} == reconcile(inside)
