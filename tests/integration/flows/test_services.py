"""Services of active nodes, with and without the agent."""

import pytest

from app.errors import Conflict, InMaintenance, NodeLocked
from app.models import Node, NodeTrait, Operation, Runbook
from drivers.core.steps import Wait
from tests.integration.harness import Acme, AcmeBoot, requested

from .conftest import POLISH, SCRUB

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

# Deployment


def test_a_runbook_of_a_service_is_checked_as_a_whole(harness):
    node = harness.node("active")
    with harness.inside.runtime.transaction() as session:
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
        steps = [{**requested("power", "power_off", args={}), "order": 1}]
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=steps))
    assert "service failed" == harness.do(node, "service", runbook="CUSTOM_R")
    assert "service must end with the instance running" in harness.inside.read(node).last_error
    assert [] == Acme.did


# Service


def test_a_service_without_the_ramdisk_leaves_the_machine_on(harness):
    node = harness.with_agent("active", power_state="power on")
    assert "active" == harness.do(node, "service", service_steps=[SCRUB, POLISH])
    assert ["scrub deep", "polish"] == Acme.did


def test_a_service_with_in_band_steps_boots_the_agent_and_then_the_instance_again(harness):
    node = harness.with_agent("active", power_state="power on")
    assert "service wait" == harness.do(
        node, "service", service_steps=[requested("deploy", "burn")]
    )
    harness.call(node)
    assert "active" == harness.finish(node, "service")
    assert [
        "power off", "prepare_ramdisk", "power on", "power off", "clean_up_ramdisk",
        "prepare_instance", "power on",
    ] == Acme.did  # fmt: skip


def test_a_wrong_service_step_fails_without_maintenance_and_abort_returns_to_active(harness):
    node = harness.node("active")
    assert "service failed" == harness.do(node, "service", service_steps=[requested("bios", "x")])
    assert not harness.inside.read(node).maintenance
    assert "active" == harness.do(node, "abort")


def test_a_service_that_fails_in_a_step_sets_maintenance(harness):
    node = harness.node("active")
    wrong = requested("management", "scrub", args={"level": "wrong"})
    assert "service failed" == harness.do(node, "service", service_steps=[wrong])
    row = harness.inside.read(node)
    assert (True, "service failure") == (row.maintenance, row.fault)
    with pytest.raises(Conflict):
        harness.do(node, "abort")
    with pytest.raises(InMaintenance):
        harness.do(node, "service", service_steps=[POLISH])
    harness.inside.change(Node, node, maintenance=False)
    assert "active" == harness.do(node, "abort")
    assert None is harness.inside.read(node).fault


def test_an_aborted_service_returns_to_active(harness):
    node = harness.with_agent("active", power_state="power on")
    harness.do(node, "service", service_steps=[requested("deploy", "burn")])
    harness.call(node)
    assert "active" == harness.do(node, "abort")
    assert ["power off", "clean_up_ramdisk", "prepare_instance", "power on"] == Acme.did[-4:]
    assert "aborted" == harness.last(node).state


def test_the_cleanup_of_an_aborted_service_may_wait(harness, monkeypatch):
    """The node stays in its failed state, and reserved, until its machine is cleaned up."""
    node = harness.with_agent("active", power_state="power on")
    harness.do(node, "service", service_steps=[requested("deploy", "burn")])
    harness.call(node)
    clean_up, waits = AcmeBoot.clean_up_ramdisk, [Wait(poll_after=0.0), Wait(poll_after=0.0)]
    monkeypatch.setattr(
        AcmeBoot,
        "clean_up_ramdisk",
        lambda *arguments: waits.pop() if waits else clean_up(*arguments),
    )
    harness.do(node, "abort")
    for _ in range(2):
        assert "service failed" == harness.state(node)
        with pytest.raises(NodeLocked):
            harness.ask(node, "service", service_steps=[POLISH])
        harness.poll(node)
    assert ("active", None) == (harness.state(node), harness.inside.read(node).reservation)
    assert "aborted" == harness.last(node).state


def test_a_held_service_may_be_given_other_steps(harness):
    node = harness.node("active")
    assert "service hold" == harness.do(
        node, "service", service_steps=[requested("power", "hold"), SCRUB]
    )
    assert "active" == harness.do(node, "service", service_steps=[POLISH])
    assert ["polish"] == Acme.did
    assert "aborted" == _operations(harness, node)[-1].state


def _operations(harness, node):
    with harness.inside.runtime.reading() as session:
        query = session.query(Operation).filter_by(node_id=node).order_by(Operation.id.desc())
        return query.all()
