"""Every wait state: its timeout, and what a step or an operator changes about it."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from app.db.clock import after
from app.engine import wake
from app.lifecycle.provision_states import Kind, of_kind
from app.models import Node, NodeHistory, NodeTrait, Operation
from drivers.core.errors import Busy
from drivers.core.steps import Wait
from tests.integration.harness import Acme, requested

from .conftest import BURN, CRAWL, STEPS, STROLL

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
WAITS = sorted(of_kind(Kind.WAIT))
TIMEOUTS = {
    "clean wait": "CLEAN_CALLBACK_TIMEOUT",
    "wait call-back": "DEPLOY_CALLBACK_TIMEOUT",
    "inspect wait": "INSPECT_WAIT_TIMEOUT",
    "rescue wait": "RESCUE_CALLBACK_TIMEOUT",
    "service wait": "SERVICE_CALLBACK_TIMEOUT",
}

# Deadlines


@pytest.mark.parametrize("state", WAITS)
@pytest.mark.parametrize("limit", [100, 0])
def test_each_wait_has_a_timeout_setting_and_0_disables_it(make, state, limit):
    harness = make(**{TIMEOUTS[state]: str(limit)})
    operation = harness.last(harness.arrive(state))
    assert bool(limit) == (operation.deadline_at is not None)
    if limit:
        time_left = operation.deadline_at - operation.created_at
        assert timedelta(seconds=limit - 2) < time_left < timedelta(seconds=limit + 20)


def test_time_in_the_queue_does_not_shorten_the_timeout_of_an_inspection(make):
    harness = make(INSPECT_WAIT_TIMEOUT="100")
    node = harness.arrive("inspect wait")
    harness.inside.change(Node, node, inspection_started_at=after(-90))
    with harness.inside.runtime.transaction() as session:
        operation = session.get_one(Operation, harness.last(node).id)
        assert wake.resume_operation(session, session.get_one(Node, node), operation)
    harness.run()
    operation = harness.last(node)
    assert "inspect wait" == harness.state(node)
    assert operation.deadline_at - operation.created_at > timedelta(seconds=90)


#: wait state -> state at its end, whether in maintenance, and cleanup steps
EXPIRED = {
    "clean wait": ("clean failed", True, ["clean_up_ramdisk"]),
    "wait call-back": ("deploy failed", False, ["power off", "clean_up_ramdisk"]),
    "inspect wait": ("inspect failed", False, ["power off", "clean_up_ramdisk"]),
    "rescue wait": ("rescue failed", False, ["power off", "clean_up_ramdisk"]),
    "service wait": ("service failed", False, []),
}


@pytest.mark.parametrize("state", WAITS)
def test_an_agent_without_a_heartbeat_ends_each_wait_in_its_failed_state(make, state):
    ends, maintenance, tidied = EXPIRED[state]
    harness = make()
    node = harness.arrive(state)
    target = harness.inside.read(node).target_provision_state
    row = harness.expire(node)
    assert (ends, target, maintenance) == (
        row.provision_state, row.target_provision_state, row.maintenance
    )  # fmt: skip
    assert "Timeout reached" in row.last_error
    assert ("failed", "timeout") == (harness.last(node).state, harness.last(node).error["code"])
    assert tidied == Acme.did
    assert (None, None) == (row.reservation, row.operation_id)


@pytest.mark.parametrize(
    ("state", "ends", "fault"),
    [
        ("clean wait", "clean failed", "clean failure"),
        ("wait call-back", "deploy failed", None),
        ("service wait", "service failed", "service failure"),
    ],
)
def test_a_step_may_have_its_own_deadline_in_each_flow(make, state, ends, fault):
    harness = make(STEP_ATTEMPTS="1")
    node = harness.arrive(state, STEPS[state](STROLL))
    step = next(row for row in harness.steps(node) if row.label == "management.stroll")
    assert timedelta(seconds=5) < step.deadline_at - step.started_at < timedelta(seconds=9)
    # the last poll finds it unchanged
    harness.inside.change_step(harness.last(node).uuid, step.position, remaining=0.0, progress={})
    harness.inside.change(Operation, harness.last(node).uuid, wake_at=after(-9))
    row = harness.look(node)
    assert (ends, fault, fault is not None) == (row.provision_state, row.fault, row.maintenance)
    assert "management.stroll: the machine did not get there in time" in row.last_error


def test_a_step_of_a_busy_machine_is_tried_again_until_its_deadline(make, monkeypatch):
    """A refusal in POST ends by itself, and takes longer than all tries after errors."""
    harness, tries = make(STEP_ATTEMPTS="1"), []

    def be_busy(_interface, _target):
        tries.append(1)
        raise Busy("the machine is in POST")

    monkeypatch.setattr(Acme.interfaces["management"][0], "stroll", be_busy)
    node = harness.arrive("clean wait", STEPS["clean wait"](STROLL))
    assert "clean wait" == harness.poll(node)
    explained = harness.why(node)
    assert ("machine", 2) == (explained.waiting_for, len(tries))
    assert "the last error: the machine is in POST" in explained.summary
    step = next(row for row in harness.steps(node) if row.label == "management.stroll")
    harness.inside.change_step(harness.last(node).uuid, step.position, remaining=0.0)
    assert "clean failed" == harness.poll(node)
    late = (
        "Timeout reached in step management.stroll: the machine did not get there in time; the last"
        " error: the machine is in POST"
    )
    assert late == harness.inside.read(node).last_error


def test_an_error_is_forgotten_once_the_machine_answers_and_noted_once(make, monkeypatch):
    """A BMC may fail every other time: why, and a later timeout, have an error that lasts only."""
    harness, outcomes = make(STEP_ATTEMPTS="1"), []

    def poll(_interface, _target):
        return outcomes.pop(0)

    failed = Wait({"n": 1}, poll_after=0.1, reason="the BMC is silent")
    answered = Wait({"n": 2}, poll_after=0.1)
    outcomes += [answered]
    monkeypatch.setattr(Acme.interfaces["management"][0], "stroll", poll)
    node = harness.arrive("clean wait", STEPS["clean wait"](STROLL))

    def step():
        return next(row for row in harness.steps(node) if row.label == "management.stroll")

    assert None is step().error
    for _ in range(2):
        outcomes += [failed, failed, answered]
        for error in ("the BMC is silent", "the BMC is silent", ""):
            assert "clean wait" == harness.poll(node)
            assert error == step().error
            assert bool(error) == ("the last error: the BMC is silent" in harness.why(node).summary)
    with harness.inside.runtime.reading() as session:
        events = session.scalars(select(NodeHistory.event).where(NodeHistory.node_id == node))
        assert 1 == sum("waits after an error" in event for event in events)
    harness.inside.change_step(harness.last(node).uuid, step().position, remaining=0.0)
    outcomes += [answered]
    assert "clean failed" == harness.poll(node)
    assert "the last error" not in harness.inside.read(node).last_error


def test_why_says_what_a_driver_waits_for(make, monkeypatch):
    harness = make()
    node = harness.arrive("clean wait", STEPS["clean wait"](STROLL))
    step = next(row for row in harness.steps(node) if row.label == "management.stroll")
    progress = {"boot": {"medium": {"waits_for": "virtual medium Cd"}}}
    harness.inside.change_step(harness.last(node).uuid, step.position, progress=progress)
    assert "it waits for virtual medium Cd" in harness.why(node).summary


@pytest.mark.parametrize("state", sorted(of_kind(Kind.HOLD)))
def test_a_hold_has_no_deadline(make, state):
    harness = make()
    assert None is harness.last(harness.arrive(state)).deadline_at


# Child nodes


@pytest.mark.parametrize(
    ("step", "ends", "complaint"),
    [
        ("burn", "clean failed", "deploy.burn: the driver of child node"),
        ("ask_agent", "clean failed", "waits for an agent, and none is booted on child node"),
    ],
)
def test_a_step_that_needs_the_agent_of_a_child_node_is_refused(make, step, ends, complaint):
    harness = make(STEP_ATTEMPTS="1")
    parent = harness.node()
    harness.with_agent(parent_node=harness.inside.read(parent).uuid)
    interface = "management" if step == "ask_agent" else "deploy"
    requested_step = requested(interface, step, execute_on_child_nodes=True)
    assert ends == harness.do(parent, "clean", clean_steps=[requested_step])
    assert complaint in harness.inside.read(parent).last_error
    assert [] == Acme.did


def test_steps_of_child_nodes_may_run_without_a_wait(make):
    harness = make(PERMIT_CHILD_NODE_STEP_ASYNC_RESULT="true")
    parent = harness.node(name="parent")
    child = harness.node(name="child", parent_node=harness.inside.read(parent).uuid)
    steps = [{**CRAWL, "execute_on_child_nodes": True}, requested("management", "polish")]
    assert "manageable" == harness.do(parent, "clean", clean_steps=steps)
    assert [("parent", "polish")] == Acme.did
    assert None is harness.inside.read(child).reservation


# Commands to the agent


def test_every_command_about_steps_has_the_nodes_traits(make):
    harness = make()
    node = harness.arrive("clean wait")
    with harness.inside.runtime.transaction() as session:
        session.add_all(
            NodeTrait(node_id=node, trait=trait) for trait in ("HW_NIC_SRIOV", "CUSTOM_A")
        )
    harness.call(node)
    traits = [params["node"]["traits"] for _, params in harness.agent.received]
    assert [{"objects": [{"trait": "CUSTOM_A"}, {"trait": "HW_NIC_SRIOV"}]}] * 2 == traits


def test_an_agent_that_the_service_does_not_boot_is_only_awaited(make, inside):
    inside.environ["INGOT_AGENT_MANAGE_AGENT_BOOT"] = "false"
    harness = make()
    node = harness.with_agent()
    harness.do(node, "clean", clean_steps=[BURN, requested("power", "reboot")])
    harness.call(node)
    assert "clean wait" == harness.finish(node)
    assert "manageable" == harness.poll(node)
    assert {"power off", "power on"} == set(Acme.did)
