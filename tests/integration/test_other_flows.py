"""Deployment, service, rescue, adoption, retirement, in one process."""

from uuid import uuid4

import pytest
from sqlalchemy import select

from app.db.clock import after
from app.engine import operations, power, timeouts
from app.errors import Conflict, InMaintenance, Invalid, NodeLocked, NodeProtected, NotFound
from app.identity.caller import Caller
from app.inventory import nodes
from app.lifecycle.provision_states import State
from app.models import Conductor, DeployTemplate, Node, NodeHistory, NodeTrait, Operation, Runbook
from app.planning import available_steps
from app.reports import why
from drivers.core.errors import CleanStepFailed
from drivers.core.steps import Flow, Wait
from drivers.simulator.simulator import running
from tests.integration.harness import (
    Acme,
    AcmeBoot,
    AcmeManagement,
    AcmeMegaDeploy,
    Harness,
    requested,
)
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import scripted_agent
from workers.periodic import power_sync, pruning, reconciler

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

POLISH = requested("management", "polish")
SCRUB = requested("management", "scrub", args={"level": "deep"})
IMAGE = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}


class Image(Handler):
    """Server of one small raw image."""

    def do_GET(self):
        self.answer(200, bytes(512))


@pytest.fixture(scope="module")
def image():
    """instance_info of a deployment whose image can be checked."""
    with serving(Image) as server:
        yield {"image_source": f"{server.url}/disk.raw", "image_checksum": "a" * 64}


def deploy_step(interface, name, priority, **args):
    return {"interface": interface, "step": name, "priority": priority, "args": args}


@pytest.fixture
def harness(inside):
    with scripted_agent() as agent:
        inside.environ["INGOT_AGENT_REQUIRE_TLS"] = "false"
        plain = inside.another()
        harness = Harness(plain, agent)
        harness.offer("deploy", ("deploy", "tune", 0), ("deploy", "check", 50))
        harness.offer("service", ("deploy", "burn", 0, {"abortable": True}))
        harness.offer("clean", ("deploy", "erase_devices", 10))
        yield harness
        plain.close()


def ran(harness, node, flow):
    return [row.label for row in harness.steps(node) if row.flow == flow and row.state == "done"]


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
    assert ([], []) == (harness.inside.sent, Acme.did)


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
    assert [] == harness.inside.sent


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


def test_a_runbook_of_a_service_is_checked_as_a_whole(harness):
    node = harness.node("active")
    with harness.inside.runtime.transaction() as session:
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
        steps = [{**requested("power", "power_off", args={}), "order": 1}]
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=steps))
    assert "service failed" == harness.do(node, "service", runbook="CUSTOM_R")
    assert "service must end with the instance running" in harness.inside.read(node).last_error
    assert [] == Acme.did


def test_two_steps_of_one_name_are_refused(harness):
    node = harness.node("available")
    with pytest.raises(Invalid, match="requested twice"):
        harness.do(node, "active", deploy_steps=[deploy_step("management", "scrub", 0)] * 2)


@pytest.mark.parametrize("priority", [40, 100, 150])
def test_an_in_band_step_runs_only_between_41_and_99(harness, priority):
    node = harness.with_agent("available", instance_info=IMAGE)
    with pytest.raises(Invalid, match="priorities from 41 to 99"):
        harness.do(node, "active", deploy_steps=[deploy_step("deploy", "tune", priority)])


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
        "deploy", *(("deploy", *each) for each in (("tune", 0), ("grub", 70), ("check", 50)))
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
    wanted = {f"{flow}_steps": [deploy_step("deploy", "tune", 70)]}
    harness.do(node, verb, **wanted)
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
    wanted = {"logical_disks": [{"raid_level": "1", "size_gb": "MAX", "controller": "software"}]}
    argsinfo = {"raid_config": {"description": "the wanted volumes", "required": True}}
    harness.offer("deploy", ("raid", "apply_configuration", 0, {"argsinfo": argsinfo}))
    step = deploy_step("raid", "apply_configuration", 90)
    harness.do(node, "active", deploy_steps=[step])
    assert "deploy failed" == harness.call(node)
    assert "'raid_config' is required" in harness.inside.read(node).last_error
    harness.do(node, "active", deploy_steps=[{**step, "args": {"raid_config": wanted}}])
    harness.call(node)
    assert {"raid_config": wanted} == harness.agent.received[-1][1]["step"]["args"]
    harness.finish(node, "deploy", result=wanted)
    assert ["apply_configuration", "write_image"] == harness.ran()
    assert wanted == harness.inside.read(node).raid_config


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
    own = deploy_step("management", "scrub", 60, level="own")
    harness.do(node, "rebuild", deploy_steps=[own])
    assert ["scrub template", "scrub own"] == [each for each in Acme.did if "scrub" in each]


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
        past = [(each.kind, each.state) for each in operations.of_node(session, node)]
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
    AcmeMegaDeploy.written = True
    assert "active" == harness.call(node)
    assert "reboot to instance" == Acme.did[-1]
    assert "not to be run" not in Acme.did
    assert [] == harness.agent.names(), "its deploy steps are not used"


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
        AcmeBoot, "clean_up_ramdisk", lambda *given: waits.pop() if waits else clean_up(*given)
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


# Rescue, adoption


def test_a_rescue_sets_the_password_and_deletes_it(harness):
    node = harness.with_agent("active", rescue_interface="agent", power_state="power on")
    harness.agent.answers["rescue.finalize_rescue"] = {}
    assert "rescue wait" == harness.do(node, "rescue", rescue_password="open sesame")
    hashed = harness.inside.read(node).instance_info["hashed_rescue_password"]
    assert hashed.startswith("$5$")
    assert "open sesame" not in str(harness.last(node).arguments)
    assert "rescue" == _rescued(harness, node)
    assert {} == harness.inside.read(node).instance_info
    assert hashed == harness.agent.received[-1][1]["rescue_password"]
    assert "active" == harness.do(node, "unrescue")


def _rescued(harness, node):
    """Let the agent set the password at once."""
    post = harness.agent.post
    harness.agent.post = lambda name, params, *, wait: post(name, params, wait=True)
    try:
        return harness.call(node)
    finally:
        harness.agent.post = post


@pytest.mark.parametrize("verb", ["abort", "deleted"])
def test_a_waiting_rescue_is_ended(harness, verb):
    node = harness.with_agent("active", rescue_interface="agent", automated_clean=False)
    harness.do(node, "rescue", rescue_password="open sesame")
    ends = {"abort": "rescue failed", "deleted": "available"}
    assert ends[verb] == harness.do(node, verb)
    assert {} == harness.inside.read(node).instance_info
    assert "clean_up_ramdisk" in Acme.did


def test_a_rescue_without_its_requirements_is_refused(harness):
    node = harness.node("active", rescue_interface="no-rescue")
    with pytest.raises(Invalid, match="does not support rescue"):
        harness.do(node, "rescue", rescue_password="x")


def test_an_adopted_node_is_active_without_any_command(harness):
    node = harness.with_agent("manageable", power_state="power on", maintenance=True)
    assert "active" == harness.do(node, "adopt")
    assert [] == Acme.did


@pytest.mark.parametrize(
    ("flow", "state", "verb", "arguments", "ends"),
    [
        ("verify", "enroll", "manage", {}, "manageable"),
        ("clean", "manageable", "provide", {}, "available"),
        ("deploy", "available", "active", {}, "active"),
        ("service", "active", "service", {"service_steps": [requested("management", "shred")]}, "active"),
    ],
)  # fmt: skip
def test_steps_from_a_drivers_list_method_are_listed_planned_and_run(
    harness, monkeypatch, flow, state, verb, arguments, ends
):
    def listing(management, target):
        usual = getattr(super(AcmeManagement, management), f"get_{flow}_steps")(target)
        return [*usual, {"step": "shred", "priority": 33, "requires_ramdisk": False}]

    def execute(management, target, step):
        return Acme.does(target, f"{step['step']} by {flow}")

    monkeypatch.setattr(AcmeManagement, f"get_{flow}_steps", listing, raising=False)
    monkeypatch.setattr(AcmeManagement, f"execute_{flow}_step", execute, raising=False)
    node = harness.node(state)
    with harness.inside.runtime.reading() as session:
        listed = available_steps.steps_of(session, session.get_one(Node, node), Flow(flow), 1)
        assert ("shred", 33) in [(each.step.name, each.priority) for each in listed]
    assert ends == harness.do(node, verb, **arguments)
    assert f"shred by {flow}" in Acme.did


def test_a_list_of_steps_may_declare_arguments_as_the_spec_of_manual_cleaning_does(
    harness, monkeypatch
):
    level = {"name": "level", "description": "how deep", "required": True}
    listed = {"interface": "management", "step": "scrub", "priority": 0, "abortable": True}

    def listing(_management, _target):
        return [{**listed, "args": [level]}]

    monkeypatch.setattr(AcmeManagement, "get_clean_steps", listing, raising=False)
    node = harness.node()
    with harness.inside.runtime.reading() as session:
        steps = available_steps.steps_of(session, session.get_one(Node, node), Flow.CLEAN, None)
        (scrub,) = [each.step for each in steps if each.step.name == "scrub"]
    assert [("level", "how deep", True)] == [
        (each.name, each.description, each.required) for each in scrub.args
    ]


def test_a_driver_with_an_invalid_list_of_steps_is_named_in_the_refusal(harness, monkeypatch):
    monkeypatch.setattr(AcmeManagement, "get_clean_steps", lambda *_: [{"step": 1}], raising=False)
    with pytest.raises(Invalid, match="management interface 'acme': get_clean_steps: KeyError"):
        harness.do(harness.node(), "provide")


def test_an_invalid_list_of_steps_after_the_agents_start_fails_the_operation(harness, monkeypatch):
    node = harness.with_agent()
    assert "clean wait" == harness.do(node, "provide")
    monkeypatch.setattr(AcmeManagement, "get_clean_steps", lambda *_: [{"step": 1}], raising=False)
    assert "clean failed" == harness.call(node)
    assert "get_clean_steps: KeyError: 'priority'" in harness.inside.read(node).last_error


def test_a_step_fails_by_the_error_of_the_specs_or_by_an_invalid_outcome(harness, monkeypatch):
    def jammed(*_):
        raise CleanStepFailed("the shredder is full")

    for polish, message, code in (
        (jammed, "the shredder is full", "step_failed"),
        (lambda *_: "clean wait", "not an outcome", "defect"),
    ):
        monkeypatch.setattr(AcmeManagement, "polish", polish)
        node = harness.node()
        assert "clean failed" == harness.do(node, "clean", clean_steps=[POLISH])
        assert message in harness.inside.read(node).last_error
        assert code == harness.last(node).error["code"]


def test_equal_priorities_by_settings_are_found_at_start(inside):
    tie = "bios.factory_reset:5,bios.cache_bios_settings:5"
    inside.environ["INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE"] = tie
    view = inside.another()
    assert "[conductor]clean_step_priority_override" in view.runtime.drivers.refused["redfish"]
    assert "ipmi" in view.runtime.drivers.types
    view.close()


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


def test_a_runbook_cleans(harness):
    node = harness.node()
    steps = [{**SCRUB, "order": 2}, {**POLISH, "order": 1}]
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=steps, traits=[]))
    with pytest.raises(Invalid, match="none of them"):
        harness.do(node, "clean", runbook="CUSTOM_R")
    with harness.inside.runtime.transaction() as session:
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "manageable" == harness.do(node, "clean", runbook="CUSTOM_R")
    assert ["polish", "scrub deep"] == Acme.did
    assert {"runbook"} == {row.source for row in harness.steps(node)}


def test_a_runbook_has_steps_of_child_nodes(harness):
    node = harness.node()
    harness.node(name="child", parent_node=harness.inside.read(node).uuid)
    step = {**requested("power", "power_on", execute_on_child_nodes=True), "order": 1}
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[step], traits=[]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "manageable" == harness.do(node, "clean", runbook="CUSTOM_R")
    assert [("child", "power on")] == Acme.did


def test_a_runbook_that_disables_the_ramdisk_has_no_step_that_needs_it(harness):
    node = harness.node()
    steps = [{**requested("vendor", "log_passthrough"), "order": 1}]
    with harness.inside.runtime.transaction() as session:
        session.add(
            Runbook(uuid="r" * 36, name="CUSTOM_R", steps=steps, traits=[], disable_ramdisk=True)
        )
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "clean failed" == harness.do(node, "clean", runbook="CUSTOM_R")
    assert "needs the ramdisk" in harness.inside.read(node).last_error


@pytest.mark.parametrize("state", ["active", "rescue"])
def test_a_runbook_cleans_a_deleted_node_after_the_cleanup_of_its_rescue(inside, state):
    inside.environ |= {
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE": "runbook",
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK": "CUSTOM_R",
    }
    harness = Harness(inside.another())
    node = harness.with_agent(state)
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    harness.ask(node, "deleted")
    labels = [label for label, _ in harness.labels(node)]
    assert (state == "rescue") == ("network.remove_rescuing_network" in labels)
    assert "management.polish" == labels[-1]
    harness.inside.close()


def test_a_deletion_of_a_rescued_node_without_a_runbook_cleans_up_its_rescue(inside):
    inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE"] = "hybrid"
    harness = Harness(inside.another())
    node = harness.with_agent("rescue")
    harness.ask(node, "deleted")
    assert "network.remove_rescuing_network" in [label for label, _ in harness.labels(node)]
    harness.inside.close()


def test_a_setting_enables_automated_cleaning_by_a_runbook(inside):
    inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE"] = "runbook"
    inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK_BY_RESOURCE_CLASS"] = "gold:CUSTOM_R"
    harness = Harness(inside.another())
    node, other = harness.node(resource_class="gold"), harness.node()
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "available" == harness.do(node, "provide")
    assert ["polish"] == Acme.did
    with pytest.raises(Invalid, match="automated_cleaning_runbook"):
        harness.do(other, "provide")
    harness.inside.close()


@pytest.mark.parametrize(
    ("source", "info", "usual", "polishes"),
    [
        ("runbook", {"cleaning_runbook": "CUSTOM_R"}, "", True),
        ("runbook", {}, "CUSTOM_R", True),
        ("hybrid", {"cleaning_runbook": "CUSTOM_R"}, "CUSTOM_GONE", True),
        ("hybrid", {}, "", False),
    ],
)
def test_a_node_may_name_the_runbook_of_its_cleaning(inside, source, info, usual, polishes):
    inside.environ |= {
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE": source,
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK_FROM_NODE": "true",
        **({"INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK": usual} if usual else {}),
    }
    harness = Harness(inside.another())
    node = harness.node(driver_info=info)
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_R"))
    assert "available" == harness.do(node, "provide")
    assert polishes == ("polish" in Acme.did)
    harness.inside.close()


@pytest.mark.parametrize(
    ("runbook", "complaint"),
    [
        ("CUSTOM_GONE", "CUSTOM_GONE could not be found"),
        ("CUSTOM_R", "none of them"),
        ("CUSTOM_WRONG", "no clean step of that name"),
        ("", "names none for it"),
        ("the driver's", "get_clean_steps: KeyError"),
    ],
)
def test_a_clean_that_cannot_be_planned_fails_after_the_tear_down(
    inside, monkeypatch, runbook, complaint
):
    if runbook == "the driver's":
        lists = lambda *_: [{"step": "shred"}]  # noqa: E731
        monkeypatch.setattr(AcmeManagement, "get_clean_steps", lists, raising=False)
    else:
        inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE"] = "runbook"
        inside.environ["INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK_BY_RESOURCE_CLASS"] = (
            f"gold:{runbook}" if runbook else ""
        )
    harness = Harness(inside.another())
    node = harness.node("active", resource_class="gold", instance_uuid=str(uuid4()))
    wrong = requested("management", "nonsense", order=1)
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
        session.add(Runbook(uuid="w" * 36, name="CUSTOM_WRONG", steps=[wrong]))
        session.add(NodeTrait(node_id=node, trait="CUSTOM_WRONG"))
    assert "clean failed" == harness.do(node, "deleted")
    row = harness.inside.read(node)
    assert complaint in row.last_error
    assert (None, True, "clean failure") == (row.instance_uuid, row.maintenance, row.fault)
    assert "invalid_steps" == harness.last(node).error["code"]
    with pytest.raises((Invalid, NotFound), match=complaint):
        harness.do(node, "provide")
    harness.inside.close()


@pytest.mark.parametrize("validates", ["true", "false"])
def test_a_setting_allows_automated_cleaning_by_a_runbook_without_a_common_trait(inside, validates):
    inside.environ |= {
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_STEP_SOURCE": "runbook",
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK": "CUSTOM_R",
        "INGOT_CONDUCTOR_AUTOMATED_CLEANING_RUNBOOK_VALIDATE_TRAITS": validates,
    }
    harness = Harness(inside.another())
    node = harness.node()
    with harness.inside.runtime.transaction() as session:
        session.add(Runbook(uuid="r" * 36, name="CUSTOM_R", steps=[{**POLISH, "order": 1}]))
    if validates == "true":
        with pytest.raises(Invalid, match="none of them"):
            harness.do(node, "provide")
    else:
        assert "available" == harness.do(node, "provide")
    assert ([] if validates == "true" else ["polish"]) == Acme.did
    harness.inside.change(Node, node, provision_state="manageable")
    with pytest.raises(Invalid, match="none of them"):
        harness.do(node, "clean", runbook="CUSTOM_R")
    harness.inside.close()


def test_power_sync_and_recovery_skip_a_retired_node(harness):
    plain, retired = harness.node(), harness.node(retired=True)
    broken = {"maintenance": True, "fault": "power failure"}
    away, gone = harness.node(**broken), harness.node(retired=True, **broken)
    pages = [
        {each.id for page in power_sync._pages(harness.inside.runtime, "c-1", recovering=kind)
         for each in page}
        for kind in (False, True)
    ]  # fmt: skip
    assert [{plain}, {away}] == pages
    assert {retired, gone}.isdisjoint(set.union(*pages))


# History


def test_transient_states_are_in_the_history(harness):
    node = harness.node("enroll")
    life = ["manage", "inspect", "provide", "active", "rescue", "unrescue", "deleted"]
    for verb in life:
        harness.do(node, verb, **({"rescue_password": "x"} if verb == "rescue" else {}))
    assert "available" == harness.state(node)
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node, event_type="transition")
        events = [each.event for each in entries.order_by(NodeHistory.id)]
    passed = [
        "verified", "inspected", "cleaned", "deployed", "rescued", "unrescued", "deleted",
        "cleaned",
    ]  # fmt: skip
    assert [f"The node was {each}." for each in passed] == events


def test_the_end_of_a_service_is_in_the_history(harness):
    node = harness.node("active")
    assert "active" == harness.do(node, "service", service_steps=[POLISH])
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node).order_by(NodeHistory.id).all()
    assert [
        ("servicing_start", "Servicing begins; steps: management.polish."),
        ("servicing_end", "Servicing is done; steps: management.polish."),
    ] == [(each.event_type, each.event) for each in entries]


def test_the_start_and_end_of_flows_with_steps_are_in_the_history(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[POLISH])
    harness.do(
        node, "clean", clean_steps=[requested("management", "scrub", args={"level": "wrong"})]
    )
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node).order_by(NodeHistory.id).all()
    events = [(each.event_type, each.severity) for each in entries]

    assert [
        ("manual_cleaning_start", "INFO"),
        ("transition", "INFO"),
        ("manual_cleaning_end", "INFO"),
        ("manual_cleaning_start", "INFO"),
        ("manual_cleaning_end", "ERROR"),
        ("cleaning", "ERROR"),
    ] == events
    assert ("cleaning", "manageable") == (entries[0].state, entries[0].target_provision_state)
    assert 0 <= entries[2].duration_seconds < 60
    assert "management.polish" in entries[0].event


def test_the_history_says_that_the_agents_steps_are_not_known_yet(harness):
    harness.offer("clean", ("deploy", "erase_devices", 10))
    node = harness.with_agent()
    assert "clean wait" == harness.do(node, "provide")
    harness.call(node)
    assert "available" == harness.finish(node)
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node)
        logged = {each.event_type: each.event for each in entries}
    begun, ended = logged["automated_cleaning_start"], logged["automated_cleaning_end"]
    assert begun.endswith("log_passthrough. The agent has not reported its steps yet.")
    assert ended.endswith("is done; steps: deploy.erase_devices, vendor.log_passthrough.")


def test_old_history_entries_are_pruned_except_those_of_the_last_days(inside):
    inside.environ |= {
        "INGOT_CONDUCTOR_NODE_HISTORY_MAX_ENTRIES": "2",
        "INGOT_CONDUCTOR_NODE_HISTORY_CLEANUP_BATCH_COUNT": "1",
        "INGOT_CONDUCTOR_NODE_HISTORY_MINIMUM_DAYS": "3",
    }
    view = inside.another()
    node = view.node()
    with view.runtime.transaction() as session:
        for day in (5, 4, 2, 1, 0):
            entry = {"event_type": "x", "event": str(day), "created_at": after(-86400 * day - 60)}
            session.add(NodeHistory(uuid=str(uuid4()), node_id=node, severity="INFO", **entry))
    assert 2 == pruning.prune_history(view.runtime)
    assert 0 == pruning.prune_history(view.runtime)
    with view.runtime.reading() as session:
        kept = session.query(NodeHistory).filter_by(node_id=node).order_by(NodeHistory.id)
        assert ["2", "1", "0"] == [each.event for each in kept]
    view.close()


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


def test_a_node_in_clean_failed_accepts_power_requests(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "nonsense")])
    with harness.inside.runtime.transaction() as session:
        power.request(session, operations.lock(session, node), "power on", None, Caller())
    harness.run()
    row = harness.inside.read(node)
    assert ("power on", "clean failed") == (row.power_state, row.provision_state)


# Timeouts


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
    reconciler.reconcile(harness.inside.runtime, reconciler.Contact(timeout=0))
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
        held = session.get_one(Node, node)
        assert 1800 == timeouts.callback_timeout(session, held)


def test_rows_of_conductors_that_died_long_ago_are_deleted(inside):
    inside.environ["INGOT_CONDUCTOR_CONDUCTOR_CLEANUP_TIMEOUT"] = "3600"
    view = inside.another()
    for name, silent in (("c-1", 0), ("c-2", 3500), ("c-3", 3700), ("c-4", 86400)):
        view.conductor(name, heartbeat_at=after(-silent))
    assert 2 == pruning.forget_conductors(view.runtime)
    assert 0 == pruning.forget_conductors(view.runtime)
    with view.runtime.reading() as session:
        assert {"c-1", "c-2"} == set(session.scalars(select(Conductor.hostname)))
    view.close()


@pytest.mark.parametrize(("enabled", "health"), [("true", "OK"), ("false", "Critical")])
def test_a_power_sweep_records_the_health_of_machines(inside, enabled, health):
    inside.environ["INGOT_CONDUCTOR_ENABLE_HEALTH_MONITORING"] = enabled
    view = inside.another()
    view.conductor("c-1")
    with running(machines=1) as fleet:
        machine = fleet.machines[0]
        node = view.node("manageable", driver_info=machine.driver_info(), health="Critical")
        view.change(Node, node, driver="redfish", power_state="power off")
        for _ in range(2):
            power_sync.sync(view.runtime, "c-1")
    events = ["Health is OK; it was Critical."] if enabled == "true" else []
    with view.runtime.reading() as session:
        row = session.get_one(Node, node)
        assert (health, "power off") == (row.health, row.power_state)
        assert events == list(session.scalars(select(NodeHistory.event).filter_by(node_id=node)))
    view.close()
