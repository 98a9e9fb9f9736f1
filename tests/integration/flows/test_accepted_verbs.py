"""Verbs that a state, maintenance, protection or boot mode accepts or refuses."""

import pytest
from sqlalchemy import select

from app.engine import operations, power
from app.errors import InMaintenance, NodeProtected
from app.identity.caller import Caller
from app.models import NodeHistory
from tests.integration.harness import Acme, requested

from .conftest import POLISH, _rescued

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

# Rescue, adoption


@pytest.mark.parametrize("state", ["active", "rescue", "wait call-back"])
def test_a_delete_from_each_state_of_a_tenant_tears_down_and_ends_available(harness, image, state):
    node = harness.with_agent(
        "active", rescue_interface="agent", automated_clean=False, power_state="power on",
        instance_info=image, instance_uuid="i" * 36,
    )  # fmt: skip
    harness.agent.answers["rescue.finalize_rescue"] = {}
    if state == "rescue":
        harness.do(node, "rescue", rescue_password="open sesame")
        assert state == _rescued(harness, node)
    elif state != "active":
        assert state == harness.do(node, "rebuild")
    assert "available" == harness.do(node, "deleted")
    row = harness.inside.read(node)
    assert ({}, None, None) == (row.instance_info, row.instance_uuid, row.reservation)
    assert ["power off", "clean_up_ramdisk"] == Acme.did[-2:]
    labels = [row.label for row in harness.steps(node)]
    assert (state == "rescue") == ("network.remove_rescuing_network" in labels)
    assert "network.remove_provisioning_network" in labels
    with harness.inside.runtime.reading() as session:
        entries = session.scalars(select(NodeHistory.event).filter_by(node_id=node))
        assert "The node was deleted." in [*entries]


# Retirement, automated cleaning


@pytest.mark.parametrize(("verb", "cleans", "ends"), [
    ("provide", True, "available"), ("provide", False, "available"), ("manage", True, "manageable"),
])  # fmt: skip
def test_verbs_are_accepted_in_clean_failed_despite_maintenance(harness, verb, cleans, ends):
    node = harness.node(automated_clean=cleans)
    harness.do(node, "clean", clean_steps=[requested("management", "nonsense")])
    assert harness.inside.read(node).maintenance
    assert ends == harness.do(node, verb)
    assert (verb == "manage") == harness.inside.read(node).maintenance


def test_a_node_in_an_operators_maintenance_is_not_cleaned_manually(harness):
    node = harness.node(maintenance=True)
    with pytest.raises(InMaintenance):
        harness.do(node, "clean", clean_steps=[POLISH])
    assert "available" == harness.do(node, "provide")
    assert harness.inside.read(node).maintenance


def test_a_protected_node_is_neither_rebuilt_nor_deleted(harness):
    node = harness.node("active", protected=True)
    for verb in ("rebuild", "deleted"):
        with pytest.raises(NodeProtected):
            harness.do(node, verb)


# History


def test_a_node_in_clean_failed_accepts_power_requests(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "nonsense")])
    with harness.inside.runtime.transaction() as session:
        power.request(session, operations.lock(session, node), "power on", None, Caller())
    harness.run()
    row = harness.inside.read(node)
    assert ("power on", "clean failed") == (row.power_state, row.provision_state)
