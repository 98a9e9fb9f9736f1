"""Automated cleaning (spec implement-cleaning-states): take-over, lock, RAID, failures, rebuilds."""

from contextlib import ExitStack
from uuid import uuid4

import pytest

from app.db.clock import after
from app.errors import NodeLocked
from app.models import Conductor, Fault
from drivers.core.errors import CleanStepFailed
from drivers.core.steps import Done
from tests.integration.harness import Acme, AcmeManagement, Harness, requested
from tests.unit.drivers.machines import scripted_agent
from workers.conductor import attempts, claims
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

LEVELS = ("one", "two", "three")
RAID = {"logical_disks": [{"raid_level": "1", "size_gb": "MAX", "controller": "software"}]}


@pytest.fixture
def harness(inside):
    return Harness(inside)


@pytest.fixture
def band(inside):
    """Build a harness with settings, and with an agent that may speak HTTP."""
    with ExitStack() as stack:

        def build(**environ):
            inside.environ |= {"INGOT_AGENT_REQUIRE_TLS": "false", **environ}
            view = inside.another()
            stack.callback(view.close)
            return Harness(view, stack.enter_context(scripted_agent()))

        yield build


@pytest.mark.parametrize("interrupted", range(len(LEVELS)))
def test_a_take_over_repeats_the_interrupted_step_and_no_other(harness, interrupted):
    node, messages = harness.node(), harness.inside.messages
    steps = [requested("management", "scrub", args={"level": level}) for level in LEVELS]
    harness.ask(node, "clean", clean_steps=steps)
    for _ in range(interrupted):
        attempts.run(harness.conductor, messages.pop(0))
    operation = harness.last(node)
    assert claims.claim(harness.conductor, operation.uuid, operation.fence, operation.cursor)
    begun = harness.steps(node)[interrupted]
    assert (interrupted, "running", "c-1") == (operation.cursor, begun.state, begun.conductor)
    Acme.did.append(f"scrub {LEVELS[interrupted]}")
    messages.clear()  # c-1 has given the step's orders, and dies before it records an outcome
    survivor = harness.inside.conductor("c-2")
    harness.inside.change(Conductor, "c-1", heartbeat_at=after(-16))
    counters = reconciler.reconcile(harness.inside.runtime, Contact(timeout=0))
    assert 1 == counters["taken_over"]
    while messages:
        attempts.run(survivor, messages.pop(0))
    assert "manageable" == harness.state(node)
    twice = LEVELS[interrupted]
    expected = [level for name in LEVELS for level in [name] * (1 + (name == twice))]
    assert [f"scrub {level}" for level in expected] == Acme.did
    assert [int(level == twice) for level in LEVELS] == [row.deaths for row in harness.steps(node)]


def test_a_node_is_locked_while_its_clean_steps_run(harness, monkeypatch):
    states = []

    def polish(_management, _target):
        row = harness.inside.read(node)
        states.append((row.provision_state, row.reservation))
        for verb in ("provide", "manage", "inspect"):
            with pytest.raises(NodeLocked, match=r"locked by host c-1"):
                harness.ask(node, verb)
        return Done()

    monkeypatch.setattr(AcmeManagement, "polish", polish)
    node = harness.node()
    polishing = requested("management", "polish")
    assert "manageable" == harness.do(node, "clean", clean_steps=[polishing, polishing])
    assert [("cleaning", "c-1")] * 2 == states
    assert None is harness.inside.read(node).reservation


def test_a_clean_that_fails_after_a_tear_down_concerns_no_instance(band, monkeypatch):
    harness = band(INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE="management.polish:10")
    states = []

    def polish(_management, _target):
        row = harness.inside.read(node)
        states.append((row.provision_state, row.instance_uuid, row.instance_info))
        raise CleanStepFailed("the brush is broken")

    monkeypatch.setattr(AcmeManagement, "polish", polish)
    tenant = {"instance_uuid": str(uuid4()), "instance_info": {"display_name": "web"}}
    node = harness.node("active", **tenant)
    assert "clean failed" == harness.do(node, "deleted")
    row = harness.inside.read(node)
    assert (True, Fault.CLEAN_FAILURE, "available") == (
        row.maintenance, row.fault, row.target_provision_state
    )  # fmt: skip
    assert "the brush is broken" in row.maintenance_reason
    assert [("cleaning", None, {})] == states
    assert (None, {}) == (row.instance_uuid, row.instance_info)


def test_a_clean_that_fails_and_then_succeeds_keeps_an_operators_maintenance(band, monkeypatch):
    harness = band(INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE="management.polish:10")
    works = AcmeManagement.polish

    def polish(_management, _target):
        raise CleanStepFailed("the brush is broken")

    node = harness.node("active", maintenance=True, maintenance_reason="a fan is broken")
    monkeypatch.setattr(AcmeManagement, "polish", polish)
    assert "clean failed" == harness.do(node, "deleted")
    monkeypatch.setattr(AcmeManagement, "polish", works)
    assert "available" == harness.do(node, "provide")
    row = harness.inside.read(node)
    assert (True, None, "a fan is broken") == (row.maintenance, row.fault, row.maintenance_reason)


@pytest.mark.parametrize("negative", ["steps", "settings"])
def test_steps_of_a_negative_priority_do_not_run(band, negative):
    override = {"INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE": "deploy.erase_devices:-1"}
    harness = band(**(override if negative == "settings" else {}))
    priority = -1 if negative == "steps" else 10
    harness.offer("clean", ("deploy", "erase_devices", priority), ("deploy", "check", 5))
    node = harness.with_agent()
    harness.do(node, "provide")
    harness.call(node)
    assert "available" == harness.finish(node)
    assert ["check"] == harness.ran()


def test_raid_that_cleaning_deletes_is_created_again_as_it_was(band):
    harness = band(
        INGOT_DEPLOY_DELETE_CONFIGURATION_PRIORITY="90",
        INGOT_DEPLOY_CREATE_CONFIGURATION_PRIORITY="20",
    )
    harness.offer(
        "clean",
        ("raid", "create_configuration", 0),
        ("raid", "delete_configuration", 0),
        ("deploy", "erase_devices", 50),
    )
    node = harness.with_agent(raid_interface="agent", target_raid_config=RAID, raid_config=RAID)
    assert "clean wait" == harness.do(node, "provide")
    harness.call(node)
    configurations = []
    for result in (None, None, RAID):  # of deletion, erasure, creation
        harness.finish(node, result=result)
        configurations.append(harness.inside.read(node).raid_config)
    assert ["delete_configuration", "erase_devices", "create_configuration"] == harness.ran()
    assert [{}, {}, RAID] == configurations
    assert "available" == harness.state(node)


def test_a_rebuild_runs_the_steps_of_a_deployment_and_no_clean_step(harness):
    node, plans = harness.node("available", automated_clean=True), {}
    for verb, ends in (("active", "active"), ("rebuild", "active"), ("deleted", "available")):
        assert ends == harness.do(node, verb)
        plans[verb] = [(row.flow, row.label, row.state) for row in harness.steps(node)]
    assert plans["active"] == plans["rebuild"]
    assert "clean" not in {flow for flow, *_ in plans["rebuild"]}
    assert "clean" in {flow for flow, *_ in plans["deleted"]}, "this node has clean steps"
