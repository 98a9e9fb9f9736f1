"""Plans: the steps of an operation, and their order."""

from functools import partial

import pytest

from app.config import settings
from app.hardware import targets
from app.lifecycle import flows
from app.lifecycle.provision_states import Event, State
from app.models import AgentRecord, Node
from app.planning import planning, requested_steps
from app.runtime import Runtime
from drivers.builtin import HARDWARE_TYPES, FakeHardware
from drivers.core.driver import HardwareType
from drivers.core.interface import Frame
from drivers.core.registry import load
from drivers.core.steps import Flow, step
from drivers.fake.hardware import FakeDeploy, FakeManagement, FakePower


class AcmePower(FakePower):
    name = "acme"

    @step(clean=10, verify=5)
    def check_supply(self, target):
        """Has the priority of management's step, in cleaning and in verification."""

    @step(clean=10.5)
    def calibrate(self, target):
        """Has a fractional priority: it runs before the next lower whole number."""


class AcmeManagement(FakeManagement):
    name = "acme"

    @step(clean=10, verify=5)
    def reset_bmc(self, target):
        """Has the priority of power's step."""

    @step(clean=0, deploy=0)
    def blink(self, target):
        """Runs only on request."""

    @step(clean=40)
    def clear_log(self, target):
        """Has the highest priority."""


class AcmeDeploy(FakeDeploy):
    """Declares frame steps for every flow, so that their positions are visible."""

    name = "acme"
    frames = {
        "clean": Frame(
            before=(("boot", "prepare_ramdisk"), ("deploy", "prepare_cleaning")),
            collect=("deploy", "prepare_cleaning"),
            after=(("power", "power_off"),),
            on_failure=(("boot", "clean_up_ramdisk"), ("power", "power_off")),
        ),
        "delete": Frame(before=(("power", "power_off"), ("deploy", "tear_down"))),
        "rescue": Frame(
            before=(("boot", "prepare_ramdisk"), ("rescue", "rescue")),
            on_failure=(("boot", "clean_up_ramdisk"),),
            on_abort=(("power", "power_off"), ("boot", "clean_up_ramdisk")),
        ),
    }

    @step(clean=10)
    def wipe(self, target):
        """Has the priority of the steps of power and management."""


class Acme(HardwareType):
    name = "acme"
    interfaces = {
        **FakeHardware.interfaces,
        "power": (AcmePower,),
        "management": (AcmeManagement,),
        "deploy": (AcmeDeploy,),
    }


RESCUED = {"rescue", "rescue wait", "rescue failed", "unrescue failed"}
CLEAN_BEFORE = ["boot.prepare_ramdisk", "deploy.prepare_cleaning"]
CLEAN_STEPS = [
    "management.clear_log",
    "power.calibrate",
    "power.check_supply",
    "management.reset_bmc",
    "deploy.wipe",
    "vendor.log_passthrough",
]
CLEAN_AFTER = ["power.power_off"]


def runtime(**environ):
    read = settings.load({f"INGOT_{name}": value for name, value in environ.items()})
    return Runtime(read, None, load([*HARDWARE_TYPES, Acme]), lambda message: True)


def node(driver="acme", **fields):
    documents = {name: {} for name in ("driver_info", "instance_info", "properties", "extra")}
    return Node(
        uuid="n",
        driver=driver,
        driver_internal_info={},
        disable_power_off=False,
        **documents | fields,
    )


def plan(flow, ours=None, **fields):
    ours = ours or runtime()
    planned = node(**fields)
    return flow(ours, planned, targets.build(ours, planned))


def labels(rows):
    return [row.label for row in rows]


def test_a_clean_runs_by_decreasing_priority_between_its_frames_and_equal_ones_by_interface():
    rows = plan(planning.clean)
    assert CLEAN_BEFORE + CLEAN_STEPS + CLEAN_AFTER == labels(rows)
    frames = {row.label for row in rows if row.source == "frame"}
    assert {*CLEAN_BEFORE, *CLEAN_AFTER} == frames
    assert [40, 10.5, 10, 10, 10, 1] == [row.priority for row in rows if row.flow == "clean"]
    assert ["deploy.prepare_cleaning"] == labels(row for row in rows if row.collects)


def test_verification_reads_the_power_state_first_and_has_its_own_order():
    assert ["power.read", "power.check_supply", "management.reset_bmc"] == labels(
        plan(planning.verify)
    )


def test_steps_of_a_verification_are_tried_once_despite_settings_of_retries():
    ours = runtime(CONDUCTOR_STEP_ATTEMPTS="5")
    assert [1, 1, 1] == [row.tries for row in plan(planning.verify, ours)]


def test_a_machine_is_powered_off_after_manage_only_if_a_setting_requires_it():
    assert "power.power_off" not in labels(plan(planning.verify))
    ours = runtime(CONDUCTOR_POWER_OFF_AFTER_MANAGE="true")
    assert "power.power_off" == labels(plan(planning.verify, ours))[-1]


def test_a_deploy_has_no_step_of_priority_0():
    assert ["deploy.prepare", "deploy.deploy"] == labels(
        plan(planning.deploy, driver="fake-hardware")
    )


def test_an_override_moves_a_step_and_0_leaves_it_out():
    ours = runtime(
        CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE="vendor.log_passthrough:99,deploy.wipe:0",
        CONDUCTOR_VERIFY_STEP_PRIORITY_OVERRIDE="power.check_supply:0",
    )
    steps = [row.label for row in plan(planning.clean, ours) if row.flow]
    assert ["vendor.log_passthrough", *CLEAN_STEPS[:4]] == steps
    assert ["power.read", "management.reset_bmc"] == labels(plan(planning.verify, ours))


def test_an_override_enables_a_step_that_is_off_by_default():
    ours = runtime(CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE="management.blink:50")
    assert "management.blink" == labels(plan(planning.clean, ours))[2]


@pytest.mark.parametrize(
    ("of_node", "of_settings", "cleans"),
    [(None, "true", True), (None, "false", False), (True, "false", True), (False, "true", False)],
)
def test_a_nodes_automated_clean_overrides_the_setting(of_node, of_settings, cleans):
    ours = runtime(CONDUCTOR_AUTOMATED_CLEAN=of_settings)
    assert cleans == bool(plan(planning.clean, ours, automated_clean=of_node))


def test_a_delete_tears_down_and_then_cleans():
    rows = plan(planning.delete)
    down = ["power.power_off", "deploy.tear_down"]
    assert down + CLEAN_BEFORE + CLEAN_STEPS + CLEAN_AFTER == labels(rows)
    assert [("deploy.tear_down", Event.CLEAN)] == [
        (row.label, row.event) for row in rows if row.event
    ]


def test_a_delete_without_cleaning_still_passes_through_it():
    rows = plan(planning.delete, automated_clean=False)
    assert [("power.power_off", None), ("deploy.tear_down", Event.CLEAN)] == [
        (row.label, row.event) for row in rows
    ]


def test_cleanup_steps_are_marked():
    ours, planned = runtime(), node()
    target = targets.build(ours, planned)
    rows = planning.cleanup(target, "clean")
    assert ["boot.clean_up_ramdisk", "power.power_off"] == labels(rows)
    assert [("tidy", {})] * 2 == [(row.source, row.args) for row in rows]
    assert [] == planning.cleanup(target, "unrescue")
    off = planning.cleanup(target, "rescue", power_off=True)
    assert ["boot.clean_up_ramdisk", "power.power_off"] == labels(off)


def test_an_abort_has_the_cleanup_of_a_failure_unless_the_frame_has_another():
    ours, planned = runtime(), node()
    target = targets.build(ours, planned)
    assert ["boot.clean_up_ramdisk", "power.power_off"] == labels(
        planning.abort_cleanup(target, "clean")
    )
    rows = planning.abort_cleanup(target, "rescue")
    assert ["power.power_off", "boot.clean_up_ramdisk"] == labels(rows)
    assert {"tidy"} == {row.source for row in rows}


@pytest.mark.parametrize("state", State)
def test_a_delete_first_cleans_up_a_rescue_that_the_node_is_in(state):
    request = requested_steps.Request(state=state)
    ours, planned = runtime(), node(automated_clean=False)
    rows = planning.delete(ours, planned, targets.build(ours, planned), request)
    cleanup = ["boot.clean_up_ramdisk"] if state in RESCUED else []
    assert [*cleanup, "power.power_off", "deploy.tear_down"] == labels(rows)


def test_a_flow_without_steps_of_its_own_is_its_frame():
    rows = plan(partial(planning.frame_only, flows.RESCUE))
    assert ["boot.prepare_ramdisk", "rescue.rescue"] == labels(rows)


def test_a_change_of_power_and_a_call_are_one_step_with_its_arguments():
    (changed,) = planning.power("power off", 30)
    assert ("power.change", {"state": "power off", "timeout": 30}) == (changed.label, changed.args)
    (called,) = planning.method_call("boot", "set_device", {"device": "pxe"})
    assert ("boot.set_device", {"device": "pxe"}) == (called.label, called.args)
    rows = (changed, called)
    assert [("frame", 0, False, 1)] * 2 == [
        (row.source, row.priority, row.collects, row.tries) for row in rows
    ]


def agent_step(interface, name, priority, **fields):
    return {"interface": interface, "step": name, "priority": priority, **fields}


REPORTED = [
    agent_step("deploy", "erase_devices_metadata", 99, abortable=True, reboot_requested=True),
    agent_step("deploy", "burnin_cpu", 0),
    agent_step("deploy", "wipe", 77),  # the driver has a step of that name
    agent_step("raid", "delete_configuration", 98),  # the node's RAID interface is not the agent's
    agent_step("deploy", "erase_devices", 10),
]


def replanned(ours):
    """Remaining steps of a clean after the agent's first heartbeat, and the new plan."""
    planned = node()
    agent = AgentRecord(
        url="https://agent", token="t", steps={"clean": REPORTED}, hardware_manager_version={}
    )
    target = targets.build(ours, planned, (), agent)
    old_rows = planning.clean(ours, planned, target)[2:]
    return old_rows, planning.with_agent_steps(ours, target, Flow.CLEAN, old_rows)


def test_the_agents_steps_are_merged_into_the_flow_before_the_closing_frame():
    old_rows, rows = replanned(runtime())
    assert [
        "deploy.erase_devices_metadata",
        *CLEAN_STEPS[:5],
        "deploy.erase_devices",
        "vendor.log_passthrough",
        *CLEAN_AFTER,
    ] == labels(rows)
    theirs = [row for row in rows if row.source == "agent"]
    assert all(row.in_band for row in theirs)
    assert [(True, True), (False, False)] == [
        (row.abortable, row.reboot_requested) for row in theirs
    ]
    assert not set(map(id, old_rows)) & set(map(id, rows)), "the old rows are deleted, not moved"


def test_settings_give_the_agents_steps_other_priorities():
    ours = runtime(
        DEPLOY_ERASE_DEVICES_PRIORITY="0",
        CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE="deploy.erase_devices_metadata:5",
    )
    _, rows = replanned(ours)
    assert [("deploy.erase_devices_metadata", 5)] == [
        (row.label, row.priority) for row in rows if row.source == "agent"
    ]
    assert labels(rows).index("deploy.erase_devices_metadata") == len(CLEAN_STEPS) - 1


def test_a_repeated_list_of_the_agents_steps_duplicates_none():
    ours = runtime()
    _, rows = replanned(ours)
    agent = AgentRecord(steps={"clean": REPORTED}, hardware_manager_version={})
    target = targets.build(ours, node(), (), agent)
    assert labels(rows) == labels(planning.with_agent_steps(ours, target, Flow.CLEAN, rows))


def reserved_step(name, priority):
    return {
        "interface": "power",
        "step": name,
        "priority": priority,
        "args": {},
        "source": "caller",
    }


@pytest.mark.parametrize(
    ("agent_priority", "into_agent"),
    [(45, {90: True, 50: True, 30: False}), (0, {90: True, 50: False, 30: False})],
)
def test_a_reboot_in_a_deployment_boots_the_agent_if_a_later_step_is_the_agents(
    agent_priority, into_agent
):
    ours, planned = runtime(), node(deploy_interface="direct", driver="fake-hardware")
    listed = {"deploy": [agent_step("deploy", "tune", agent_priority)]}
    agent = AgentRecord(url="https://agent", token="t", steps=listed, hardware_manager_version={})
    steps = [reserved_step("reboot", priority) for priority in (150, *into_agent)]
    target = targets.build(ours, planned, (), agent)
    rows = planning.deploy(ours, planned, target, requested_steps.Request(steps))
    at = next(number for number, row in enumerate(rows) if row.collects)
    begun, later_rows = rows[: at + 1], rows[at + 1 :]
    assert [False] == [row.requires_ramdisk for row in begun if row.name == "reboot"]
    assert {90: True, 50: False, 30: False} == {
        row.priority: row.requires_ramdisk for row in later_rows if row.name == "reboot"
    }, "as long as no step of the agent is known"
    rows = planning.with_agent_steps(ours, target, Flow.DEPLOY, later_rows, steps, begun)
    assert into_agent == {
        row.priority: row.requires_ramdisk for row in rows if row.name == "reboot"
    }


@pytest.mark.parametrize(
    ("interface", "into_agent"), [("power", True), ("deploy", True), ("bios", False)]
)
def test_a_reboot_at_the_priority_of_the_instances_boot_boots_the_agent_if_it_comes_before(
    interface, into_agent
):
    ours, planned = runtime(), node(deploy_interface="direct", driver="fake-hardware")
    steps = [{**reserved_step("reboot", 60), "interface": interface}]
    agent = AgentRecord(url="https://agent", token="t", steps={}, hardware_manager_version={})
    target = targets.build(ours, planned, (), agent)
    rows = planning.with_agent_steps(ours, target, Flow.DEPLOY, [], steps)
    reboot, prepare = (
        labels(rows).index(label)
        for label in (f"{interface}.reboot", "deploy.prepare_instance_boot")
    )
    assert into_agent == rows[reboot].requires_ramdisk == (reboot < prepare)


def test_a_reboot_in_a_deployment_without_an_agent_boots_none():
    ours, planned = runtime(), node(deploy_interface="ramdisk", driver="fake-hardware")
    request = requested_steps.Request([reserved_step("reboot", 90)])
    rows = planning.deploy(ours, planned, targets.build(ours, planned), request)
    assert [False] == [row.requires_ramdisk for row in rows if row.name == "reboot"]


def test_an_unknown_step_of_a_deployment_counts_as_one_of_the_agent():
    ours, planned = runtime(), node(deploy_interface="direct", driver="fake-hardware")
    steps = [{**reserved_step("tune", 1), "interface": "deploy"}]
    rows = planning.deploy(
        ours, planned, targets.build(ours, planned), requested_steps.Request(steps)
    )
    assert [(1, True, True)] == [
        (row.priority, row.in_band, row.requires_ramdisk) for row in rows if row.name == "tune"
    ]


def test_a_reboot_in_a_clean_with_the_agent_boots_the_agent():
    ours, planned = runtime(), node()
    agent = AgentRecord(url="https://agent", token="t", steps={}, hardware_manager_version={})
    target = targets.build(ours, planned, (), agent)
    steps = [reserved_step("reboot", 0)]
    rows = planning.with_agent_steps(ours, target, Flow.CLEAN, [], steps)
    assert [("power.reboot", True)] == [(row.label, row.requires_ramdisk) for row in rows]
