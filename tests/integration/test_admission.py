"""Admission: limits hold exactly, no project starves, and no slot is lost."""

import itertools
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from sqlalchemy import select, text, update

from app.db.clock import utcnow
from app.engine import admission, dispatch, operation_end, operations, provisioning
from app.errors import NodeLocked
from app.identity.caller import Caller
from app.lifecycle.operation_states import OperationEvent
from app.models import Operation
from app.reports.why import explain
from tests.support.fleet import Fleet, until
from tests.support.inside import Inside
from workers.conductor import attempts
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

TRUSTED = Contact(timeout=0)


@pytest.fixture
def narrow(database):
    """Service with one conductor, and one slot each for deployments and cleaning."""
    with_limits = Inside(
        database,
        INGOT_CONDUCTOR_MAX_CONCURRENT_DEPLOY="1",
        INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN="1",
    )
    with_limits.claimant = with_limits.conductor("c-1")
    yield with_limits
    with_limits.close()


def run(inside, message):
    """Run a chain to its end."""
    attempts.run(inside.claimant, message)
    for link in [link for link in inside.messages if link.parent]:
        inside.messages.remove(link)
        run(inside, link)


def work(inside):
    """Run all messages and their successors; return the nodes in order of execution."""
    order = []
    while inside.messages:
        message = inside.messages.pop(0)
        order.append(message.node)
        run(inside, message)
    return order


def begin(inside, owner=None, **columns):
    """Create a node and request `provide`: (its UUID, its operation's UUID)"""
    node = inside.node("manageable", owner=owner, **columns)
    name = inside.request(node, "provide")
    return inside.read(node).uuid, name


def states(inside, names):
    with inside.runtime.reading() as session:
        query = select(Operation.uuid, Operation.state).where(Operation.uuid.in_(names))
        return dict(session.execute(query).all())


def places(inside, names):
    numbers = []
    for name in names:
        with inside.runtime.reading() as session:
            row = session.query(Operation).filter_by(uuid=name).one()
            document = admission.document(session, row)
        numbers.append(document and document["place"])
    return numbers


def test_beyond_the_limit_an_operation_is_queued_until_a_slot_is_free(narrow):
    (first_node, one), (second_node, two) = begin(narrow), begin(narrow)
    assert [first_node] == [message.node for message in narrow.messages]
    queued = narrow.operation(two)
    assert ("queued", None, None, None) == (
        queued.state, queued.admitted_at, queued.sent_at, queued.deadline_at
    )  # fmt: skip
    with narrow.runtime.reading() as session:
        answer = explain(session, operations.lock(session, queued.node_id))
    assert ("turn", "c-1", 1) == (answer.waiting_for, answer.held_by, answer.admission["place"])
    assert "number 1 of 1 in the queue for one of 1 slots" in answer.summary
    assert "held by 1 provide (queued)" in answer.summary
    assert [first_node, second_node] == work(narrow)
    assert {"succeeded"} == set(states(narrow, [one, two]).values())


def test_a_queued_operation_is_not_started_though_the_previous_release_dispatches_it(narrow):
    (_, one), (_, two) = begin(narrow), begin(narrow)
    run(narrow, narrow.message(two))
    assert [0] == sorted({step.attempts for step in narrow.steps(two)})
    work(narrow)
    assert {one: "succeeded", two: "succeeded"} == states(narrow, [one, two])


def test_an_unlimited_operation_is_not_queued(narrow):
    begin(narrow)
    nodes = [narrow.node("enroll") for _ in range(3)]
    assert [None] * 3 == [narrow.operation(narrow.request(node, "manage")).queue for node in nodes]
    deploys = narrow.request(narrow.node("available"), "active")
    assert narrow.operation(deploys).admitted_at is not None  # deployments have another limit


def test_a_slot_is_held_while_the_operation_waits(narrow):
    (_, one), (_, two) = begin(narrow), begin(narrow)
    narrow.change(Operation, one, state="waiting", sent_at=None)
    assert [] == admission.admit_all(narrow.runtime)
    assert [1] == places(narrow, [two])
    narrow.change(Operation, one, state="held")
    assert [] == admission.admit_all(narrow.runtime)


def test_projects_alternate_and_each_keeps_its_order(narrow):
    many = [begin(narrow, "many")[0] for _ in range(5)]
    few = [begin(narrow, "few")[0] for _ in range(2)]
    late = [begin(narrow, lessee="late")[0]]
    expected = [many[0], many[1], few[0], late[0], many[2], few[1], many[3], many[4]]
    assert expected == work(narrow)


def test_a_project_with_single_requests_is_not_starved_by_one_with_many(narrow):
    begin(narrow, "few")
    for _ in range(6):
        begin(narrow, "many")
    order = []
    for _ in range(6):
        message = narrow.messages.pop(0)
        order.append(message.node)
        begin(narrow, "few")
        run(narrow, message)
    owners = [owner_of(narrow, node) for node in order]
    assert {"few": 3, "many": 3} == Counter(owners)


def owner_of(inside, uuid):
    with inside.runtime.reading() as session:
        return session.scalar(text("SELECT owner FROM nodes WHERE uuid = :uuid"), {"uuid": uuid})


def test_a_position_counts_the_operations_ahead(narrow):
    begin(narrow, "a")
    names = [begin(narrow, owner)[1] for owner in ("a", "a", "b", "a")]
    assert [1, 3, 2, 4] == places(narrow, names)
    with narrow.runtime.reading() as session:
        row = session.query(Operation).filter_by(uuid=names[3]).one()
        document = admission.document(session, row)
    holders = document.pop("held_by")
    assert {
        "class": "clean", "conductor_group": None, "limit": 1, "place": 4, "queued": 4,
    } == document  # fmt: skip
    assert [("provide", "queued", 1)] == [
        (holder["kind"], holder["state"], holder["operations"]) for holder in holders
    ]


def test_each_conductor_group_has_its_own_slots_unless_a_setting_disables_it(narrow):
    begin(narrow)
    narrow.conductor("c-2", conductor_group="rack-2")
    assert [None] == places(narrow, [begin(narrow, conductor_group="rack-2")[1]])
    shared = Inside(
        narrow.url, **narrow.environ, INGOT_CONDUCTOR_MAX_CONCURRENT_PER_CONDUCTOR_GROUP="false"
    )
    try:
        assert [1] == places(shared, [begin(shared, conductor_group="rack-2")[1]])
    finally:
        shared.close()


def ask(inside, name, verb):
    node = inside.operation(name).node_id
    with inside.runtime.transaction() as session:
        provisioning.request(session, operations.lock(session, node), verb, {}, Caller())
    return inside.read(node)


@pytest.mark.parametrize(
    ("state", "first_verb", "verb", "arrives", "flow"),
    [
        ("manageable", "provide", "abort", "clean failed", "cleaning"),
        ("available", "active", "abort", "deploy failed", "deploying"),
        ("available", "active", "deleted", "deleting", "deploying"),
    ],
)
def test_a_queued_operation_is_ended_at_once(narrow, state, first_verb, verb, arrives, flow):
    narrow.request(narrow.node(state), first_verb)
    name = narrow.request(narrow.node(state), first_verb)
    node = ask(narrow, name, verb)
    ended = narrow.operation(name)
    assert (arrives, "aborted") == (node.provision_state, ended.state)
    assert {"pending", "aborted", "skipped"} >= {step.state for step in narrow.steps(name)}
    if verb == "abort":
        assert f"before {flow} began" in node.last_error
        assert (None, None, False) == (node.reservation, node.operation_id, node.maintenance)
    work(narrow)
    expected = arrives if verb == "abort" else "available"
    assert expected == narrow.read(ended.node_id).provision_state


def tear_down(inside, **columns):
    """
    Request `deleted` for an instance and run its tear-down, while another node is cleaned.

    Returns the operations of both: that of the clean, which holds the slot, and that of `deleted`.
    """
    _, cleans = begin(inside)
    node = inside.node("active", instance_uuid=str(uuid4()), **columns)
    name = inside.request(node, "deleted")
    clean_messages = [message for message in inside.messages if message.operation == cleans]
    inside.messages[:] = [message for message in inside.messages if message.operation == name]
    work(inside)
    inside.messages[:] = clean_messages
    return cleans, name


def test_an_instance_is_torn_down_at_once_and_its_node_waits_for_the_cleaning(narrow):
    cleans, name = tear_down(narrow, lessee="tenant")
    queued = narrow.operation(name)
    node = narrow.read(queued.node_id)
    assert ("cleaning", None, "c-1") == (
        node.provision_state, node.instance_uuid, node.reservation
    )  # fmt: skip
    assert ("queued", "clean", None, None, "/tenant") == (
        queued.state, queued.queue, queued.admitted_at, queued.sent_at, queued.party
    )  # fmt: skip
    assert {"done", "pending"} == {step.state for step in narrow.steps(name)}
    assert [1] == places(narrow, [name])
    with narrow.runtime.reading() as session:
        answer = explain(session, operations.lock(session, node.id))
    assert "turn" == answer.waiting_for
    run(narrow, narrow.message(name))  # as the previous release would send it
    assert "pending" == narrow.steps(name)[-1].state
    work(narrow)
    assert {cleans: "succeeded", name: "succeeded"} == states(narrow, [cleans, name])
    assert narrow.operation(cleans).finished_at <= narrow.operation(name).admitted_at
    assert "available" == narrow.read(node.id).provision_state


def test_a_tear_down_without_a_cleaning_needs_no_slot(narrow):
    _, name = tear_down(narrow, automated_clean=False)
    ended = narrow.operation(name)
    assert ("succeeded", None) == (ended.state, ended.queue)
    assert "available" == narrow.read(ended.node_id).provision_state


def test_a_queued_cleaning_after_a_tear_down_can_be_aborted(narrow):
    _, name = tear_down(narrow)
    node = ask(narrow, name, "abort")
    assert ("clean failed", None) == (node.provision_state, node.reservation)
    assert "the deleted operation was aborted before cleaning began" in node.last_error
    assert {"done", "aborted", "skipped"} == {step.state for step in narrow.steps(name)}


def test_a_tear_down_that_the_previous_release_admitted_keeps_its_slot(narrow):
    name = narrow.request(narrow.node("active"), "deleted")
    admitted = narrow.operation(name).created_at
    narrow.change(Operation, name, queue="clean", admitted_at=admitted)
    (_, other) = begin(narrow)
    assert [1] == places(narrow, [other])
    work(narrow)
    assert admitted == narrow.operation(name).admitted_at
    assert {name: "succeeded", other: "succeeded"} == states(narrow, [name, other])


@pytest.mark.parametrize("verb", ["deleted", "abort"])
def test_an_operation_may_be_admitted_while_a_verb_that_ends_it_is_checked(
    narrow, monkeypatch, verb
):
    narrow.request(narrow.node("available"), "active")
    node = narrow.node("available")
    name = narrow.request(node, "active")

    def admitted_now(session, node):
        session.execute(update(Operation).filter_by(uuid=name).values(admitted_at=utcnow()))
        return True

    monkeypatch.setattr(admission, "is_queued", admitted_now)
    if verb == "deleted":
        row = narrow.read(node)
        with pytest.raises(NodeLocked, match=f"{row.uuid} is locked by host {row.reservation},"):
            ask(narrow, name, verb)
        assert row.reservation
        assert "queued" == narrow.operation(name).state
    else:
        ask(narrow, name, verb)
        assert narrow.operation(name).aborting


def test_concurrent_processes_keep_the_limit_and_lose_no_slot(database):
    limit, nodes = 12, 40
    settings = {"INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": str(limit)}
    views = [Inside(database, **settings) for _ in range(6)]
    views[0].conductor("c-1")
    ids = [views[0].node("manageable", owner=f"project {n % 3}") for n in range(nodes)]
    counts, over = [], threading.Event()

    def watch():
        engine = views[0].another().runtime.engine
        # reads only: a writer would wait for the observed writers
        with engine.connect().execution_options(writes=False) as connection:
            while not over.is_set():
                counts.append(connection.scalar(text(HELD)))
                connection.rollback()

    def end(view, name):
        with view.runtime.transaction() as session:
            row = session.query(Operation).filter_by(uuid=name).one()
            node, operation = operations.lock_operation(session, row.id)
            operation_end.end(session, node, operation, OperationEvent.ABORT)
            node.reservation = node.operation_id = None

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with ThreadPoolExecutor(6) as threads:
            names = list(
                threads.map(lambda n: views[n % 6].request(ids[n], "provide"), range(nodes))
            )
            begun = [name for name in names if views[0].operation(name).admitted_at]
            assert limit == len(begun)
            while begun:
                list(threads.map(end, itertools.cycle(views), begun))
                unfinished_names = [
                    name for name in names if views[0].operation(name).finished_at is None
                ]
                begun = [name for name in unfinished_names if views[0].operation(name).admitted_at]
                assert min(limit, len(unfinished_names)) == len(begun)
    finally:
        over.set()
        watching.join()
        for view in views:
            view.close()
    assert limit == max(counts)
    assert {message.operation for view in views for message in view.messages} == set(names)


HELD = "SELECT count(*) FROM operations WHERE admitted_at IS NOT NULL AND finished_at IS NULL"


def test_the_reconciler_grants_the_slots_of_dead_processes(narrow, monkeypatch):
    """The process that ended or queued an operation died before the admission."""
    _, one = begin(narrow)
    monkeypatch.setattr(dispatch, "_admit", lambda *_: None)
    second, two = begin(narrow)
    work(narrow)
    assert {one: "succeeded", two: "queued"} == states(narrow, [one, two])
    assert 1 == reconciler.reconcile(narrow.runtime, TRUSTED)["admitted"]
    assert [second] == work(narrow)
    monkeypatch.undo()
    (third, _), (fourth, four) = begin(narrow), begin(narrow)
    monkeypatch.setattr(dispatch, "_send_admitted", lambda *_: None)
    assert [third] == work(narrow)
    assert narrow.operation(four).admitted_at  # the process that admitted it has died
    counters = reconciler.reconcile(narrow.runtime, TRUSTED)
    assert (1, 0) == (counters["resent"], counters["admitted"])
    assert [fourth] == work(narrow)


def test_admission_reads_no_more_rows_than_there_are_slots(narrow):
    """In long tables, partial indexes serve the queries of each request."""
    with narrow.runtime.engine.connect() as connection:
        on_sqlite = connection.dialect.name == "sqlite"
        if not on_sqlite:  # an empty table is scanned otherwise
            connection.exec_driver_sql("SET enable_seqscan = off")
        looks = admission._HELD_AND_QUEUED.statement, admission._HAS_QUEUED.statement
        for statement in (*looks, admission._HELD):
            query = str(statement.compile(connection)).replace(":queue", "'clean'")
            for mark in ("%(queue)s::VARCHAR", "%(queue)s", "?"):
                query = query.replace(mark, "'clean'")
            rows = connection.exec_driver_sql(
                f"EXPLAIN {'QUERY PLAN ' if on_sqlite else ''}{query}"
            )
            plan = " ".join(str(cell) for row in rows for cell in row)
            assert " ix_operations_" in plan
            assert [] == re.findall(r"(?i)scan (on )?operations", plan)


def test_the_reconciler_admits_a_torn_down_node_whose_conductor_died(narrow, monkeypatch):
    _, name = tear_down(narrow)
    monkeypatch.setattr(dispatch, "_admit", lambda *_: None)
    work(narrow)
    assert "queued" == narrow.operation(name).state
    assert 1 == reconciler.reconcile(narrow.runtime, TRUSTED)["admitted"]
    work(narrow)
    assert "succeeded" == narrow.operation(name).state


@pytest.mark.parametrize("point", ["admitting", "admitted"])
def test_no_slot_is_lost_when_a_conductor_dies_between_an_end_and_the_next_admission(
    tmp_path, point
):
    once = tmp_path / "died"
    settings = {
        "INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": "1",
        "INGOT_KILL_POINTS": f"fleet-1:{point}:provide=die-{once}",
    }
    with Fleet(tmp_path, conductors=2, **settings) as fleet:
        nodes = fleet.create_nodes(8)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        fleet.provision(nodes, "provide")
        until(once.exists, "the death")
        fleet.await_state(nodes, "available")
        entries = [fleet.operation(node, "provide") for node in nodes]
    assert {"succeeded"} == {entry["state"] for entry in entries}
    spans = sorted((entry["admitted_at"][:23], entry["finished_at"][:23]) for entry in entries)
    assert all(ended <= admitted for (_, ended), (admitted, _) in itertools.pairwise(spans))
