"""Plans of deployments: steps, traits, templates and priorities that are refused before the start."""

import pytest

from app.engine import operations
from app.errors import Invalid
from app.identity.caller import Caller
from app.inventory import nodes
from app.lifecycle.provision_states import State
from app.models import DeployTemplate, Node, NodeTrait
from tests.integration.harness import Acme, Harness

from .conftest import deploy_step, ran

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
IMAGE = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}

# Deployment


def test_requested_steps_run_among_the_drivers_and_priority_0_disables_one(harness):
    node = harness.node("available")
    steps = [
        deploy_step("management", "scrub", 120, level="deep"),
        deploy_step("management", "prepare_fans", 0),
    ]
    assert "active" == harness.do(node, "active", deploy_steps=steps)
    assert ["management.scrub", "deploy.deploy"] == ran(harness, node, "deploy")
    assert ["caller", "driver"] == [row.source for row in harness.steps(node) if row.flow]


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (deploy_step("management", "scrub", 90), "'level' is required"),
        (deploy_step("management", "scrub", 90, level=1, x=1), "no argument 'x'"),
        (deploy_step("deploy", "nonsense", 50), "no deploy step of that name"),
    ],
)
def test_a_deployment_with_a_wrong_step_is_refused(harness, step, complaint):
    node = harness.node("available")
    with pytest.raises(Invalid, match=complaint):
        harness.do(node, "active", deploy_steps=[step])
    assert "available" == harness.state(node)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"deploy_interface": "direct"}, "Failed to validate deploy interface.*image_source"),
        ({"instance_info": {"traits": ["CUSTOM_X"]}}, "missing traits CUSTOM_X"),
        ({"instance_info": {"traits": ["CUSTOM_T"]}}, "management.scrub: .*'level' is required"),
    ],
)
def test_interfaces_traits_and_templates_are_checked_before_a_deployment_begins(
    harness, columns, complaint
):
    node = harness.node("available", **columns)
    with harness.inside.runtime.transaction() as session:
        session.add(NodeTrait(node_id=node, trait="CUSTOM_T"))
        steps = [deploy_step("management", "scrub", 60)]
        session.add(DeployTemplate(uuid="t" * 36, name="CUSTOM_T", steps=steps))
    with pytest.raises(Invalid, match=complaint):
        harness.ask(node, "active")
    row = harness.inside.read(node)
    assert ("available", None, None) == (row.provision_state, row.reservation, row.operation_id)
    assert ([], []) == (harness.inside.messages, Acme.did)


OFF = "needs the agent running, but power.power_off before it leaves the machine off"
REPLACED = "tear_down_agent, which leaves that, is not among the steps"


@pytest.mark.parametrize(
    ("name", "priority", "complaint"),
    [
        ("write_image", 110, OFF),
        ("deploy", 30, OFF),
        ("tear_down_agent", 0, REPLACED),
        ("boot_instance", 0, "must end with the instance running"),
    ],
)
@pytest.mark.parametrize("source", ["caller", "template"])
@pytest.mark.parametrize(("verb", "state"), [("active", "available"), ("rebuild", "active")])
def test_a_deployment_that_cannot_end_well_is_refused_whoever_asks_for_its_steps(
    harness, name, priority, complaint, source, verb, state
):
    traits = {"traits": ["CUSTOM_T"]} if source == "template" else {}
    node = harness.with_agent(state, instance_info=IMAGE | traits)
    step = deploy_step("deploy", name, priority)
    if traits:
        with harness.inside.runtime.transaction() as session:
            session.add(NodeTrait(node_id=node, trait="CUSTOM_T"))
            session.add(DeployTemplate(uuid="t" * 36, name="CUSTOM_T", steps=[step]))
    steps = {} if traits else {"deploy_steps": [step]}
    with pytest.raises(Invalid, match=complaint):
        harness.ask(node, verb, **steps)
    row = harness.inside.read(node)
    assert (state, None) == (row.provision_state, row.reservation)
    assert [] == harness.inside.messages


def test_a_plan_is_checked_again_with_the_steps_that_the_agent_reports(harness, image):
    node = harness.with_agent("available", instance_info=image)
    harness.do(node, "active", deploy_steps=[deploy_step("power", "power_off", 55)])
    harness.offer("deploy", ("deploy", "check", 50))
    assert "deploy failed" == harness.call(node)
    assert harness.inside.read(node).last_error == (
        "deploy.check (priority 50) needs the agent running, but power.power_off (priority 55)"
        " before it leaves the machine off; power_on or reboot between them starts the machine"
    )
    assert [] == harness.ran()


def test_two_steps_of_one_name_are_refused(harness):
    node = harness.node("available")
    with pytest.raises(Invalid, match="requested twice"):
        harness.do(node, "active", deploy_steps=[deploy_step("management", "scrub", 0)] * 2)


@pytest.mark.parametrize("priority", [40, 100, 150])
def test_an_in_band_step_runs_only_between_41_and_99(harness, priority):
    node = harness.with_agent("available", instance_info=IMAGE)
    with pytest.raises(Invalid, match="priorities from 41 to 99"):
        harness.do(node, "active", deploy_steps=[deploy_step("deploy", "tune", priority)])


# History


def test_a_node_with_a_disallowed_boot_mode_is_not_deployed(inside):
    inside.environ["INGOT_CONDUCTOR_DISALLOWED_DEPLOYMENT_BOOT_MODES"] = "bios"
    harness = Harness(inside.another())
    node = harness.node("available", properties={"capabilities": "boot_mode:bios"})
    with pytest.raises(Invalid, match="Boot mode bios"):
        harness.do(node, "active")
    harness.inside.change(Node, node, instance_info={"capabilities": {"boot_mode": "uefi"}})
    assert "active" == harness.do(node, "active")
    harness.inside.close()


def test_a_node_with_a_disallowed_boot_mode_is_not_enrolled(inside):
    inside.environ["INGOT_API_DISALLOWED_ENROLLMENT_BOOT_MODES"] = "bios"
    harness = Harness(inside.another())
    node, old = harness.node(), {"capabilities": "boot_mode:bios"}
    with harness.inside.runtime.transaction() as session:
        with pytest.raises(Invalid, match="no node may have boot mode bios"):
            nodes.create(session, {"driver": "acme", "properties": old}, State.ENROLL)
        row = operations.lock(session, node)
        with pytest.raises(Invalid, match="no node may have boot mode bios"):
            nodes.change(session, row, [], {"properties": old}, Caller(), inspecting_counts=True)
        nodes.change(
            session, row, [], {"properties": {"cpus": 1}}, Caller(), inspecting_counts=True
        )
    harness.inside.close()
