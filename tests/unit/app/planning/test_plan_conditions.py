"""
Plans are refused for an unmet need of a step, and for a wrong end.

`World` is a machine that carries plans out, as an independent oracle: an accepted plan must end
with the tenant's instance on the tenant's network.
"""

from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.hardware import targets
from app.lifecycle import flows
from app.models import AgentRecord, VolumeTarget
from app.planning import plan_conditions, planning, requested_steps
from drivers.agent import in_band, standby
from drivers.agent.deploy import AgentDeploy
from drivers.builtin import HARDWARE_TYPES, INTERFACES, FakeHardware
from drivers.core import reserved
from drivers.core.conditions import AS_FOUND, UNKNOWN, Condition, conditions, of_method
from drivers.core.driver import HardwareType
from drivers.core.interface import Frame
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, Deploy, Network
from drivers.core.registry import load
from drivers.core.steps import Done, Flow, Wait, step
from drivers.fake.hardware import FakeBoot, FakeDeploy, FakePower
from tests.unit.app.planning.test_planning import node, runtime

RESERVED = ("power_on", "power_off", "reboot")


@dataclass
class World:
    """A machine: its running system, next boot, network and disk."""

    runs: str = "instance"
    boots: str = "disk"
    network: str = "tenant"
    image: str = "old"
    loader: bool = True

    def start(self):
        if self.runs != "off":
            return
        if self.boots == "agent":
            self.runs = "agent"
        else:
            self.runs = "instance" if self.image == "new" and self.loader else "nothing"
            assert self.network == "tenant", "an instance starts on the agent's network"


world = World()


class WorldPower(FakePower):
    name = "world"

    def get_power_state(self, target):
        return POWER_OFF if world.runs == "off" else POWER_ON

    def power_on(self, target):
        world.start()
        return Done()

    def power_off(self, target):
        world.runs = "off"
        return Done()

    def change(self, target, state, timeout=None):
        world.runs = "off"
        world.start()
        return Done()


class WorldBoot(FakeBoot):
    name = "world"

    def prepare_ramdisk(self, target):
        world.boots = "agent"
        return Done()

    def prepare_instance(self, target):
        world.boots = "disk"
        return Done()


class WorldNetwork(Network):
    name = "world"

    def add_provisioning_network(self, target):
        world.network = "service"

    def remove_provisioning_network(self, target):
        world.network = "none"

    def configure_tenant_networks(self, target):
        assert world.runs != "agent", "the operator's agent is on the tenant's network"
        world.network = "tenant"

    def unconfigure_tenant_networks(self, target):
        world.network = "none"


class WorldHardware(HardwareType):
    name = "world"
    interfaces = {
        **FakeHardware.interfaces,
        "power": (WorldPower,),
        "boot": (WorldBoot,),
        "network": (WorldNetwork,),
    }


@cache
def loaded():
    instance = runtime()
    instance.drivers = load([*HARDWARE_TYPES, WorldHardware], enabled_interfaces=INTERFACES | {
        kind: (*INTERFACES[kind], "world") for kind in ("power", "boot", "network")
    })  # fmt: skip
    return instance


@pytest.fixture
def ours():
    return loaded()


def asked(name, priority=0, interface=None):
    interface = interface or ("power" if name in RESERVED else "deploy")
    return {
        "interface": interface, "step": name, "priority": priority, "args": {}, "source": "caller",
    }  # fmt: skip


def deployment(ours, steps, driver="world", deploy="direct", agent=None, **fields):
    """Return the target and the plan of a deployment with these steps: (name, priority)."""
    planned = node(driver=driver, deploy_interface=deploy, **fields)
    target = targets.build(ours, planned, (), agent)
    request = requested_steps.Request([asked(*step) for step in steps])
    return target, planning.deploy(ours, planned, target, request)


def wrong(ours, *steps, **fields):
    target, rows = deployment(ours, steps, **fields)
    return plan_conditions.problems(target, flows.DEPLOY, rows)


PREPARED = "deploy.prepare before it leaves the disk without the image"


@pytest.mark.parametrize(
    ("name", "priority", "reason"),
    [
        ("write_image", 110, "write_image (priority 110) needs the agent running, but power.power_off before it leaves the machine off; deploy.deploy (priority 100), which leaves that, comes later"),
        ("write_image", 30, "write_image (priority 30) needs the agent running, but deploy.tear_down_agent (priority 40) before it leaves the machine off"),
        ("write_image", 0, f"prepare_instance_boot (priority 60) needs the image on the disk, but {PREPARED}; deploy.write_image, which leaves that, is not among the steps"),
        ("tear_down_agent", 85, "write_image (priority 80) needs the agent running, but deploy.tear_down_agent (priority 85) before it leaves the machine off"),
        ("tear_down_agent", 0, "switch_to_tenant_network (priority 30) needs the machine off, but deploy.deploy (priority 100) before it leaves the agent running; deploy.tear_down_agent, which leaves that, is not among the steps"),
        ("prepare_instance_boot", 30, "prepare_instance_boot (priority 30) needs the agent running, but deploy.tear_down_agent (priority 40)"),
        ("prepare_instance_boot", 0, "tear_down_agent (priority 40) needs an image that boots on the disk, but deploy.write_image (priority 80) before it leaves the image on the disk; deploy.prepare_instance_boot, which"),
        ("deploy", 0, "write_image (priority 80) needs the agent running, but power.power_off before it leaves the machine off; deploy.deploy, which leaves that, is not among the steps"),
        ("deploy", 30, "write_image (priority 80) needs the agent running, but power.power_off before it leaves the machine off; deploy.deploy (priority 30), which leaves that, comes later"),
        ("boot_instance", 90, "boot_instance (priority 90) needs the machine off, but deploy.deploy (priority 100) before it leaves the agent running"),
        ("boot_instance", 35, "boot_instance (priority 35) needs the machine on the tenant's networks, but network.add_provisioning_network before it leaves the machine on the agent's network"),
        ("boot_instance", 0, "deploy must end with the instance running, but deploy.tear_down_agent (priority 40) leaves the machine off; deploy.boot_instance, which leaves that, is not among the steps"),
        ("switch_to_tenant_network", 95, "switch_to_tenant_network (priority 95) needs the machine off, but deploy.deploy (priority 100) before it leaves the agent running"),
        ("switch_to_tenant_network", 110, "deploy.deploy (priority 100) needs the machine on the agent's network, but deploy.switch_to_tenant_network (priority 110) before it leaves the machine on the tenant's networks"),
        ("switch_to_tenant_network", 10, "boot_instance (priority 20) needs the machine on the tenant's networks, but network.add_provisioning_network before it leaves the machine on the agent's network; deploy.switch_to_tenant_network (priority 10), which leaves that, comes later"),
        ("switch_to_tenant_network", 0, "boot_instance (priority 20) needs the machine on the tenant's networks"),
        ("power_off", 90, "write_image (priority 80) needs the agent running, but power.power_off (priority 90) before it leaves the machine off; power_on or reboot between them starts the machine"),
        ("power_off", 10, "deploy must end with the instance running, but power.power_off (priority 10) leaves the machine off"),
        ("reboot", 50, "reboot (priority 50) needs the machine on the tenant's networks, but network.add_provisioning_network before it leaves the machine on the agent's network"),
        ("power_on", 35, "switch_to_tenant_network (priority 30) needs the machine off, but power.power_on (priority 35) before it leaves the instance running"),
    ],
)  # fmt: skip
def test_a_step_where_it_cannot_work_is_refused_with_the_step_that_is_in_its_way(
    ours, name, priority, reason
):
    assert reason in "; ".join(wrong(ours, (name, priority)))


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (("deploy", 105),),
        (("write_image", 99),),
        (("prepare_instance_boot", 41),),
        (("boot_instance", 5),),
        (("power_off", 90), ("power_on", 85)),
        (("reboot", 70),),
        (("reboot", 10),),
        (("reboot", 50), ("tune", 45)),
        (("power_on", 110),),
        (("tune", 50),),
    ],
)
def test_a_move_that_keeps_what_the_steps_need_is_accepted(ours, steps):
    assert [] == wrong(ours, *steps)


def test_without_changes_of_networks_they_stand_in_the_way_of_nothing(ours):
    for moved in (("switch_to_tenant_network", 0), ("reboot", 50)):
        assert [] == wrong(ours, moved, driver="fake-hardware")
        assert wrong(ours, moved)


@pytest.mark.parametrize(
    ("deploy", "steps", "reason"),
    [
        ("custom-agent", [("tear_down_agent", 0)], "needs the machine off"),
        ("custom-agent", [("boot_instance", 0)], "must end with the instance running"),
        ("custom-agent", [("prepare_instance_boot", 0)], None),  # the agent's own steps write it
        ("ramdisk", [("deploy", 0)], "must end with the instance running"),
        ("ramdisk", [("power_off", 5)], "must end with the instance running"),
        ("anaconda", [("deploy", 0)], "boot_from_disk needs an image that boots on the disk"),
        ("anaconda", [("power_off", 5)], None),  # the frame starts the machine
        ("fake", [("deploy", 30)], None),
    ],
)
def test_every_deploy_interface_has_conditions(ours, deploy, steps, reason):
    reasons = wrong(ours, *steps, deploy=deploy)
    assert (reasons == []) if reason is None else (reason in "; ".join(reasons))


def test_an_in_band_step_beside_a_boot_volume_needs_the_step_that_boots_the_agent(ours):
    planned = node(driver="fake-hardware", deploy_interface="direct", storage_interface="external")
    volume = VolumeTarget(uuid="v", volume_type="iscsi", volume_id="1", boot_index=0)
    volume.properties, volume.extra = {}, {}
    target = replace(targets.build(ours, planned), volume_targets=(volume,))

    def found(*steps):
        request = requested_steps.Request([asked(*step) for step in steps])
        rows = planning.deploy(ours, planned, target, request)
        return plan_conditions.problems(target, flows.DEPLOY, rows)

    assert [] == found()
    assert [] == found(("tune", 50), ("boot_agent", 90))
    assert [] == found(("tear_down_agent", 0))
    (reason,) = found(("tune", 50))
    assert "tune (priority 50) needs the agent running" in reason
    assert "deploy.boot_agent, which leaves that, is not among the steps" in reason
    assert "needs the machine off" in "; ".join(found(("boot_agent", 90), ("tear_down_agent", 0)))


def requested(ours, flow, *labels, raid="no-raid", ramdisk=True):
    planned = node(driver="world", deploy_interface="direct", raid_interface=raid)
    listed = {"clean": [{"interface": "deploy", "step": "erase_devices", "priority": 10}]}
    target = targets.build(ours, planned, (), AgentRecord(steps=listed))
    steps = [asked(*reversed(label.split("."))) for label in labels]
    steps = [
        {**entry, "interface": label.split(".")[0]}
        for entry, label in zip(steps, labels, strict=True)
    ]
    for entry, label in zip(steps, labels, strict=True):
        entry["step"] = label.split(".")[1]
        del entry["priority"]
    request = requested_steps.Request(steps, disable_ramdisk=not ramdisk)
    rows = planning.in_requested_order(flow, ours, planned, target, request)
    return plan_conditions.problems(target, flows.of_steps(flow), rows)


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        (("power.power_off", "deploy.erase_devices"), "deploy.erase_devices"),
        (("power.power_off", "hardware.of_the_agent"), "hardware.of_the_agent"),
        (("power.power_off", "raid.create_configuration"), "raid.create_configuration"),
        (("power.power_off", "raid.delete_configuration"), "raid.delete_configuration"),
        (("power.power_off", "power.wait", "deploy.erase_devices"), "deploy.erase_devices"),
        (("power.power_on", "power.power_off", "deploy.erase_devices"), "deploy.erase_devices"),
        (("power.power_off", "power.power_on", "deploy.erase_devices"), None),
        (("power.power_off", "power.reboot", "raid.delete_configuration"), None),
        (("power.power_off", "vendor.log_passthrough"), None),
        (("deploy.erase_devices", "power.power_off"), None),
    ],
)
def test_what_the_agent_runs_does_not_follow_a_power_off(ours, labels, refused):
    reasons = requested(ours, Flow.CLEAN, *labels, raid="agent")
    expected = (
        f"{refused} needs the agent running, but power.power_off before it leaves the machine off;"
        " power_on or reboot between them starts the machine"
    )
    assert reasons == ([] if refused is None else [expected])


def test_a_service_does_not_end_with_the_machine_off(ours):
    (reason,) = requested(ours, Flow.SERVICE, "power.power_off", ramdisk=False)
    assert reason == (
        "service must end with the instance running, but power.power_off leaves the machine off;"
        " power_on or reboot between them starts the machine"
    )
    again = ("power.power_off", "power.power_on")
    assert [] == requested(ours, Flow.SERVICE, *again, ramdisk=False)
    # after a step of the agent, the frame starts the instance
    assert [] == requested(ours, Flow.SERVICE, "deploy.of_the_agent", "power.power_off")


@pytest.mark.parametrize("options", [{}, {"DEPLOY_FAST_TRACK": "true"}])
def test_the_plans_of_the_drivers_themselves_are_right(options):
    ours = runtime(**options)
    ours.drivers = load(HARDWARE_TYPES, enabled_interfaces=INTERFACES)
    count = 0
    for name, kinds in ours.drivers.types.items():
        for deploy in kinds["deploy"]:
            for rescue in kinds["rescue"]:
                planned = node(driver=name, deploy_interface=deploy, rescue_interface=rescue)
                target = targets.build(ours, planned)
                plans = {
                    flows.DEPLOY: planning.deploy,
                    flows.CLEAN: planning.clean,
                    flows.VERIFY: planning.verify,
                    **{
                        flow: lambda *args, flow=flow: planning.frame_only(flow, *args)
                        for flow in (flows.DELETE, flows.SERVICE, flows.ADOPT, flows.UNRESCUE)
                    },
                }
                if rescue != "no-rescue":
                    plans[flows.RESCUE] = lambda *args: planning.frame_only(flows.RESCUE, *args)
                for flow, plan in plans.items():
                    rows = plan(ours, planned, target)
                    assert [] == plan_conditions.problems(target, flow, rows), (name, deploy)
                    count += 1
    assert count > 100


# Drivers from outside


class Plain(Deploy):
    """Deploys in its own way, and declares no conditions."""

    name = "plain"
    frames = {"deploy": Frame(before=(("power", "power_off"),), collect=("deploy", "deploy"))}

    @step(deploy=100)
    def deploy(self, target):
        """Boots an agent."""

    @step(deploy=10)
    def finish(self, target):
        """Boots the instance."""


class Careful(AgentDeploy):
    """Overrides a core step, and adds one."""

    name = "careful"

    @step(deploy=40)
    def tear_down_agent(self, target):
        """Without conditions of its own: those of the overridden step."""

    @step(deploy=70, needs=[Condition.AGENT])
    def measure(self, target):
        """Needs the agent."""

    @step(deploy=35)
    def stamp(self, target):
        """Leaves the machine as it was."""


class Outside(HardwareType):
    name = "outside"
    interfaces = {**FakeHardware.interfaces, "deploy": (Plain, Careful)}


def test_drivers_that_declare_no_conditions_are_refused_nothing(ours):
    ours.drivers.types["outside"] = load([Outside]).types["outside"]
    for steps in ((), [("finish", 45)], [("tune", 50)], [("power_off", 20)]):
        assert [] == wrong(ours, *steps, driver="outside", deploy="plain")
    # but the frame tells that `deploy` reads the steps of an agent
    (reason,) = wrong(ours, ("finish", 0), driver="outside", deploy="plain")
    assert reason == (
        "deploy must end with the instance running, but deploy.deploy (priority 100) leaves the"
        " agent running; power_on or reboot between them starts the machine"
    )


def test_a_driver_inherits_and_adds_conditions(ours):
    ours.drivers.types["outside"] = load([Outside]).types["outside"]

    def found(*steps):
        return "; ".join(wrong(ours, *steps, driver="outside", deploy="careful"))

    assert "" == found()
    assert "needs the machine off" in found(("tear_down_agent", 0))
    assert "measure (priority 30) needs the agent running" in found(("measure", 30))
    assert "" == found(("stamp", 25))


def test_a_wrong_declaration_is_an_error_of_the_driver():
    with pytest.raises(ValueError, match="exclude each other"):
        step(deploy=1, leaves=[Condition.OFF, Condition.AGENT])
    with pytest.raises(ValueError, match="must be a Condition, not 'off'"):
        step(clean=1, needs=["off"])
    with pytest.raises(ValueError, match="cannot need"):
        conditions(needs=[Condition.STARTED])
    assert of_method(FakeDeploy, "deploy") is None
    assert (UNKNOWN, AS_FOUND) == (FakeDeploy.undeclared, FakePower.undeclared)


# The property: an accepted plan works


def carry_out(target, rows, monkeypatch):
    """Run the steps of a plan in `world`; return why it cannot end, or None."""
    global world  # noqa: PLW0603 - the interfaces act on it
    world = World()

    def by_agent(effect=lambda: None):
        if world.runs != "agent":
            return Wait()
        assert world.network == "service", "the agent works on the tenant's network"
        effect()
        return Done()

    def write(_target, _step):
        return by_agent(lambda: vars(world).update(image="new", loader=False))

    monkeypatch.setattr(in_band, "collect", lambda target, flow: by_agent())
    monkeypatch.setattr(standby, "write_image", write)
    monkeypatch.setattr("drivers.agent.image.write_step", lambda target: {})
    monkeypatch.setattr(AgentDeploy, "_needs_bootloader", lambda self, target: True)
    monkeypatch.setattr(
        AgentDeploy,
        "_install_bootloader",
        lambda self, target: by_agent(lambda: vars(world).update(loader=world.image == "new")),
    )
    monkeypatch.setattr(AgentDeploy, "_end_agent", lambda self, target: None)
    info = {}
    for row in rows:
        if row.label in ("deploy.prepare", "deploy.withdraw_image"):
            continue
        agent = replace(target.agent, url="http://agent" if world.runs == "agent" else None)
        attempt = replace(target, agent=agent, driver_internal_info=info, progress={}, reports={})
        for _ in range(5):
            if row.name in reserved.METHODS:
                outcome = reserved.run(attempt, row.name, {}, ramdisk=bool(row.requires_ramdisk))
            elif row.in_band:
                outcome = by_agent()
            else:
                outcome = target.driver.by_kind[row.interface].run(attempt, row.name, {})
            info = {**info, **attempt.reports.get("driver_internal_info", {})}
            if isinstance(outcome, Done):
                break
            agent = replace(agent, url="http://agent" if world.runs == "agent" else None)
            attempt = replace(
                attempt, agent=agent, driver_internal_info=info, progress=outcome.progress
            )
        else:
            return f"{row.label} waits for ever"
    return None


CORE = {
    "deploy": 100, "write_image": 80, "prepare_instance_boot": 60, "tear_down_agent": 40,
    "switch_to_tenant_network": 30, "boot_instance": 20,
}  # fmt: skip
#: Places left out, between the core steps, and beside them.
PLACES = st.sampled_from((0, 10, 15, 20, 25, 30, 35, 41, 50, 60, 70, 80, 90, 99, 100, 110, 120))
MOVES = st.dictionaries(st.sampled_from(sorted(CORE)), PLACES, max_size=2)
OTHERS = st.lists(st.tuples(st.sampled_from((*RESERVED, "tune")), st.integers(1, 120)), max_size=2)


def judge(moves, other_steps, monkeypatch):
    """Return whether a deployment is accepted; it must work, then."""
    steps = [
        *moves.items(),
        *(pair for pair in other_steps if pair[0] != "tune" or 41 <= pair[1] <= 99),
    ]
    target, rows = deployment(loaded(), steps)
    if plan_conditions.problems(target, flows.DEPLOY, rows):
        return False
    assert None is carry_out(target, rows, monkeypatch)
    assert ("instance", "tenant", "new") == (world.runs, world.network, world.image)
    return True


@settings(max_examples=300)
@given(moves=MOVES, others=OTHERS)
def test_an_accepted_deployment_ends_with_the_instance_on_the_tenants_network(moves, others):
    with pytest.MonkeyPatch.context() as patch:
        judge(moves, others, patch)


@settings(max_examples=50)
@given(places=st.lists(st.integers(1, 120), min_size=len(CORE), max_size=len(CORE), unique=True))
def test_core_steps_in_their_order_are_accepted_at_any_priority(places):
    moves = dict(zip(CORE, sorted(places, reverse=True), strict=True))
    with pytest.MonkeyPatch.context() as patch:
        assert judge(moves, [], patch)


@settings(max_examples=50)
@given(left_out=st.sets(st.sampled_from(sorted(CORE)), min_size=1))
def test_no_core_step_can_be_left_out_where_networks_are_changed(left_out):
    assert wrong(loaded(), *((name, 0) for name in left_out))
