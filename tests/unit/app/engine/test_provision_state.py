"""Side effects of transitions of the provision state."""

from types import SimpleNamespace

import pytest

from app.config.settings import load
from app.engine.provision_state import apply_effects, forget_agent
from app.lifecycle.provision_states import Event, State
from app.models import AgentRecord, Fault, Node, Operation
from app.runtime import RUNTIME


class Agents:
    """Session that finds one agent and no other row."""

    def __init__(self, agent=None):
        self.agent = agent
        self.info = {RUNTIME: SimpleNamespace(settings=load({}))}

    def get(self, model, key):
        assert (AgentRecord, 7) == (model, key)
        return self.agent

    def execute(self, statement):
        assert "allocations" in str(statement)

    def scalars(self, statement):
        assert "FROM port" in str(statement)
        return ()


def settled(node, state, event, agent=None):
    node.id = 7
    node.driver_info = {}
    apply_effects(Agents(agent), node, state, event, Operation(uuid="o-1"))
    return node


def tenanted():
    return Node(
        instance_info={"image_source": "http://images/a.raw"},
        instance_uuid="i",
        instance_name="web",
        lessee="tenant",
        driver_internal_info={
            "automatic_lessee": True,
            "instance": {},
            "root_uuid_or_disk_id": "0x1f",
            "is_whole_disk_image": True,
            "deploy_boot_mode": "uefi",
            "image": {},
            "agent_secure": "kept",
        },
    )


def agent(**fields):
    return AgentRecord(
        url="https://10.0.0.9:9999",
        token="t" * 32,
        verify_ca="PEM",
        steps={"clean": []},
        hardware_manager_version={"generic": "1"},
        heartbeats=4,
        **fields,
    )


@pytest.mark.parametrize("event", [Event.CLEAN, Event.FAIL])
def test_every_end_of_a_tear_down_removes_the_tenants_data(event):
    node = settled(tenanted(), State.DELETING, event)
    assert ({}, None, None, None) == (
        node.instance_info,
        node.instance_uuid,
        node.instance_name,
        node.lessee,
    )
    tenancy = {"instance_uuid": "i", "owner": None, "lessee": "tenant", "ended_by": "o-1"}
    assert {"agent_secure": "kept", "tenancy": tenancy} == node.driver_internal_info


def test_a_lessee_set_by_an_operator_is_kept():
    node = tenanted()
    node.driver_internal_info = {}
    assert "tenant" == settled(node, State.DELETING, Event.CLEAN).lessee


def test_a_failed_clean_puts_the_node_into_maintenance_with_the_reason():
    node = settled(Node(last_error="disk sda refused"), State.CLEANING, Event.FAIL)
    assert (True, Fault.CLEAN_FAILURE, "disk sda refused") == (
        node.maintenance,
        node.fault,
        node.maintenance_reason,
    )


@pytest.mark.parametrize("fault", [None, Fault.RESTORED])
def test_a_failed_clean_keeps_the_maintenance_that_only_an_operator_may_end(fault):
    node = Node(maintenance=True, fault=fault, maintenance_reason="a fan is broken")
    settled(node, State.CLEANING, Event.FAIL)
    settled(node, State.CLEANING, Event.DONE)
    assert (True, fault, "a fan is broken") == (
        node.maintenance, node.fault, node.maintenance_reason
    )  # fmt: skip


def test_the_reason_of_maintenance_is_that_of_the_newest_failure():
    node = Node(
        maintenance=True, fault=Fault.CLEAN_FAILURE, maintenance_reason="disk sda refused",
        last_error="disk sdb refused",
    )  # fmt: skip
    settled(node, State.CLEANING, Event.FAIL)
    assert "disk sdb refused" == node.maintenance_reason


@pytest.mark.parametrize("event", [Event.DONE, Event.MANAGE])
def test_a_successful_clean_ends_only_the_maintenance_of_a_failed_clean(event):
    failed = Node(
        maintenance=True, fault=Fault.CLEAN_FAILURE, maintenance_reason="disk sda refused"
    )
    settled(failed, State.CLEANING, event)
    assert (False, None, None) == (failed.maintenance, failed.fault, failed.maintenance_reason)
    repaired = Node(maintenance=True, fault=None, maintenance_reason="memory is replaced")
    settled(repaired, State.CLEANING, event)
    assert (True, "memory is replaced") == (repaired.maintenance, repaired.maintenance_reason)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (State.CLEANING, Event.DONE),
        (State.CLEANING, Event.FAIL),
        (State.DEPLOYING, Event.DONE),
        (State.DEPLOYING, Event.FAIL),
    ],
)
def test_the_end_of_a_flow_invalidates_its_agent(state, event):
    over = agent(pregenerated=False)
    settled(Node(), state, event, over)
    assert (None, None, None) == (over.url, over.token, over.verify_ca)


def test_the_steps_of_an_agent_are_kept():
    over = agent(pregenerated=False)
    settled(Node(), State.CLEANING, Event.DONE, over)
    assert {"clean": []} == over.steps


def test_the_agent_of_a_flow_that_continues_is_kept():
    busy = agent(pregenerated=False)
    settled(Node(), State.CLEANING, Event.WAIT, busy)
    assert "https://10.0.0.9:9999" == busy.url


def test_a_token_made_for_the_boot_media_outlives_a_power_cycle():
    record = agent(pregenerated=True)
    forget_agent(record)
    assert (None, "t" * 32, 4) == (record.url, record.token, record.heartbeats)
