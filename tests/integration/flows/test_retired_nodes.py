"""Retired nodes: they never become available."""

import pytest

from app.errors import Conflict
from app.models import Node
from app.reports import why
from workers.periodic import power_sync

from .conftest import POLISH

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.mark.parametrize("cleans", [True, False])
def test_a_retired_node_never_becomes_available(harness, cleans):
    node = harness.node("active", retired=True, automated_clean=cleans)
    assert "manageable" == harness.do(node, "deleted")
    with pytest.raises(Conflict):
        harness.do(node, "provide")
    assert "manageable" == harness.do(node, "clean", clean_steps=[POLISH])
    harness.inside.change(Node, node, retired=False)
    assert "available" == harness.do(node, "provide")


@pytest.mark.parametrize(
    ("state", "verb", "becomes"),
    [
        ("manageable", "provide", "available"),
        ("clean failed", "provide", "available"),
        ("deploy failed", "active", "active"),
        ("manageable", "adopt", "active"),
        ("adopt failed", "adopt", "active"),
        ("error", "rebuild", "active"),  # a failed tear-down has removed the instance
    ],
)
def test_no_verb_brings_a_retired_node_into_service(harness, state, verb, becomes):
    node = harness.node(state, retired=True)
    with pytest.raises(Conflict, match=f"retired and cannot become {becomes}; first set its field"):
        harness.do(node, verb)
    row = harness.inside.read(node)
    assert (state, None) == (row.provision_state, row.reservation)
    assert verb not in _explained(harness, node).verbs
    harness.inside.change(Node, node, retired=False)
    assert verb in _explained(harness, node).verbs
    assert becomes == harness.do(node, verb)


def _explained(harness, node):
    with harness.inside.runtime.reading() as session:
        return why.explain(session, session.get_one(Node, node))


def test_why_tells_that_a_retired_node_is_on_its_way_to_manageable(harness):
    node = harness.with_agent("active", retired=True)
    assert "clean wait" == harness.do(node, "deleted")
    assert "on its way to manageable" in _explained(harness, node).summary
    harness.inside.change(Node, node, retired=False)
    assert "on its way to available" in _explained(harness, node).summary


@pytest.mark.parametrize("state", ["active", "deploy failed"])
def test_a_tenant_reinstalls_a_retired_node(harness, state):
    node = harness.node(state, retired=True)
    assert "active" == harness.do(node, "rebuild")
    assert "manageable" == harness.do(node, "deleted")


def test_a_node_that_is_retired_during_a_clean_becomes_manageable(harness):
    node = harness.with_agent()
    assert "clean wait" == harness.do(node, "provide")
    harness.inside.change(Node, node, retired=True)
    harness.call(node)
    assert "manageable" == harness.finish(node)


def test_a_retired_node_can_be_rebuilt(harness):
    node = harness.node("active", retired=True)
    assert "active" == harness.do(node, "rebuild")


def test_power_sync_and_recovery_skip_a_retired_node(harness):
    plain, retired = harness.node(), harness.node(retired=True)
    broken = {"maintenance": True, "fault": "power failure"}
    faulty_node, retired_faulty_node = harness.node(**broken), harness.node(retired=True, **broken)
    pages = [
        {node.id for page in power_sync._pages(harness.inside.runtime, "c-1", recovering=kind)
         for node in page}
        for kind in (False, True)
    ]  # fmt: skip
    assert [{plain}, {faulty_node}] == pages
    assert {retired, retired_faulty_node}.isdisjoint(set.union(*pages))
