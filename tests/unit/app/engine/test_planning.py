"""Plans: which steps an operation has, and in which order."""

import pytest

from app.config import settings
from app.engine import planning
from app.hardware import targets
from app.models import AgentRecord, Node
from app.runtime import Runtime
from app.states import Event
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
        """A tie with management's step, in cleaning and in verifying."""

    @step(clean=10.5)
    def calibrate(self, target):
        """A fraction goes before what it is more than."""


class AcmeManagement(FakeManagement):
    name = "acme"

    @step(clean=10, verify=5)
    def reset_bmc(self, target):
        """A tie with power's step."""

    @step(clean=0, deploy=0)
    def blink(self, target):
        """Only when somebody asks for it."""

    @step(clean=40)
    def clear_log(self, target):
        """The first of all."""


class AcmeDeploy(FakeDeploy):
    """Frames on all sides, so that their places can be seen."""

    name = "acme"
    frames = {
        "clean": Frame(
            before=(("boot", "prepare_ramdisk"), ("deploy", "prepare_cleaning")),
            collect=("deploy", "prepare_cleaning"),
            after=(("power", "power_off"),),
            on_failure=(("boot", "clean_up_ramdisk"), ("power", "power_off")),
        ),
        "delete": Frame(before=(("power", "power_off"), ("deploy", "tear_down"))),
    }

    @step(clean=10)
    def wipe(self, target):
        """The third of the tie."""


class Acme(HardwareType):
    name = "acme"
    interfaces = {
        **FakeHardware.interfaces,
        "power": (AcmePower,),
        "management": (AcmeManagement,),
        "deploy": (AcmeDeploy,),
    }


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
    given = {name: {} for name in ("driver_info", "instance_info", "properties", "extra")}
    return Node(
        uuid="n", driver=driver, driver_internal_info={}, disable_power_off=False, **given | fields
    )


def plan(flow, ours=None, **fields):
    ours = ours or runtime()
    planned = node(**fields)
    return flow(ours, planned, targets.build(ours, planned))


def labels(rows):
    return [row.label for row in rows]


def test_a_clean_runs_by_decreasing_priority_between_its_frames_and_ties_by_interface():
    rows = plan(planning.clean)
    assert CLEAN_BEFORE + CLEAN_STEPS + CLEAN_AFTER == labels(rows)
    frames = {row.label for row in rows if row.source == "frame"}
    assert {*CLEAN_BEFORE, *CLEAN_AFTER} == frames
    assert [40, 10.5, 10, 10, 10, 1] == [row.priority for row in rows if row.flow == "clean"]
    assert ["deploy.prepare_cleaning"] == labels(row for row in rows if row.collects)


def test_verifying_reads_the_power_state_first_and_has_an_order_of_its_own():
    assert ["power.read", "power.check_supply", "management.reset_bmc"] == labels(
        plan(planning.verify)
    )


def test_a_machine_is_powered_off_after_manage_only_where_a_setting_says_so():
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
def test_a_node_says_whether_it_is_cleaned_and_settings_where_it_does_not(
    of_node, of_settings, cleans
):
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


def test_what_tidies_up_after_a_failure_is_marked_as_such():
    ours, planned = runtime(), node()
    target = targets.build(ours, planned)
    rows = planning.cleanup(target, "clean")
    assert ["boot.clean_up_ramdisk", "power.power_off"] == labels(rows)
    assert {"tidy"} == {row.source for row in rows}
    assert [] == planning.cleanup(target, "rescue")


def agent_step(interface, name, priority, **more):
    return {"interface": interface, "step": name, "priority": priority, **more}


REPORTED = [
    agent_step("deploy", "erase_devices_metadata", 99, abortable=True, reboot_requested=True),
    agent_step("deploy", "burnin_cpu", 0),
    agent_step("deploy", "wipe", 77),  # the driver has one of that name
    agent_step("raid", "delete_configuration", 98),  # the agent is not this node's RAID
    agent_step("deploy", "erase_devices", 10),
]


def replanned(ours):
    """What is left of a clean when its agent has just reported, and what is planned then."""
    planned = node()
    agent = AgentRecord(
        url="https://agent", token="t", steps={"clean": REPORTED}, hardware_manager_version={}
    )
    target = targets.build(ours, planned, (), agent)
    rest = planning.clean(ours, planned, target)[2:]
    return rest, planning.with_agent_steps(ours, target, Flow.CLEAN, rest)


def test_the_agents_steps_join_those_of_the_flow_and_the_frame_stays_behind_them():
    rest, rows = replanned(runtime())
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
    assert not set(map(id, rest)) & set(map(id, rows)), "the old rows are deleted, not moved"


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


def test_asking_the_agent_again_does_not_double_its_steps():
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
    ("own", "into_agent"),
    [(45, {90: True, 50: True, 30: False}), (0, {90: True, 50: False, 30: False})],
)
def test_a_reboot_in_a_deployment_boots_the_agent_if_a_later_step_is_the_agents(own, into_agent):
    ours, planned = runtime(), node(deploy_interface="direct", driver="fake-hardware")
    listed = {"deploy": [agent_step("deploy", "tune", own)]}
    agent = AgentRecord(url="https://agent", token="t", steps=listed, hardware_manager_version={})
    asked = [reserved_step("reboot", priority) for priority in (150, *into_agent)]
    target = targets.build(ours, planned, (), agent)
    rows = planning.deploy(ours, planned, target, planning.Request(asked))
    at = next(number for number, row in enumerate(rows) if row.collects)
    begun, rest = rows[: at + 1], rows[at + 1 :]
    assert [False] == [row.requires_ramdisk for row in begun if row.name == "reboot"]
    rows = planning.with_agent_steps(ours, target, Flow.DEPLOY, rest, asked, begun)
    assert into_agent == {
        row.priority: row.requires_ramdisk for row in rows if row.name == "reboot"
    }


def test_a_reboot_in_a_deployment_without_an_agent_boots_none():
    ours, planned = runtime(), node(deploy_interface="ramdisk", driver="fake-hardware")
    asked = planning.Request([reserved_step("reboot", 90)])
    rows = planning.deploy(ours, planned, targets.build(ours, planned), asked)
    assert [False] == [row.requires_ramdisk for row in rows if row.name == "reboot"]
