"""Selection of nodes for allocations, also with crashes and lost messages."""

import os
import signal
import threading
import uuid
from collections import Counter

import pytest
from sqlalchemy import event, select, text

from app.broker.messages import TaskMessage
from app.db.clock import after, age
from app.engine import operations, provision_state
from app.inventory import allocations, scheduling
from app.lifecycle.provision_states import Event, State
from app.models import Allocation, Node, NodeTrait, Operation
from app.process import kill_points

FREE = {"state": "available", "power_state": "power off", "resource_class": "large"}


@pytest.fixture
def inside(inside):
    inside.conductor("c-1")
    return inside


def ask(inside, **fields):
    """Create an allocation, and return its UUID."""
    with inside.runtime.transaction() as session:
        fields = {"resource_class": "large", **fields}
        return allocations.create(session, fields).uuid


def read(inside, name):
    with inside.runtime.reading() as session:
        return session.query(Allocation).filter_by(uuid=name).one()


def seek(inside, name):
    """Let a conductor search for a node; return the allocation."""
    scheduling.allocate(inside.runtime, name)
    return read(inside, name)


def free(inside, traits=(), **columns):
    node = inside.node(**{**FREE, **columns})
    with inside.runtime.transaction() as session:
        session.add_all(NodeTrait(node_id=node, trait=trait) for trait in traits)
    return node


def uuid_of(inside, node):
    return inside.read(node).uuid


#: columns of a node, fields of an allocation, and whether the node is selected
FITS = (
    ({}, {}, True),
    ({"state": "active"}, {}, False),
    ({"state": "manageable"}, {}, False),
    ({"power_state": None}, {}, False),
    ({"maintenance": True}, {}, False),
    ({"instance_uuid": "i"}, {}, False),
    ({"parent_node": "p"}, {}, False),
    ({}, {"traits": ["CUSTOM_A"]}, False),
    ({"traits": ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]}, {"traits": ["CUSTOM_A", "CUSTOM_C"]}, True),
    ({"traits": ["CUSTOM_A", "CUSTOM_B"]}, {"traits": ["CUSTOM_A", "CUSTOM_C"]}, False),
    ({"traits": ["CUSTOM_A"]}, {}, True),
    ({}, {"owner": "p1"}, False),
    ({"owner": "p1"}, {"owner": "p1"}, True),
    ({"owner": "p2", "lessee": "p1"}, {"owner": "p1"}, True),
    ({"owner": "p2"}, {"owner": "p1"}, False),
    ({"owner": "p2"}, {}, True),
)


def test_only_a_suitable_node_is_selected(inside):
    outcomes = []
    for number, (columns, fields, _) in enumerate(FITS):
        resource_class = f"class-{number}"
        node = free(inside, **columns, resource_class=resource_class)
        allocation = seek(inside, ask(inside, **fields, resource_class=resource_class))
        row = inside.read(node)
        is_allocated = allocation.state == "active"
        outcomes.append(is_allocated)
        assert (node if is_allocated else None) == allocation.node_id
        assert is_allocated == (allocation.uuid == row.instance_uuid)
        assert is_allocated == (allocation.last_error is None)
        assert is_allocated or resource_class in allocation.last_error
        assert not is_allocated or fields.get("traits", []) == row.instance_info["traits"]

    assert [fits for _, _, fits in FITS] == outcomes


def test_only_candidates_are_selected_and_the_node_of_the_allocations_name_first(inside):
    nodes = [free(inside, name=f"n{number}") for number in range(30)]
    some = [uuid_of(inside, node) for node in nodes[3:5]]

    first_allocation = seek(inside, ask(inside, candidate_nodes=some, name="n4"))
    second_allocation = seek(inside, ask(inside, candidate_nodes=some))
    third_allocation = seek(inside, ask(inside, candidate_nodes=some))
    assert [nodes[4], nodes[3], None] == [
        allocation.node_id for allocation in (first_allocation, second_allocation, third_allocation)
    ]
    assert nodes[29] == seek(inside, ask(inside, name="n29")).node_id
    assert "candidates" in third_allocation.last_error


def test_the_node_is_selected_at_random(inside):
    for _ in range(60):
        free(inside)
    node_ids = [seek(inside, ask(inside)).node_id for _ in range(60)]

    assert 60 == len(set(node_ids))
    assert sorted(node_ids) != node_ids != sorted(node_ids, reverse=True)


def test_a_locked_node_is_retried_for_a_short_time(inside):
    node = free(inside, reservation="c-1")
    name = ask(inside)
    pause = inside.settings.conductor.node_locked_retry_interval
    inside.messages.clear()

    for tries in (1, 2):
        allocation = seek(inside, name)
        assert ("allocating", tries) == (allocation.state, allocation.attempts)
        assert allocation.updated_at is None, "nothing that is shown has changed"
    assert [TaskMessage("ingot.allocate", (name,), pause)] * 2 == inside.messages
    allocation = seek(inside, name)
    assert ("error", 2) == (allocation.state, len(inside.messages))
    assert allocation.updated_at is not None
    assert "locked" in allocation.last_error

    other = ask(inside)
    assert "allocating" == seek(inside, other).state
    inside.change(Node, node, reservation=None)
    other_allocation = seek(inside, other)
    assert node == other_allocation.node_id
    assert other_allocation.updated_at is not None


def test_a_free_node_is_preferred_to_a_locked_one(inside):
    nodes = [free(inside, reservation="c-1"), free(inside)]
    assert nodes[1] == seek(inside, ask(inside)).node_id


def test_repeated_messages_do_not_change_a_completed_allocation(inside):
    free(inside), free(inside)
    name = ask(inside)
    allocation = seek(inside, name)
    assert (allocation.node_id, allocation.updated_at) == (
        (again := seek(inside, name)).node_id,
        again.updated_at,
    )
    scheduling.allocate(inside.runtime, str(uuid.uuid4()))  # deleted before a conductor handled it


def test_a_lost_message_is_sent_again(inside):
    free(inside)
    name = ask(inside)
    assert [TaskMessage("ingot.allocate", (name,))] == inside.messages
    assert 0 == scheduling.resend_due(inside.runtime)

    inside.change(Allocation, name, due_at=after(-1))
    assert 1 == scheduling.resend_due(inside.runtime)
    assert 0 == scheduling.resend_due(inside.runtime)
    assert [TaskMessage("ingot.allocate", (name,))] * 2 == inside.messages

    # the interval between messages grows with its age
    inside.change(Allocation, name, due_at=after(-1), created_at=after(-30))
    assert 1 == scheduling.resend_due(inside.runtime)
    with inside.runtime.reading() as session:
        seconds = session.scalar(select(-age(Allocation.due_at)))
    assert 25 < seconds < 35

    seek(inside, name)
    assert read(inside, name).due_at is None


def test_an_allocation_with_the_uuid_of_an_instance_fails_without_retries(inside):
    free(inside)
    name = ask(inside)
    other = inside.node(instance_uuid=name)

    failed = seek(inside, name)
    assert ("error", None) == (failed.state, failed.due_at)
    assert uuid_of(inside, other) in failed.last_error


def test_a_crash_of_the_conductor_leaves_the_allocation_unchanged(inside):
    node = free(inside)
    name = ask(inside)
    child = os.fork()
    if child == 0:
        try:
            kill_points.arm(["any:acted:allocation=die"], "c-1")
            scheduling.allocate(inside.another().runtime, name)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert signal.SIGKILL == os.WTERMSIG(status)
    assert ("allocating", None) == ((allocation := read(inside, name)).state, allocation.node_id)
    assert inside.read(node).instance_uuid is None

    inside.change(Allocation, name, due_at=after(-1))
    assert 1 == scheduling.resend_due(inside.runtime)
    assert node == seek(inside, name).node_id


def test_concurrent_allocations_get_one_node_each_and_no_node_twice(inside):
    with inside.runtime.transaction() as session:
        session.add_all(
            Node(
                uuid=str(uuid.uuid4()), driver="fake-hardware", provision_state="available",
                power_state="power off", resource_class="large",
            )
            for _ in range(60)
        )  # fmt: skip
    names = [ask(inside) for _ in range(70)]
    workers = [inside.another() for _ in range(4)]
    start = threading.Barrier(len(workers))
    errors = []

    def work(worker, own_names):
        start.wait()
        try:
            for name in own_names:
                scheduling.allocate(worker.runtime, name)
        except Exception as error:
            errors.append(error)

    # two workers handle each allocation, as after a duplicate message
    threads = [
        threading.Thread(target=work, args=(worker, names[number % 2 :: 2]))
        for number, worker in enumerate(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.close()

    assert [] == errors
    with inside.runtime.reading() as session:
        rows = session.execute(select(Allocation.state, Allocation.node_id, Allocation.uuid)).all()
        pairs = dict(session.execute(select(Node.id, Node.instance_uuid)).all())
    assert {"active": 60, "error": 10} == Counter(row.state for row in rows)
    assert {row.node_id: row.uuid for row in rows if row.node_id} == pairs


def test_the_free_nodes_of_a_resource_class_are_found_by_an_index(inside):
    """For any number and states of other nodes."""
    statements = []

    def note(_conn, _cursor, statement, parameters, *_):
        statements.append((statement, parameters))

    free(inside)
    name = ask(inside)
    event.listen(inside.runtime.engine, "before_cursor_execute", note)
    try:
        scheduling.allocate(inside.runtime, name)
    finally:
        event.remove(inside.runtime.engine, "before_cursor_execute", note)
    sought = [execution for execution in statements if "ORDER BY nodes.id" in execution[0]]
    assert sought
    with inside.runtime.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET enable_seqscan = off"))
            connection.execute(text("SET enable_bitmapscan = off"))
        explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
        for statement, parameters in sought:
            plan = connection.exec_driver_sql(f"{explain} {statement}", parameters).all()
            assert "ix_nodes_free" in str(plan), plan


def test_a_node_that_is_torn_down_loses_its_allocation(inside):
    node = free(inside)
    name = ask(inside, traits=[])
    seek(inside, name)
    with inside.runtime.transaction() as session:
        row = operations.lock(session, node)
        operation = Operation(uuid="o-1")
        provision_state.apply_effects(session, row, State.DELETING, Event.CLEAN, operation)

    row = inside.read(node)
    assert (None, {}) == (row.instance_uuid, row.instance_info)
    with inside.runtime.reading() as session:
        assert 0 == session.query(Allocation).count()
