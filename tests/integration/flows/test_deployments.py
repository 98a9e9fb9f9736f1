"""Deployments: their steps, those of the agent, and how they are held, aborted and deleted."""

import pytest

from app.engine import operations
from app.models import DeployTemplate, NodeTrait
from tests.integration.harness import Acme, AcmeMegaDeploy

from .conftest import deploy_step, ran

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.mark.parametrize("priority", [41, 99])
def test_an_in_band_step_may_run_as_soon_and_as_long_as_the_agent_runs(harness, image, priority):
    node = harness.with_agent("available", instance_info=image)
    harness.offer("deploy", ("deploy", "tune", 0), ("deploy", "edge", priority))
    harness.do(node, "active", deploy_steps=[deploy_step("deploy", "tune", priority)])
    assert "wait call-back" == harness.call(node)
    planned = [row.label for row in harness.steps(node) if row.flow == "deploy"]
    assert {"deploy.edge", "deploy.tune"} < set(planned)


def test_in_band_steps_are_merged_at_the_agents_first_heartbeat(harness, image):
    node = harness.with_agent("available", instance_info=image)
    harness.offer(
        "deploy", *(("deploy", *step) for step in (("tune", 0), ("grub", 70), ("check", 50)))
    )
    harness.do(node, "active", deploy_steps=[deploy_step("deploy", "tune", 90)])
    assert ["management.prepare_fans"] == ran(harness, node, "deploy")
    harness.call(node)
    planned = [row.label for row in harness.steps(node) if row.flow == "deploy"]
    assert [
        "management.prepare_fans", "deploy.deploy", "deploy.tune", "deploy.write_image",
        "deploy.grub", "deploy.prepare_instance_boot", "deploy.check", "deploy.tear_down_agent",
        "deploy.switch_to_tenant_network", "deploy.boot_instance",
    ] == planned  # fmt: skip
    assert ["tune"] == harness.ran()


@pytest.mark.parametrize(
    ("state", "verb", "ends"),
    [("available", "active", "deploy failed"), ("active", "service", "service failed")],
)
def test_a_step_of_an_agent_without_the_extension_fails_with_that_reason(
    harness, image, state, verb, ends
):
    flow = {"active": "deploy"}.get(verb, verb)
    harness.agent.lacks = (flow,)
    node = harness.with_agent(state, instance_info=image, power_state="power on")
    arguments = {f"{flow}_steps": [deploy_step("deploy", "tune", 70)]}
    harness.do(node, verb, **arguments)
    assert ends == harness.call(node)
    assert harness.inside.read(node).last_error == (
        f"deploy.tune: this node has no {flow} step of that name;"
        f" the ramdisk has no {flow} extension"
    )


def test_a_step_that_the_agent_lacks_fails_the_deployment(harness, image):
    node = harness.with_agent("available", instance_info=image)
    harness.do(node, "active", deploy_steps=[deploy_step("deploy", "nonsense", 90)])
    assert "deploy failed" == harness.call(node)
    row = harness.inside.read(node)
    assert "deploy.nonsense: this node has no deploy step" in row.last_error
    assert "extension" not in row.last_error
    assert not row.maintenance


def test_another_version_of_the_hardware_managers_ends_the_deployment(harness, image):
    node = harness.with_agent("available", instance_info=image)
    harness.do(node, "active", deploy_steps=[deploy_step("deploy", "tune", 90)])
    harness.call(node)
    harness.agent.fail("changed", "VERSION_MISMATCH")
    assert "deploy failed" == harness.call(node)
    assert "version_mismatch" == harness.last(node).error["code"]


def test_raid_of_a_deployment_is_built_from_its_arguments_before_the_image_is_written(
    harness, image
):
    node = harness.with_agent("available", instance_info=image, raid_interface="agent")
    raid_config = {
        "logical_disks": [{"raid_level": "1", "size_gb": "MAX", "controller": "software"}]
    }
    argsinfo = {"raid_config": {"description": "the wanted volumes", "required": True}}
    harness.offer("deploy", ("raid", "apply_configuration", 0, {"argsinfo": argsinfo}))
    step = deploy_step("raid", "apply_configuration", 90)
    harness.do(node, "active", deploy_steps=[step])
    assert "deploy failed" == harness.call(node)
    assert "'raid_config' is required" in harness.inside.read(node).last_error
    harness.do(node, "active", deploy_steps=[{**step, "args": {"raid_config": raid_config}}])
    harness.call(node)
    assert {"raid_config": raid_config} == harness.agent.received[-1][1]["step"]["args"]
    harness.finish(node, "deploy", result=raid_config)
    assert ["apply_configuration", "write_image"] == harness.ran()
    assert raid_config == harness.inside.read(node).raid_config


def test_templates_add_steps_by_traits_and_requested_steps_override_them(harness):
    node = harness.node("available", instance_info={"traits": ["CUSTOM_T"]})
    with harness.inside.runtime.transaction() as session:
        session.add(NodeTrait(node_id=node, trait="CUSTOM_T"))
        steps = [deploy_step("management", "scrub", 60, level="template")]
        session.add(DeployTemplate(uuid="t" * 36, name="CUSTOM_T", steps=steps))
    harness.do(node, "active")
    assert [
        ("management.prepare_fans", "driver"), ("deploy.deploy", "driver"),
        ("management.scrub", "template"),
    ] == [(row.label, row.source) for row in harness.steps(node) if row.flow]  # fmt: skip
    own_step = deploy_step("management", "scrub", 60, level="own")
    harness.do(node, "rebuild", deploy_steps=[own_step])
    assert ["scrub template", "scrub own"] == [action for action in Acme.did if "scrub" in action]


def test_a_held_deployment_resumes_and_can_be_aborted(harness):
    node = harness.node("available")
    hold = deploy_step("power", "hold", 50)
    assert "deploy hold" == harness.do(node, "active", deploy_steps=[hold])
    assert "active" == harness.do(node, "unhold")
    assert "deploy hold" == harness.do(node, "rebuild", deploy_steps=[hold])
    assert "deploy failed" == harness.do(node, "abort")
    assert not harness.inside.read(node).maintenance


def test_a_waiting_deployment_is_aborted_or_deleted(harness, image):
    node, other = (harness.with_agent("available", instance_info=image) for _ in range(2))
    assert "wait call-back" == harness.do(other, "active")
    assert "wait call-back" == harness.do(node, "active")
    assert "deploy failed" == harness.do(node, "abort")
    assert ["power off", "clean_up_ramdisk"] == Acme.did[-2:]
    assert image == harness.inside.read(node).instance_info
    harness.do(node, "active")
    assert "clean wait" == harness.do(node, "deleted")
    assert {} == harness.inside.read(node).instance_info
    with harness.inside.runtime.reading() as session:
        past = [(row.kind, row.state) for row in operations.of_node(session, node)]
    assert [("deleted", "waiting"), ("active", "aborted"), ("active", "aborted")] == past
    assert ("wait call-back", "waiting") == (harness.state(other), harness.last(other).state)


def test_a_deploy_step_of_a_driver_is_called_again_when_its_poll_is_due(harness):
    node = harness.node("available")
    crawl = deploy_step("management", "crawl", 120)
    assert "wait call-back" == harness.do(node, "active", deploy_steps=[crawl])
    assert ["prepare_fans"] == Acme.did
    assert "active" == harness.poll(node)
    assert "crawl" in Acme.did


def test_a_mega_step_is_driven_by_the_heartbeats(harness):
    node = harness.node("available", deploy_interface="acme-mega")
    assert "wait call-back" == harness.do(node, "active")
    assert "wait call-back" == harness.call(node)
    assert ["prepare_fans", "boot the agent", "write"] == Acme.did
    assert "wait call-back" == harness.call(node)
    AcmeMegaDeploy.is_written = True
    assert "active" == harness.call(node)
    assert "reboot to instance" == Acme.did[-1]
    assert "not to be run" not in Acme.did
    assert [] == harness.agent.names(), "its deploy steps are not used"
