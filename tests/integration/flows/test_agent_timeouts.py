"""Timeouts of agents that send no heartbeat."""

import pytest

from app.engine import timeouts
from app.models import Node, Operation
from tests.integration.harness import requested
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.mark.parametrize(
    ("verb", "arguments", "state", "ends"),
    [
        ("provide", {}, "manageable", "clean failed"),
        ("clean", {"clean_steps": [requested("deploy", "burn")]}, "manageable", "clean failed"),
        ("active", {}, "available", "deploy failed"),
        ("service", {"service_steps": [requested("deploy", "burn")]}, "active", "service failed"),
        ("rescue", {"rescue_password": "x"}, "active", "rescue failed"),
    ],
)
def test_an_agent_without_a_heartbeat_ends_the_wait_in_its_failed_state(
    harness, image, verb, arguments, state, ends
):
    node = harness.with_agent(state, instance_info=image, rescue_interface="agent")
    harness.do(node, verb, **arguments)
    operation = harness.last(node)
    assert operation.deadline_at
    harness.inside.change(Operation, operation.uuid, deadline_at=operation.created_at)
    reconciler.reconcile(harness.inside.runtime, Contact(timeout=0))
    harness.run()
    row = harness.inside.read(node)
    assert (ends, ends == "clean failed") == (row.provision_state, row.maintenance)
    assert "timeout" == harness.last(node).error["code"]
    assert "Timeout reached" in row.last_error


def test_a_held_node_is_never_timed_out(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("power", "hold")])
    assert None is harness.last(node).deadline_at
    with harness.inside.runtime.reading() as session:
        row = session.get_one(Node, node)
        assert 1800 == timeouts.callback_timeout(session, row)
