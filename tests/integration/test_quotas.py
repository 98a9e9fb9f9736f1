"""Quotas against concurrent requests, and the other ways to a lessee than a request."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import event, func, select

from app.engine import operations, provisioning
from app.engine.records import inspection_findings
from app.errors import Invalid, QuotaReached
from app.identity.caller import Caller
from app.inspection.subject import Findings
from app.inventory import nodes, quotas
from app.lifecycle.provision_states import State
from app.metrics import table
from app.models import Node, NodeHistory, Operation, Quota
from app.reports import fleet_counts
from drivers.core.errors import InspectionFailed

BLUE = "blue-project"
LIMIT = 3
#: Requests beyond the limit.
EXCESS = 5
ADA = Caller(user_id="u-1", project_id=BLUE)


@pytest.fixture
def inside(inside):
    inside.conductor("c-1")
    return inside


def limit(inside, node_limit, project=BLUE):
    with inside.runtime.transaction() as session:
        return quotas.create(session, {"project": project, "node_limit": node_limit}).uuid


def lend(session, node, project=BLUE, caller=ADA):
    """Change the lessee of a node, as a PATCH does."""
    locked = nodes.lock(session, session.get_one(Node, node).uuid)
    nodes.change(session, locked, [], {"lessee": project}, caller, inspecting_counts=True)


def deploy(session, node):
    """Deploy a node, whose instance has a project."""
    provisioning.request(session, operations.lock(session, node), "active", {}, Caller())


def enroll(session, _node):
    fields = {"driver": "fake-hardware", "lessee": BLUE}
    nodes.create(session, fields, State.ENROLL, ADA)


def leased(inside, project=BLUE):
    with inside.runtime.reading() as session:
        return session.scalar(select(func.count()).where(Node.lessee == project))


def available(inside, project=BLUE):
    return inside.node("available", instance_info={"project_id": project})


def refusal(inside, act, node):
    """Run one request in a transaction; return its refusal."""
    try:
        with inside.runtime.transaction() as session:
            act(session, node)
    except QuotaReached as error:
        return error
    return None


def test_requests_at_once_never_exceed_the_limit(inside):
    limit(inside, LIMIT)
    acts = [(lend, deploy, enroll)[number % 3] for number in range(LIMIT + EXCESS)]
    work = [(act, available(inside)) for act in acts]
    together = threading.Barrier(len(work))

    def run(act, node):
        together.wait()
        return refusal(inside, act, node)

    with ThreadPoolExecutor(len(work)) as pool:
        refusals = list(pool.map(lambda request: run(*request), work))
    assert LIMIT == leased(inside)
    assert EXCESS == len([error for error in refusals if error is not None])


def test_a_request_counts_the_node_of_the_transaction_before_it(inside):
    limit(inside, 1)
    first_node, second_node = available(inside), available(inside)
    other = inside.another()
    with ThreadPoolExecutor(1) as pool:
        with inside.runtime.transaction() as session:
            lend(session, first_node)
            session.flush()
            later = pool.submit(refusal, other, deploy, second_node)
            inside.await_a_blocked_writer()
        assert "it leases 1, its limit is 1" in str(later.result())
    other.close()
    assert 1 == leased(inside)


def test_a_refused_deployment_changes_nothing(inside):
    limit(inside, 0)
    node = available(inside)
    assert refusal(inside, deploy, node) is not None
    row = inside.read(node)
    assert ("available", None, None) == (row.provision_state, row.lessee, row.reservation)
    with inside.runtime.reading() as session:
        assert 0 == session.scalar(select(func.count()).select_from(Operation))
        assert 0 == session.scalar(select(func.count()).select_from(NodeHistory))


def test_a_tear_down_returns_the_node_to_the_quota(inside):
    limit(inside, 1)
    first_node, second_node = available(inside), available(inside)
    assert refusal(inside, deploy, first_node) is None
    assert refusal(inside, deploy, second_node) is not None
    with inside.runtime.transaction() as session:
        lend(session, second_node, "red-project", Caller())
    with inside.runtime.transaction() as session:
        session.get_one(Node, first_node).lessee = None
    with inside.runtime.transaction() as session:
        lend(session, second_node)
    assert 1 == leased(inside)


def test_a_lower_limit_takes_no_node_away_and_refuses_the_next_one(inside):
    uuid_ = limit(inside, 2)
    rented = [available(inside) for _ in range(2)]
    for node in rented:
        assert refusal(inside, lend, node) is None
    inside.change(Quota, uuid_, node_limit=0)
    assert 2 == leased(inside)
    for node in rented:  # the lessee stays, so this takes no further node
        assert refusal(inside, lend, node) is None
    assert "it leases 2, its limit is 0" in str(refusal(inside, lend, available(inside)))


def test_a_project_without_a_quota_costs_one_statement(inside):
    limit(inside, 0, "red-project")
    statements = []

    def record(_connection, _cursor, statement, *_rest):
        statements.append(statement)

    node = available(inside)
    event.listen(inside.runtime.engine, "before_cursor_execute", record)
    with inside.runtime.transaction() as session:
        lend(session, node)
    event.remove(inside.runtime.engine, "before_cursor_execute", record)
    assert 1 == len([statement for statement in statements if "quotas" in statement])
    assert 1 == leased(inside)


def test_another_spelling_is_another_project(inside):
    """The rights of a lessee compare the same text, so the other spelling gives no rights."""
    limit(inside, 0)
    for spelling in (BLUE.upper(), f"{BLUE} ", "blue_project", "blue%"):
        assert refusal(inside, partial(lend, project=spelling), available(inside)) is None
    assert 0 == leased(inside)
    assert refusal(inside, lend, available(inside)) is not None


def test_another_owner_does_not_hide_a_node_from_the_quota(inside):
    limit(inside, 1)
    owned = inside.node("available", owner=BLUE)
    assert refusal(inside, lend, owned) is None
    for owner in ("red-project", None, BLUE):
        inside.change(Node, owned, owner=owner)
        assert refusal(inside, lend, available(inside)) is not None, owner


def test_an_inspection_rule_does_not_exceed_the_limit(inside):
    limit(inside, 0)
    node = inside.node("inspecting")
    findings = Findings({"lessee": BLUE, "description": "new"}, None, None, None, {})
    with (
        pytest.raises(
            InspectionFailed, match=f"project {BLUE} allows no further node: it leases 0"
        ),
        inside.runtime.transaction() as session,
    ):
        inspection_findings.write(session, operations.lock(session, node), findings)
    assert (None, None) == (inside.read(node).lessee, inside.read(node).description)


@pytest.mark.parametrize("project", ["p" * 256, {"id": BLUE}, 7, [BLUE]])
def test_a_project_of_an_instance_that_cannot_be_stored_is_refused(inside, project):
    node = available(inside, project)
    with (
        pytest.raises(Invalid, match=r"instance_info/project_id: must be a text of at most 255"),
        inside.runtime.transaction() as session,
    ):
        deploy(session, node)


def test_a_caller_of_another_project_does_not_learn_the_numbers(inside):
    limit(inside, 0)
    other = Caller(user_id="u-2", project_id="red-project")
    error = refusal(inside, partial(lend, caller=other), available(inside))
    assert f"project {BLUE} allows no further node." in str(error)
    assert "limit is" not in str(error)


def test_limits_and_leased_nodes_are_metrics(inside):
    limit(inside, 4)
    for project in (BLUE, "without-quota"):
        inside.node(lessee=project)
    with inside.runtime.reading() as session:
        counts = {
            (gauge, labels): value
            for gauge, labels, value in fleet_counts.in_database(session, 60, 60)
            if gauge in (table.QUOTA_NODE_LIMIT, table.QUOTA_LEASED_NODES)
        }
    assert {
        (table.QUOTA_NODE_LIMIT, (BLUE,)): 4,
        (table.QUOTA_LEASED_NODES, (BLUE,)): 1,
    } == counts
