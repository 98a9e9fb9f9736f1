"""Holds against concurrent requests, allocations, power sync, calls and rollouts; their expiry."""

import os
import signal
import threading
import time
import uuid
from datetime import timedelta

import pytest
from sqlalchemy import select

from app.db.clock import utcnow
from app.engine import provisioning
from app.errors import NodeHeld
from app.identity.caller import Caller
from app.inventory import allocations, holds, nodes, scheduling
from app.models import Allocation, ChangeEvent, Hold, Node, NodeHistory, Operation
from app.process import kill_points
from drivers.simulator.simulator import running
from tests.integration.harness import Harness
from tests.integration.rollouts.conftest import Fleet
from tests.support.inside import AlwaysGiven
from workers.conductor.rpc_server import CallHandler
from workers.periodic import power_sync
from workers.periodic.schedule import PERIODIC

ADA = Caller(user_id="u-1", user_name="Ada", project_id="p-1")
SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
#: Seconds for which a transaction stays open, so that another one waits for its lock.
OPEN = 0.3


@pytest.fixture
def inside(inside):
    inside.conductor("c-1")
    return inside


def hold(inside, node, kind="hardware", **fields):
    with inside.runtime.transaction() as session:
        return put(session, node, kind, **fields).uuid


def put(session, node, kind="hardware", **fields):
    locked = nodes.lock(session, session.get_one(Node, node).uuid)
    return holds.create(session, locked, {"kind": kind, "reason": "broken", **fields}, ADA)


def expire(inside, *names):
    for name in names:
        inside.change(Hold, name, expires_at=utcnow() - timedelta(seconds=1))


def left(inside):
    with inside.runtime.reading() as session:
        return session.scalars(select(Hold.uuid).order_by(Hold.id)).all()


def while_open(inside, first, second):
    """
    Run `first(session)` in a transaction, and `second(session)` in another one of another process,
    which begins before the first one ends. Return the error of the second one.
    """
    other, started, errors = inside.another(), threading.Event(), [None]

    def run():
        started.set()
        try:
            with other.runtime.transaction() as session:
                second(session)
        except NodeHeld as error:
            errors[0] = error

    thread = threading.Thread(target=run)
    with inside.runtime.transaction() as session:
        first(session)
        session.flush()
        thread.start()
        started.wait()
        time.sleep(OPEN)
        assert thread.is_alive(), "the second transaction does not wait"
    thread.join()
    other.close()
    return errors[0]


def provide(session, node):
    row = nodes.lock(session, session.get_one(Node, node).uuid)
    provisioning.request(session, row, "provide", {}, ADA)


def test_a_verb_that_waits_for_a_new_hold_is_refused(inside):
    node = inside.node("manageable")
    error = while_open(inside, lambda one: put(one, node), lambda two: provide(two, node))
    assert f"Node {inside.read(node).uuid} is held: hardware hold {left(inside)[0]} by Ada" in str(
        error
    )
    assert ("manageable", None) == ((row := inside.read(node)).provision_state, row.operation_id)


def test_a_hold_that_waits_for_a_verb_lets_its_operation_go_on(inside):
    node = inside.node("manageable")
    assert while_open(inside, lambda one: provide(one, node), lambda two: put(two, node)) is None
    assert 1 == len(left(inside))
    with inside.runtime.reading() as session:
        assert ["queued"] == session.scalars(select(Operation.state)).all()
    inside.deliver(inside.conductor("c-1"), inside.messages[-1])
    assert "available" == inside.read(node).provision_state


@pytest.mark.parametrize(
    "act",
    [
        lambda session, hold: holds.change(session, hold, {"reason": "worse"}, ADA),
        lambda session, hold: holds.remove(session, hold, ADA),
    ],
    ids=["change", "end"],
)
def test_a_hold_changes_and_ends_after_requests_that_have_locked_its_node(inside, act, monkeypatch):
    monkeypatch.setattr(holds.history, "record_request", lambda *_: None)  # as without a history
    node = inside.node("manageable")
    name = hold(inside, node, "scheduling")

    def second(session):
        act(session, session.query(Hold).filter_by(uuid=name).with_for_update().one())

    assert while_open(inside, lambda one: provide(one, node), second) is None
    assert "cleaning" == inside.read(node).provision_state


# allocations


def seek(inside):
    with inside.runtime.transaction() as session:
        name = allocations.create(session, {"resource_class": "large"}).uuid
    scheduling.allocate(inside.runtime, name)
    with inside.runtime.reading() as session:
        return session.query(Allocation).filter_by(uuid=name).one()


def free(inside):
    return inside.node("available", power_state="power off", resource_class="large")


@pytest.mark.parametrize("kind", ["scheduling", "hardware", "investigation"])
def test_an_allocation_gets_no_held_node(inside, kind):
    held_node = free(inside)
    name = hold(inside, held_node, kind, expires_at=utcnow() + timedelta(hours=1))
    assert "error" == seek(inside).state
    other = free(inside)
    assert other == seek(inside).node_id
    expire(inside, name)
    assert held_node == seek(inside).node_id


def test_an_allocation_does_not_wait_for_a_held_node_that_is_locked(inside):
    node = free(inside)
    hold(inside, node, "scheduling")
    inside.change(Node, node, reservation="c-1")
    ended = seek(inside)
    assert ("error", 1) == (ended.state, ended.attempts)
    assert "there is no available node" in ended.last_error


def test_an_allocation_that_waits_for_a_new_hold_does_not_get_the_node(inside):
    node = free(inside)
    results = []
    other = inside.another()
    thread = threading.Thread(target=lambda: results.append(seek(other)))
    with inside.runtime.transaction() as session:
        put(session, node, "scheduling")
        session.flush()
        thread.start()
        time.sleep(OPEN)
    thread.join()
    other.close()
    assert ["error"] == [allocation.state for allocation in results]
    assert inside.read(node).instance_uuid is None


# power sync and calls


@SQLITE
@pytest.mark.parametrize(
    ("kind", "corrected"),
    [(None, True), ("scheduling", True), ("hardware", False), ("investigation", False)],
)
def test_power_sync_records_the_power_of_nodes_held_against_corrections(inside, kind, corrected):
    with running(machines=1) as simulator:
        machine = simulator.machines[0]
        driver_info = machine.driver_info()
        node = inside.node(
            "manageable", power_state="power on", driver_info=driver_info,
            power_interface="redfish", management_interface="redfish",
        )  # fmt: skip
        inside.change(Node, node, driver="redfish")
        if kind:
            hold(inside, node, kind)
        power_sync.sync(inside.runtime, "c-1")
        row = inside.read(node)
        with inside.runtime.reading() as session:
            kinds = session.scalars(select(Operation.kind)).all()
    recorded = ("power on", ["power"]) if corrected else ("power off", [])
    assert recorded == (row.power_state, list(kinds))


@SQLITE
@pytest.mark.parametrize(
    ("kind", "status"), [("scheduling", None), ("hardware", None), ("investigation", 409)]
)
def test_a_conductor_sends_no_order_to_a_frozen_machine(inside, kind, status):
    node = inside.read(inside.node("manageable"))
    name = hold(inside, node.id, kind)
    handler = CallHandler(inside.runtime, "c-1", AlwaysGiven())
    order = {"what": "set_boot_device", "arguments": {"device": "pxe", "persistent": True}}
    answer = handler.answer({"node": node.uuid, **order}, 5.0)
    assert status == answer.get("status")
    if status:
        assert name in answer["message"]
        arguments = {"function": "third_method_sync", "arguments": {"bar": "meow"}}
        vendor = {"what": "call_shared", "arguments": arguments}
        assert status == handler.answer({"node": node.uuid, **vendor}, 5.0)["status"]
    read = {"what": "get_boot_device", "arguments": {}}
    assert "answer" in handler.answer({"node": node.uuid, **read}, 5.0)


# rollouts


def test_a_rollout_does_not_start_a_held_node_and_goes_on(inside):
    fleet = Fleet(inside)
    node_ids = [fleet.node() for _ in range(3)]
    rollout = fleet.create(max_unavailable="1", error_budget="1")
    name = hold(inside, node_ids[1])
    ended = fleet.advance(rollout, 8)
    assert ("completed", 2, 1) == (ended.state, ended.succeeded, ended.failed)
    member = fleet.members(rollout)[1]
    assert ("failed", "held") == (member.state, member.code)
    assert name in member.error
    assert [1, 0, 1] == fleet.operations()
    assert "1 of 3 failed, 1 of them accepted; codes: 1 held." in fleet.summary(rollout)


# expiry


def test_expired_holds_are_deleted_and_told(inside):
    node = inside.node("manageable", owner="p-1")
    names = [
        hold(inside, node, expires_at=time_)
        for time_ in (None, *[utcnow() + timedelta(hours=1)] * 3)
    ]
    expire(inside, *names[1:3])
    assert 2 == holds.end_expired(inside.runtime)
    assert [names[0], names[3]] == left(inside)
    with inside.runtime.reading() as session:
        history = session.scalars(select(NodeHistory.event).order_by(NodeHistory.id)).all()
        events = session.execute(
            select(ChangeEvent.before, ChangeEvent.after)
            .where(ChangeEvent.type == "node.hold")
            .order_by(ChangeEvent.id)
        ).all()
    assert 2 == sum(entry.startswith("Hold expired: hardware hold") for entry in history)
    assert 2 == [*map(tuple, events)].count(("hardware", None))
    assert 0 == holds.end_expired(inside.runtime)


@pytest.mark.parametrize(
    ("columns", "stays"),
    [
        ({"owner": "p-1"}, True), ({"owner": "p-2", "lessee": "p-1"}, True),
        ({"owner": "p-2"}, False), ({"owner": "p-2", "lessee": "p-3"}, False), ({}, False),
    ],
)  # fmt: skip
def test_a_hold_of_a_project_ends_with_its_rights_on_the_node(inside, columns, stays):
    node = inside.node("manageable", lessee="p-1")
    name = hold(inside, node)
    of_system = Caller(user_id="u-2", user_name="Operator", system_scope="all")
    with inside.runtime.transaction() as session:
        locked = nodes.lock(session, session.get_one(Node, node).uuid)
        fields = {"kind": "scheduling", "reason": "kept"}
        other = holds.create(session, locked, fields, of_system).uuid
    assert 0 == holds.end_expired(inside.runtime)
    inside.change(Node, node, **{"owner": None, "lessee": None} | columns)
    with inside.runtime.read_connection() as connection:
        assert stays == (holds.EXPIRED_ONE.first(connection, {}) is None)
    assert (0 if stays else 1) == holds.end_expired(inside.runtime)
    assert ([name, other] if stays else [other]) == left(inside)
    with inside.runtime.reading() as session:
        events = session.scalars(select(NodeHistory.event)).all()
    assert stays != any(event.startswith("Hold ended: hardware hold") for event in events)


def test_expired_holds_are_deleted_in_batches(inside, monkeypatch):
    monkeypatch.setattr(holds, "BATCH", 2)
    later = utcnow() + timedelta(hours=1)
    names = [hold(inside, inside.node("manageable"), expires_at=later) for _ in range(5)]
    expire(inside, *names)
    assert 5 == holds.end_expired(inside.runtime)
    assert [] == left(inside)


def test_a_conductor_that_dies_while_it_deletes_holds_repeats_it(inside):
    node = inside.node("manageable")
    name = hold(inside, node, expires_at=utcnow() + timedelta(hours=1))
    expire(inside, name)
    inside.close()
    child = os.fork()
    if child == 0:
        try:
            kill_points.arm(["any:acted:hold=die"], "c-1")
            holds.end_expired(inside.another().runtime)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert (os.WIFSIGNALED(status), signal.SIGKILL) == (True, os.WTERMSIG(status))
    assert [name] == left(inside)
    assert 1 == holds.end_expired(inside.runtime)
    assert [] == left(inside)


def test_the_periodic_task_is_declared(inside):
    (task,) = [task for task in PERIODIC if task.name == "ingot.end_expired_holds"]
    assert 5 == task.period(inside.settings)


def test_holds_survive_operations_that_end_meanwhile(inside):
    """The node of a hold is reserved, locked and released without an effect on the hold."""
    harness = Harness(inside)
    node = harness.node("manageable")
    assert uuid.UUID(name := hold(inside, node, "scheduling"))
    assert "available" == harness.do(node, "provide")
    assert [name] == left(inside)
