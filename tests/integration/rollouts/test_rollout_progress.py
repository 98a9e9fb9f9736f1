"""Progress of rollouts: waves, budgets and pauses."""

import pytest
from sqlalchemy import delete, select

from app.db.clock import after
from app.lifecycle.operation_states import Actor
from app.lifecycle.rollout_states import RolloutEvent
from app.models import Node, Operation, OperationStep, Port, RolloutNode
from app.rollouts import rollout_targets, rollout_waves
from tests.integration.harness import Acme, requested
from workers.restoration import restore

from .conftest import STROLL

WRONG = requested("management", "scrub", args={"level": "wrong"})


def test_waves_follow_each_other(fleet):
    nodes = [fleet.node() for _ in range(5)]
    rollout = fleet.create(max_unavailable="2")
    fleet.advance(rollout)
    assert ["running"] * 2 + ["pending"] * 3 == fleet.states(rollout)
    assert "Wave 1 of 3 waits for 2 of 2 nodes: 2 in progress." == fleet.summary(rollout)
    fleet.advance(rollout)
    now = fleet.of(rollout)
    assert (2, 2, 2) == (now.wave, now.succeeded, now.running)
    fleet.advance(rollout, 2)
    ended = fleet.of(rollout)
    assert ("completed", 5, 0) == (ended.state, ended.succeeded, ended.running)
    assert ended.finished_at
    assert "completed: 5 of 5 nodes succeeded." == fleet.summary(rollout)
    assert {"manageable"} == {fleet.state(node) for node in nodes}
    assert [1] * 5 == fleet.operations()
    row = fleet.last(nodes[0])
    assert ("clean", "u-1", "req-1") == (row.kind, row.requested_by, row.request_id)


def test_a_wave_waits_for_its_slowest_node(fleet):
    slow, quick, _later = (fleet.node() for _ in range(3))
    rollout = fleet.create(steps=[STROLL], max_unavailable="2")
    fleet.advance(rollout, 3)
    fleet.poll(quick)
    fleet.advance(rollout, 3)
    assert ["running", "succeeded", "pending"] == fleet.states(rollout)
    assert "waits for 1 of 2 nodes: 1 in progress" in fleet.summary(rollout)
    fleet.poll(slow)
    fleet.advance(rollout)
    assert ["succeeded", "succeeded", "running"] == fleet.states(rollout)


def test_a_rollout_pauses_at_its_error_budget_and_a_resumption_accepts_the_failures(fleet):
    for _ in range(10):
        fleet.node()
    rollout = fleet.create(steps=[WRONG], max_unavailable="3", error_budget="50%")
    paused = fleet.advance(rollout, 6)
    assert ("paused", "error budget", 6) == (paused.state, paused.pause_cause, paused.failed)
    assert (
        "paused: error budget 50% (5 nodes) reached."
        " 6 of 10 failed; codes: 6 bad_argument." == fleet.summary(rollout)
    )
    assert [1] * 6 + [0] * 4 == fleet.operations()
    fleet.request(rollout, RolloutEvent.RESUME)
    ended = fleet.advance(rollout, 6)
    assert ("completed", None, 10) == (ended.state, ended.pause_cause, ended.failed)
    assert "10 of 10 failed, 6 of them accepted" in fleet.summary(rollout)
    assert [1] * 10 == fleet.operations()
    member = fleet.members(rollout)[0]
    assert ("bad_argument", True) == (member.code, "level 'wrong' is none" in member.error)


def test_a_failure_in_the_canary_pauses(fleet):
    for _ in range(6):
        fleet.node()
    rollout = fleet.create(steps=[WRONG], max_unavailable="4", canary=2, error_budget="6")
    paused = fleet.advance(rollout, 4)
    assert ("paused", "canary", 2) == (paused.state, paused.pause_cause, paused.failed)
    assert "a node of the first 2, the canary, failed" in fleet.summary(rollout)
    fleet.request(rollout, RolloutEvent.RESUME)
    assert "completed" == fleet.advance(rollout, 4).state


def test_a_paused_rollout_starts_no_node_and_records_what_ends(fleet):
    node, other = fleet.node(), fleet.node()
    rollout = fleet.create(steps=[STROLL])
    fleet.advance(rollout)
    fleet.request(rollout, RolloutEvent.PAUSE)
    assert "paused: by an operator. 1 node in progress." == fleet.summary(rollout)
    fleet.poll(node)
    paused = fleet.advance(rollout, 3)
    assert ("paused", "operator", 1, 0) == (
        paused.state, paused.pause_cause, paused.succeeded, paused.running
    )  # fmt: skip
    assert "manageable" == fleet.state(other)
    fleet.request(rollout, RolloutEvent.RESUME)
    fleet.advance(rollout)
    assert "clean wait" == fleet.state(other)


def test_failures_do_not_change_the_cause_of_a_pause(fleet):
    node, _other = fleet.node(), fleet.node()
    rollout = fleet.create(steps=[STROLL])
    fleet.advance(rollout)
    fleet.request(rollout, RolloutEvent.PAUSE)
    fleet.ask(node, "abort")
    fleet.run()
    paused = fleet.advance(rollout, 2)
    assert ("paused", "operator", 1) == (paused.state, paused.pause_cause, paused.failed)


def test_an_outdated_list_of_members_starts_no_node_again(fleet):
    for _ in range(2):
        fleet.node()
    rollout = fleet.create(max_unavailable="2")
    members = rollout_waves._decide(fleet.inside.runtime, rollout)
    assert 2 == len(members)
    for _ in range(2):
        for member in members:
            rollout_waves._start(fleet.inside.runtime, rollout, member)
        fleet.run()
    assert [1, 1] == fleet.operations()


def test_a_node_that_is_deleted_during_its_operation_has_failed(fleet):
    node = fleet.node()
    rollout = fleet.create(steps=[STROLL], error_budget="2")
    fleet.advance(rollout)
    with fleet.inside.runtime.transaction() as session:
        operations = select(Operation.id).where(Operation.node_id == node)
        session.execute(delete(OperationStep).where(OperationStep.operation_id.in_(operations)))
        session.execute(delete(Operation).where(Operation.node_id == node))
    ended = fleet.advance(rollout)
    assert ("completed", 1) == (ended.state, ended.failed)
    assert "deleted" == fleet.members(rollout)[0].code


def test_an_aborted_rollout_ends_with_the_operations_in_progress(fleet):
    node, other = fleet.node(), fleet.node()
    rollout = fleet.create(steps=[STROLL])
    fleet.advance(rollout)
    fleet.request(rollout, RolloutEvent.ABORT)
    assert "aborting" == fleet.advance(rollout, 2).state
    assert "aborting: waits for 1 node in progress." == fleet.summary(rollout)
    fleet.poll(node)
    ended = fleet.advance(rollout)
    assert ("aborted", 1, 1) == (ended.state, ended.succeeded, ended.pending)
    assert "aborted: 1 of 2 nodes succeeded, 1 not started." == fleet.summary(rollout)
    assert ("manageable" == fleet.advance(rollout) and fleet.state(other)) or fleet.state(other)


def test_an_operation_that_an_operator_aborts_is_a_failure(fleet):
    node = fleet.node()
    rollout = fleet.create(steps=[STROLL], error_budget="2")
    fleet.advance(rollout)
    fleet.ask(node, "abort")
    fleet.run()
    ended = fleet.advance(rollout)
    assert ("completed", 1) == (ended.state, ended.failed)
    assert "aborted" == fleet.members(rollout)[0].code


def test_a_locked_node_is_tried_again(fleet):
    node = fleet.node()
    rollout = fleet.create()
    fleet.inside.change(Node, node, reservation="c-9")
    fleet.advance(rollout)
    (member,) = fleet.members(rollout)
    assert ("pending", "locked") == (member.state, member.code)
    assert "locked by host c-9" in member.error
    assert "1 locked by other operations" in fleet.summary(rollout)
    fleet.inside.change(Node, node, reservation=None)
    fleet.advance(rollout, 2)
    assert ["pending"] == fleet.states(rollout), "it is not due yet"
    fleet.inside.change(RolloutNode, member.id, due_at=after(-1))
    assert "completed" == fleet.advance(rollout, 2).state
    (member,) = fleet.members(rollout)
    assert (None, None) == (member.code, member.error)


def test_a_node_without_a_conductor_is_tried_again(fleet):
    fleet.node(conductor_group="elsewhere")
    rollout = fleet.create()
    fleet.advance(rollout)
    (member,) = fleet.members(rollout)
    assert ("pending", "unavailable") == (member.state, member.code)
    assert "without a live conductor" in fleet.summary(rollout)


def test_a_process_without_the_driver_of_a_node_leaves_it_to_others(fleet):
    fleet.node()
    rollout = fleet.create()
    other = fleet.inside.another()
    rollout_waves.advance_all(other.runtime)
    other.close()
    (member,) = fleet.members(rollout)
    assert ("pending", "unavailable") == (member.state, member.code)
    assert "driver acme is not loaded" in member.error
    fleet.inside.change(RolloutNode, member.id, due_at=after(-1))
    assert "completed" == fleet.advance(rollout, 2).state


def change_owner(fleet, node):
    fleet.inside.change(Node, node, owner="another")


def change_state(fleet, node):
    fleet.inside.change(Node, node, provision_state="active")


def remove(fleet, node):
    with fleet.inside.runtime.transaction() as session:
        session.execute(delete(Port).where(Port.node_id == node))
        session.execute(delete(Node).where(Node.id == node))


@pytest.mark.parametrize(
    ("change", "code"),
    [(change_owner, "reassigned"), (change_state, "not_accepted"), (remove, "deleted")],
)
def test_a_node_that_has_changed_since_the_creation_is_not_started(fleet, change, code):
    node = fleet.node(owner="p-1")
    rollout = fleet.create(error_budget="5")
    change(fleet, node)
    ended = fleet.advance(rollout, 2)
    assert ("completed", 1) == (ended.state, ended.failed)
    assert code == fleet.members(rollout)[0].code
    assert [0] * (change is not remove) == fleet.operations()


def test_refusals_count_for_the_budget_at_once(fleet):
    nodes = [fleet.node() for _ in range(10)]
    rollout = fleet.create(max_unavailable="10", error_budget="3")
    for node in nodes:
        change_state(fleet, node)
    paused = fleet.advance(rollout, 3)
    assert ("paused", 3) == (paused.state, paused.failed)


def test_a_defect_at_the_start_of_a_node_does_not_block_the_others(fleet, monkeypatch):
    for _ in range(2):
        fleet.node()
    rollout = fleet.create(max_unavailable="2", error_budget="9")
    request, calls = rollout_targets.provisioning.request, []

    def first_fails(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise ZeroDivisionError
        return request(*arguments)

    monkeypatch.setattr(rollout_targets.provisioning, "request", first_fails)
    ended = fleet.advance(rollout, 3)
    assert ("completed", 1, 1) == (ended.state, ended.failed, ended.succeeded)
    assert "defect" == fleet.members(rollout)[0].code


def test_a_verb_without_an_operation_succeeds_at_once(fleet):
    nodes = [fleet.node("available") for _ in range(2)]
    rollout = fleet.create("manage", steps=())
    fleet.advance(rollout, 3)
    assert "completed" == fleet.of(rollout).state
    assert {"manageable"} == {fleet.state(node) for node in nodes}
    assert [None, None] == [member.operation_uuid for member in fleet.members(rollout)]


def test_invalid_steps_fail_the_node(fleet):
    fleet.node()
    rollout = fleet.create(steps=[requested("management", "no_such_step")], error_budget="2")
    ended = fleet.advance(rollout, 2)
    assert ("completed", 1) == (ended.state, ended.failed)
    assert "invalid_steps" == fleet.members(rollout)[0].code


def test_power_is_changed_wave_by_wave(fleet):
    for _ in range(2):
        fleet.node("active", power_state="power off")
    rollout = fleet.create("power on", steps=())
    fleet.advance(rollout)
    assert [("power on")] == Acme.did
    assert "completed" == fleet.advance(rollout, 2).state
    assert ["power on"] * 2 == Acme.did


def test_a_restored_database_pauses_rollouts(fleet):
    for _ in range(2):
        fleet.node()
    rollout = fleet.create(steps=[STROLL])
    fleet.advance(rollout)
    with fleet.inside.runtime.transaction(Actor.COMMAND) as session:
        restore.quarantine(session)
    paused = fleet.advance(rollout, 2)
    assert ("paused", "database restored", 1) == (
        paused.state, paused.pause_cause, paused.failed
    )  # fmt: skip
    assert [1, 0] == fleet.operations()
    assert "restored from a backup" in fleet.summary(rollout)
