"""Rollouts: waves, budgets and pauses, and one start of each node in spite of deaths."""

import itertools
import os
import signal
import threading
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from sqlalchemy import delete, select

from app.db.clock import after
from app.errors import Conflict, Forbidden, Invalid, NotFound
from app.identity import accounts, authentication
from app.identity.caller import Caller
from app.lifecycle.operation_states import Actor, IllegalTransition
from app.lifecycle.rollout_states import ROLLOUTS, RolloutEvent, transition
from app.models import (
    Node,
    Operation,
    OperationStep,
    PauseCause,
    Port,
    Rollout,
    RolloutNode,
    RolloutState,
)
from app.process import kill_points
from app.rollouts import rollout_plan, rollout_progress, rollout_waves, rollouts
from app.rollouts.rollout_plan import Strategy
from app.runtime import Runtime
from tests.integration.harness import Acme, Harness, requested
from tests.support.local_users import Directory
from workers.periodic import pruning
from workers.restoration import restore

CALLER = Caller(user_id="u-1", user_name="Ada", request_id="req-1")
POLISH, STROLL = (requested("management", name) for name in ("polish", "stroll"))
WRONG = requested("management", "scrub", args={"level": "wrong"})
ONE_BY_ONE = Strategy()


class Fleet(Harness):
    """Nodes in rollouts."""

    def plan(self, target="clean", strategy=ONE_BY_ONE, denial=lambda _owner, _lessee: None):
        with self.inside.runtime.reading() as session:
            found = select(*rollout_plan.columns(strategy))
            return rollout_plan.plan(session, found, target, strategy, denial)

    def create(self, target="clean", steps=(POLISH,), caller=CALLER, **strategy):
        """Create a rollout over all nodes; return its id."""
        limits = Strategy(**strategy)
        fields = {
            "target": target, "filters": {}, "strategy": limits.document(),
            "arguments": {f"{target}_steps": list(steps)} if steps else {},
        }  # fmt: skip
        plan = self.plan(target, limits)
        with self.inside.runtime.transaction() as session:
            return rollouts.create(session, plan, fields, caller).id

    def advance(self, rollout, times=1):
        for _ in range(times):
            rollout_waves.advance_all(self.inside.runtime)
            self.run()
        return self.of(rollout)

    def of(self, rollout):
        with self.inside.runtime.reading() as session:
            return session.get_one(Rollout, rollout)

    def summary(self, rollout):
        with self.inside.runtime.reading() as session:
            return rollout_progress.summary(session, session.get_one(Rollout, rollout))

    def members(self, rollout):
        with self.inside.runtime.reading() as session:
            of = select(RolloutNode).where(RolloutNode.rollout_id == rollout)
            return list(session.scalars(of.order_by(RolloutNode.id)))

    def states(self, rollout):
        return [each.state for each in self.members(rollout)]

    def request(self, rollout, event):
        with self.inside.runtime.transaction() as session:
            rollouts.request(session, self.of(rollout).uuid, event)

    def operations(self):
        """Number of operations of each node, in order."""
        with self.inside.runtime.reading() as session:
            nodes = session.scalars(select(Node.id).order_by(Node.id))
            made = list(session.scalars(select(Operation.node_id)))
            return [made.count(node) for node in nodes]


@pytest.fixture
def fleet(inside):
    return Fleet(inside)


# plans


def waves(groups, **strategy):
    """Waves of nodes that are named by their groups and numbers, as lists of names."""
    rows = [SimpleNamespace(group=group, id=number) for number, group in enumerate(groups)]
    limits = Strategy(**strategy)
    planned = rollout_plan._waves(rows, limits, min(limits.canary, len(rows)))
    return [[each.group for each in wave] for wave in planned]


@pytest.mark.parametrize(
    ("groups", "strategy", "expected"),
    [
        ("aaa", {}, ["a", "a", "a"]),
        ("aaa", {"max_unavailable": "2"}, ["aa", "a"]),
        ("a" * 10, {"max_unavailable": "35%"}, ["aaa", "aaa", "aaa", "a"]),
        ("aa", {"max_unavailable": "1%"}, ["a", "a"]),
        ("abab", {"max_unavailable": "9", "max_groups": 1}, ["aa", "bb"]),
        ("abcabc", {"max_unavailable": "9", "max_groups": 2}, ["aabb", "cc"]),
        ("aaab", {"max_unavailable": "2", "max_groups": 1}, ["aa", "a", "b"]),
        ("aaabb", {"max_unavailable": "9", "max_per_group": 1}, ["ab", "ab", "a"]),
        ("aabbcc", {"max_unavailable": "3", "max_per_group": 2}, ["aab", "bcc"]),
        ("aaaa", {"max_unavailable": "3", "canary": 1}, ["a", "aaa"]),
        ("aaaaa", {"max_unavailable": "2", "canary": 3}, ["aa", "a", "aa"]),
        ("ab", {"canary": 5, "max_unavailable": "9"}, ["ab"]),
        ("", {}, []),
    ],
)
def test_waves_meet_all_limits(groups, strategy, expected):
    assert [list(wave) for wave in expected] == waves(groups, **strategy)


def test_a_plan_has_each_node_once_also_with_many_groups():
    groups = [f"rack-{number % 500}" for number in range(20_000)]
    planned = waves(groups, max_unavailable="70", max_groups=30, max_per_group=4)
    assert sorted(groups) == sorted(group for wave in planned for group in wave)
    assert 70 >= max(map(len, planned))
    assert 30 >= max(len(set(wave)) for wave in planned)
    assert 4 >= max(wave.count(group) for wave in planned for group in wave)


def test_nodes_are_grouped_by_fields_and_by_keys_of_documents(fleet):
    fleet.node(extra={"rack": "r1"}, shard="s2")
    fleet.node(extra={"rack": "r2"}, shard="s1")
    fleet.node(extra={"rack": 3})
    fleet.node(extra={})
    by_rack = fleet.plan(strategy=Strategy(group_by="extra.rack")).members
    assert ["", "3", "r1", "r2"] == [each.group for each in by_rack]
    by_shard = fleet.plan(strategy=Strategy(group_by="shard")).members
    assert ["", "", "s1", "s2"] == [each.group for each in by_shard]


def test_nodes_that_cannot_take_part_are_excluded_with_the_reason(fleet):
    fine = fleet.inside.read(fleet.node())
    fleet.node("active", name="busy")
    fleet.node(maintenance=True, name="broken")
    fleet.node(owner="p-2", name="foreign")
    plan = fleet.plan(denial=lambda owner, _lessee: "not yours" if owner == "p-2" else None)
    assert [fine.uuid] == [each.uuid for each in plan.members]
    reasons = {each.name: each.reason for each in plan.excluded}
    assert 'is in state "active"' in reasons["busy"].replace("it is in", "is in")
    assert "maintenance" in reasons["broken"]
    assert "not yours" == reasons["foreign"]
    off = fleet.plan("power off").members
    assert 4 == len(off), "power needs no provision state, and no maintenance forbids it"


def test_a_rollout_without_nodes_is_refused(fleet):
    fleet.node("active")
    with pytest.raises(Invalid, match="nodes: none of the 1 nodes that match can take part"):
        fleet.create()


# progress


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
    last = fleet.last(nodes[0])
    assert ("clean", "u-1", "req-1") == (last.kind, last.requested_by, last.request_id)


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
    first, second = fleet.node(), fleet.node()
    rollout = fleet.create(steps=[STROLL])
    fleet.advance(rollout)
    fleet.request(rollout, RolloutEvent.PAUSE)
    assert "paused: by an operator. 1 node in progress." == fleet.summary(rollout)
    fleet.poll(first)
    paused = fleet.advance(rollout, 3)
    assert ("paused", "operator", 1, 0) == (
        paused.state, paused.pause_cause, paused.succeeded, paused.running
    )  # fmt: skip
    assert "manageable" == fleet.state(second)
    fleet.request(rollout, RolloutEvent.RESUME)
    fleet.advance(rollout)
    assert "clean wait" == fleet.state(second)


def test_failures_do_not_change_the_cause_of_a_pause(fleet):
    first, _second = fleet.node(), fleet.node()
    rollout = fleet.create(steps=[STROLL])
    fleet.advance(rollout)
    fleet.request(rollout, RolloutEvent.PAUSE)
    fleet.ask(first, "abort")
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
    first, second = fleet.node(), fleet.node()
    rollout = fleet.create(steps=[STROLL])
    fleet.advance(rollout)
    fleet.request(rollout, RolloutEvent.ABORT)
    assert "aborting" == fleet.advance(rollout, 2).state
    assert "aborting: waits for 1 node in progress." == fleet.summary(rollout)
    fleet.poll(first)
    ended = fleet.advance(rollout)
    assert ("aborted", 1, 1) == (ended.state, ended.succeeded, ended.pending)
    assert "aborted: 1 of 2 nodes succeeded, 1 not started." == fleet.summary(rollout)
    assert ("manageable" == fleet.advance(rollout) and fleet.state(second)) or fleet.state(second)


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
    request, calls = rollout_waves.provisioning.request, []

    def first_fails(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise ZeroDivisionError
        return request(*arguments)

    monkeypatch.setattr(rollout_waves.provisioning, "request", first_fails)
    ended = fleet.advance(rollout, 3)
    assert ("completed", 1, 1) == (ended.state, ended.failed, ended.succeeded)
    assert "defect" == fleet.members(rollout)[0].code


def test_a_verb_without_an_operation_succeeds_at_once(fleet):
    nodes = [fleet.node("available") for _ in range(2)]
    rollout = fleet.create("manage", steps=())
    fleet.advance(rollout, 3)
    assert "completed" == fleet.of(rollout).state
    assert {"manageable"} == {fleet.state(node) for node in nodes}
    assert [None, None] == [each.operation_uuid for each in fleet.members(rollout)]


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


# requests


@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("running", "resume"), ("paused", "pause"), ("aborting", "abort"), ("aborting", "pause"),
        ("aborted", "resume"), ("completed", "abort"),
    ],
)  # fmt: skip
def test_a_request_in_the_wrong_state_is_refused(fleet, state, event):
    fleet.node()
    rollout = fleet.create()
    fleet.inside.change(Rollout, rollout, state=state)
    with pytest.raises(Conflict, match=f'is in state "{state}", and {event} needs state'):
        fleet.request(rollout, RolloutEvent(event))


def test_an_unknown_rollout_is_not_found(fleet):
    with fleet.inside.runtime.transaction() as session, pytest.raises(NotFound):
        rollouts.request(session, str(uuid.uuid4()), RolloutEvent.PAUSE)


def test_rollouts_are_deleted_a_while_after_their_end(fleet, monkeypatch):
    monkeypatch.setattr(pruning, "ROLLOUT_NODES_BATCH", 2)
    for _ in range(3):
        fleet.node()
    old, young, paused = (fleet.create(max_unavailable="3") for _ in range(3))
    for ended in (old, young):
        fleet.inside.change(Rollout, ended, state="completed", finished_at=None)
    fleet.inside.change(Rollout, paused, state="paused", created_at=datetime(2020, 1, 1))
    day = timedelta(days=1)
    lifetime = timedelta(seconds=fleet.inside.runtime.settings.conductor.rollouts_lifetime)
    assert 90 * day == lifetime
    now = datetime.now(UTC).replace(tzinfo=None)
    fleet.inside.change(Rollout, old, finished_at=now - lifetime - day)
    fleet.inside.change(Rollout, young, finished_at=now - lifetime + day)
    assert 1 == pruning.prune_rollouts(fleet.inside.runtime)
    assert [0, 3, 3] == [len(fleet.members(each)) for each in (old, young, paused)]
    with fleet.inside.runtime.reading() as session:
        assert [young, paused] == list(session.scalars(select(Rollout.id).order_by(Rollout.id)))
    assert 0 == pruning.prune_rollouts(fleet.inside.runtime)


def test_the_deletion_of_a_large_rollout_goes_on_after_a_death(fleet, monkeypatch):
    for _ in range(3):
        fleet.node()
    rollout = fleet.create()
    ended = {"state": "aborted", "finished_at": datetime(2020, 1, 1)}
    fleet.inside.change(Rollout, rollout, **ended)
    monkeypatch.setattr(pruning, "ROLLOUT_NODES_BATCH", 1)

    def prune(another):
        transaction, count = Runtime.transaction, itertools.count()

        def dying(runtime, *arguments):
            if next(count) == 2:  # two of three nodes are deleted
                os.kill(os.getpid(), signal.SIGKILL)
            return transaction(runtime, *arguments)

        monkeypatch.setattr(Runtime, "transaction", dying)
        pruning.prune_rollouts(another.inside.runtime)

    assert die_in(fleet.inside, "acted:rollout", prune)
    assert 1 == len(fleet.members(rollout))
    assert "aborted" in fleet.summary(rollout)
    assert 1 == pruning.prune_rollouts(fleet.inside.runtime)
    assert [] == fleet.members(rollout)


@pytest.mark.parametrize("event", [each for each in RolloutEvent if each != "create"])
def test_an_actor_fires_its_own_events_only(fleet, event):
    fleet.node()
    rollout = fleet.create()
    origins = ROLLOUTS[event].origins
    before = next(iter(origins))
    others = set(Actor).difference(*origins.values())
    fleet.inside.change(Rollout, rollout, state=before)
    for actor in others:
        with fleet.inside.runtime.transaction(actor) as session, pytest.raises(IllegalTransition):
            transition(session, session.get_one(Rollout, rollout), event)


# deaths and competitors


def die_in(inside, point, advance):
    """Call `advance` in a process that dies at a kill point; return whether it died."""
    inside.runtime.engine.dispose()
    child = os.fork()
    if child == 0:
        try:
            another = Fleet(inside.another())
            kill_points.arm([f"any:{point}=die"], "c-1")
            advance(another)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("point", ["acted:rollout", "handed_out:clean", "committed:clean"])
def test_a_death_at_any_point_loses_and_repeats_nothing(fleet, point):
    for _ in range(3):
        fleet.node()
    rollout = fleet.create(max_unavailable="2")
    died = die_in(fleet.inside, point, lambda another: another.advance(rollout, 4))
    assert died
    before = fleet.of(rollout)
    assert [1] * before.running + [0] * (3 - before.running) == fleet.operations()
    for message in unsent(fleet):  # the reconciler sends the ones that the process has not
        fleet.inside.sent.append(message)
    fleet.run()
    ended = fleet.advance(rollout, 5)
    assert ("completed", 3) == (ended.state, ended.succeeded)
    assert [1] * 3 == fleet.operations()


def unsent(fleet):
    with fleet.inside.runtime.reading() as session:
        names = session.scalars(select(Operation.uuid).where(Operation.state == "queued")).all()
    return [fleet.inside.message(name) for name in names]


def test_several_processes_start_each_node_once(fleet):
    for _ in range(40):
        fleet.node()
    rollout = fleet.create(max_unavailable="40")
    others = [fleet.inside.another() for _ in range(4)]
    for each in others:
        each.runtime.drivers = fleet.inside.runtime.drivers
    start, errors = threading.Barrier(4), []

    def work(other):
        try:
            start.wait(60)
            for _ in range(10):
                rollout_waves.advance_all(other.runtime)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in others]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for each in others:
        fleet.inside.sent += each.sent
        each.close()
    assert [] == errors
    fleet.advance(rollout)
    assert [1] * 40 == fleet.operations()
    fleet.run()
    ended = fleet.advance(rollout, 2)
    assert ("completed", 40, 0) == (ended.state, ended.succeeded, ended.running)


def test_an_end_is_recorded_once_also_for_more_nodes_than_one_transaction_takes(fleet, monkeypatch):
    monkeypatch.setattr(rollout_waves, "SETTLED", 2)
    monkeypatch.setattr(rollout_waves, "STARTED", 3)
    for _ in range(7):
        fleet.node()
    rollout = fleet.create(max_unavailable="7")
    fleet.advance(rollout)
    assert 3 == fleet.of(rollout).running
    fleet.advance(rollout, 3)
    ended = fleet.of(rollout)
    assert ("completed", 7, 0) == (ended.state, ended.succeeded, ended.failed)


# rights of the caller


@pytest.fixture
def people(inside):
    """Users of the database, with `auth_strategy` local."""
    settings = inside.runtime.settings
    inside.runtime.settings = replace(
        settings, default=replace(settings.default, auth_strategy="local")
    )
    return Directory(inside.runtime.transaction)


def caller_of(inside, name, project=None):
    """The caller of a user with all roles in a scope."""
    with inside.runtime.engine.connect() as connection:
        account = authentication.account_of(connection, name)
        return authentication.of_account(connection, account, project, "req-9")


def several(fleet, number):
    fleet.inside.conductor("c-1")
    for _ in range(number):
        fleet.node()


def disable(people):
    people.enable("ann", False)


def lose_the_role(people):
    people.revoke("manager", "blue", user="ann")


def leave_the_group(people):
    with people._transaction() as session:
        accounts.remove_member(session, "team", "ann")


def be_deleted(people):
    people.remove("user", "ann")


def lose_the_project(people):
    people.remove("project", "blue")


@pytest.mark.parametrize(
    ("loss", "by_group"),
    [
        (disable, False), (be_deleted, False), (lose_the_role, False), (lose_the_project, False),
        (leave_the_group, True),
    ],
)  # fmt: skip
def test_a_rollout_pauses_before_its_next_node_when_its_caller_loses_rights(
    fleet, inside, people, loss, by_group
):
    people.user("ann")
    people.user("bob", ("admin", None))
    people.project("blue", "p-blue")
    if by_group:
        people.group("team", "ann")
        people.grant("manager", "blue", group="team")
    else:
        people.grant("manager", "blue", user="ann")
    several(fleet, 3)
    rollout = fleet.create(caller=caller_of(inside, "ann", "blue"))
    assert 1 == fleet.advance(rollout).running + fleet.of(rollout).succeeded

    loss(people)
    for _ in range(3):
        found = fleet.advance(rollout)
    assert (RolloutState.PAUSED, PauseCause.CALLER) == (found.state, found.pause_cause)
    assert 2 == found.pending, "the operation in progress ends, and no further one begins"
    assert "ann has lost rights" in fleet.summary(rollout)

    bob = caller_of(inside, "bob")
    with inside.runtime.transaction() as session:
        rollouts.request(session, found.uuid, RolloutEvent.RESUME, bob)
    for _ in range(4):
        found = fleet.advance(rollout)
    assert (RolloutState.COMPLETED, "bob") == (found.state, found.user_name)


def test_a_node_is_not_started_by_a_caller_who_has_lost_rights_since_the_decision(
    fleet, inside, people
):
    people.user("ann", ("manager", None))
    several(fleet, 1)
    rollout = fleet.create(caller=caller_of(inside, "ann"))
    members = rollout_waves._decide(inside.runtime, rollout)
    disable(people)
    assert [False] == [rollout_waves._start(inside.runtime, rollout, each) for each in members]
    assert [0] == fleet.operations()
    assert PauseCause.CALLER == fleet.of(rollout).pause_cause


def test_more_rights_and_another_password_leave_a_rollout_as_it_is(fleet, inside, people):
    people.user("ann", ("member", None))
    several(fleet, 2)
    rollout = fleet.create(caller=caller_of(inside, "ann"))
    people.grant("admin", user="ann")
    people.password("ann", "another password")
    assert RolloutState.RUNNING == fleet.advance(rollout).state
    people.revoke("admin", user="ann")
    for _ in range(3):
        found = fleet.advance(rollout)
    assert RolloutState.COMPLETED == found.state, "the role that it relies on was kept"


def test_a_rollout_is_taken_over_only_with_all_of_its_rights(fleet, inside, people):
    people.project("blue", "p-blue")
    people.project("red", "p-red")
    people.user("ann", ("manager", "blue"))
    people.user("low", ("member", "blue"))
    people.user("far", ("admin", "red"))
    several(fleet, 2)
    rollout = fleet.create(caller=caller_of(inside, "ann", "blue"))
    disable(people)
    fleet.advance(rollout)
    for name, project in (("low", "blue"), ("far", "red")):
        caller = caller_of(inside, name, project)
        with pytest.raises(Forbidden, match="manager"), inside.runtime.transaction() as session:
            rollouts.request(session, fleet.of(rollout).uuid, RolloutEvent.RESUME, caller)
    assert PauseCause.CALLER == fleet.of(rollout).pause_cause


def test_callers_who_are_no_users_of_the_database_are_not_checked(fleet, inside, people):
    several(fleet, 1)
    rollout = fleet.create(caller=CALLER)
    for _ in range(3):
        found = fleet.advance(rollout)
    assert (RolloutState.COMPLETED, None) == (found.state, found.authority)


def test_the_rollouts_of_a_project_leave_time_to_others(fleet, inside, monkeypatch):
    """Without time, a project has one start in a run, however many rollouts it has."""
    monkeypatch.setattr(rollout_waves, "TURN", 0)
    several(fleet, 4)
    strategy = {"max_unavailable": "100%"}
    many = [fleet.create(caller=replace(CALLER, project_id="p-many"), **strategy) for _ in range(3)]
    started = []
    monkeypatch.setattr(
        rollout_waves,
        "_start",
        lambda _runtime, rollout, _member: bool(started.append(rollout)) or True,
    )
    honest = fleet.create(caller=replace(CALLER, project_id="p-honest"), **strategy)
    rollout_waves.advance_all(inside.runtime)
    assert 2 == len(started)
    assert honest in started
    assert set(started) & set(many)
