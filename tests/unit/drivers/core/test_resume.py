"""Resumption of steps after a conductor's crash: each step has a rule, and follows it."""

import time
from dataclasses import replace

import pytest

from drivers.builtin import HARDWARE_TYPES, INTERFACES
from drivers.core.bmc import Bmcs
from drivers.core.registry import load
from drivers.core.steps import Done, Failed, Flow, Wait
from drivers.simulator.simulator import running
from tests.unit.drivers.crashes import attempt_of, crashed
from tests.unit.drivers.machines import OPTIONS, image_server, target

#: Every shipped step, by the class of its interface. rerun: it reads before it acts, or
#: is idempotent; probe: it reads from the machine the work that an earlier attempt started.
RULES = {
    "AnacondaDeploy.deploy": "rerun",
    "AgentRaid.create_configuration": "probe",
    "AgentRaid.delete_configuration": "probe",
    "Bootc.boot_agent": "rerun",
    "Bootc.boot_instance": "rerun",
    "Bootc.deploy": "rerun",
    "Bootc.execute_bootc_install": "probe",
    "Bootc.prepare_instance_boot": "probe",
    "Bootc.switch_to_tenant_network": "rerun",
    "Bootc.tear_down_agent": "probe",
    "CustomAgent.boot_agent": "rerun",
    "CustomAgent.boot_instance": "rerun",
    "CustomAgent.deploy": "rerun",
    "CustomAgent.prepare_instance_boot": "probe",
    "CustomAgent.switch_to_tenant_network": "rerun",
    "CustomAgent.tear_down_agent": "probe",
    "Direct.boot_agent": "rerun",
    "Direct.boot_instance": "rerun",
    "Direct.deploy": "rerun",
    "Direct.prepare_instance_boot": "probe",
    "Direct.switch_to_tenant_network": "rerun",
    "Direct.tear_down_agent": "probe",
    "Direct.write_image": "probe",
    "FakeBios.apply_configuration": "rerun",
    "FakeBios.cache_bios_settings": "rerun",
    "FakeBios.factory_reset": "rerun",
    "FakeDeploy.deploy": "rerun",
    "FakeFirmware.update": "rerun",
    "FakeVendor.log_passthrough": "rerun",
    "FakeVendor.trigger_servicewait": "rerun",
    "IdracManagement.clear_job_queue": "rerun",
    "IdracManagement.known_good_state": "rerun",
    "IdracManagement.reset_idrac": "rerun",
    "IntelIpmiManagement.configure_intel_speedselect": "rerun",
    "IpmiManagement.rotate_bmc_password": "probe",
    "IpmiVendor.send_raw": "rerun",  # only the caller knows the meaning of the bytes
    "NoopDeploy.deploy": "rerun",
    "RamdiskDeploy.deploy": "rerun",
    "RedfishBios.apply_configuration": "probe",
    "RedfishBios.cache_bios_settings": "rerun",
    "RedfishBios.factory_reset": "probe",
    "RedfishFirmware.cache_firmware_components": "rerun",
    "RedfishFirmware.update": "probe",
    "RedfishManagement.cache_system_facts": "rerun",
    "RedfishManagement.clear_secure_boot_keys": "rerun",
    "RedfishManagement.reset_secure_boot_keys_to_default": "rerun",
    "RedfishManagement.rotate_bmc_password": "probe",
    "RedfishManagement.set_bmc_clock": "rerun",
    "RedfishManagement.verify_bmc_clock": "rerun",
    "RedfishRaid.apply_configuration": "probe",
    "RedfishRaid.create_configuration": "probe",
    "RedfishRaid.delete_configuration": "probe",
}
IMAGE = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}
RAID = {"logical_disks": [{"size_gb": "MAX", "raid_level": "1", "controller": "software"}]}


def test_every_step_has_an_explicit_rule():
    interfaces = {
        interface
        for kinds in load(HARDWARE_TYPES, enabled_interfaces=INTERFACES).types.values()
        for by_name in kinds.values()
        for interface in by_name.values()
    }
    assert RULES == {
        f"{type(interface).__name__}.{step.name}": step.resume
        for interface in interfaces
        for step in interface.steps.values()
        # an interface under another name has the steps of that interface
        if not any(
            type(other) in type(interface).__bases__ and step.name in other.steps
            for other in interfaces
        )
    }


def test_the_steps_of_an_agent_are_probed():
    listed = {"clean": [{"interface": "deploy", "step": "burn", "priority": 0}]}
    node = target(interfaces={"deploy": "direct"})
    node = replace(node, agent=replace(node.agent, steps=listed))
    assert ["probe"] == [step.resume for step in node.driver.deploy.in_band_steps(node, Flow.CLEAN)]


@pytest.fixture
def node(agent):
    """A node in its first attempt of a step, after its agent has listed its steps."""
    agent.post("clean.get_clean_steps", {}, wait=True)
    agent.received.clear()
    with image_server() as images:
        images.files["/disk.raw"] = bytes(512)
        info = {"image_source": f"{images.url}/disk.raw", "image_checksum": "a" * 64}
        yield target(
            interfaces={"deploy": "direct", "raid": "agent"},
            agent=agent.seen(),
            step_id="operation:7",
            instance_info=info,
            power_state="power on",
            record={"uuid": "n", "properties": {}, "target_raid_config": RAID},
        )


def erase(node):
    step = {"interface": "deploy", "step": "erase_devices", "priority": 10}
    return node.driver.deploy.execute_in_band(node, Flow.CLEAN, step)


def write_image(node):
    return node.driver.deploy.write_image(node)


def delete_raid(node):
    return node.driver.raid.delete_configuration(node)


def create_raid(node):
    return node.driver.raid.create_configuration(node)


def boot_loader(node):
    return node.driver.deploy.prepare_instance_boot(node)


def after_death(node, outcome=None):
    """Return the node as the next conductor gets it: the crashed attempt recorded nothing."""
    progress = outcome.progress if outcome else {}
    return replace(node, resumed=True, progress=progress, reports={})


def ended(agent):
    """Let the agent finish its command."""
    name, params = agent.received[-1]
    if "step" in params:
        agent.finish_step(name.partition(".")[0], RAID)
    else:
        agent.finish({})


PROBED = pytest.mark.parametrize(
    ("step", "command"),
    [
        (erase, "clean.execute_clean_step"),
        (write_image, "deploy.execute_deploy_step"),
        (delete_raid, "clean.execute_clean_step"),
        (create_raid, "clean.execute_clean_step"),
        (boot_loader, "image.install_bootloader"),
    ],
)


def count(agent, command):
    return [name for name, _ in agent.received].count(command)


@PROBED
def test_a_running_command_of_the_agent_is_awaited(agent, node, step, command):
    step(node)
    waiting = step(after_death(node))
    assert isinstance(waiting, Wait)
    ended(agent)
    assert isinstance(step(after_death(node, waiting)), Done)
    assert 1 == count(agent, command)


@PROBED
def test_a_finished_command_of_the_agent_is_not_repeated(agent, node, step, command):
    step(node)
    ended(agent)
    assert isinstance(step(after_death(node)), Done)
    assert 1 == count(agent, command)


@PROBED
def test_a_failed_command_of_the_agent_fails_the_step(agent, node, step, command):
    step(node)
    agent.fail("no")
    assert isinstance(step(after_death(node)), Failed)
    assert 1 == count(agent, command)


@PROBED
def test_a_command_lost_by_a_restarted_agent_is_sent_again(agent, node, step, command):
    step(node)
    agent.restart()
    waiting = step(after_death(node))
    assert "command" in waiting.progress
    assert 2 == count(agent, command)


@PROBED
def test_a_lost_command_is_sent_despite_a_result_of_an_earlier_flow(agent, node, step, command):
    """An agent that is kept running still lists the commands of the earlier flow."""
    step(replace(node, step_id="another:7"))
    agent.fail("no")
    agent.post("clean.get_clean_steps", {}, wait=True)
    waiting = step(after_death(node))
    assert isinstance(waiting, Wait)
    assert 2 == count(agent, command)


def raid_commands(agent):
    return [params["step"]["step"] for _, params in agent.received]


@pytest.mark.parametrize("is_done", [False, True])
def test_a_raid_is_neither_deleted_nor_created_twice_by_one_step(agent, node, is_done):
    def both(node):
        return node.driver.raid.create_configuration(node, delete_existing=True)

    waiting = both(node)
    ended(agent)
    both(replace(node, progress=waiting.progress))  # sends the command to create, and crashes
    if is_done:
        ended(agent)
    for outcome in (waiting, None):  # recorded state of the deletion: its command, or none
        again = both(after_death(node, outcome))
        assert isinstance(again, Done if is_done else Wait)
    assert ["delete_configuration", "create_configuration"] == raid_commands(agent)


def test_an_agent_gets_one_command_to_power_off(agent, node, monkeypatch):
    monkeypatch.setattr(type(node.driver.power), "get_power_state", lambda *_: "power on")
    deploy = node.driver.deploy
    assert 1 == deploy.tear_down_agent(node).progress["looks"]
    assert 1 == deploy.tear_down_agent(after_death(node)).progress["looks"]
    record = replace(node.agent, url="http://127.0.0.1:1")
    assert 1 == deploy.tear_down_agent(replace(after_death(node), agent=record)).progress["looks"]
    assert ["standby.sync", "standby.power_off"] == agent.names()


def test_a_rescue_password_is_sent_only_once(agent, node):
    agent.answers["rescue.finalize_rescue"] = {}
    info = {"hashed_rescue_password": "$5$x"}
    node = replace(
        node,
        driver=load(HARDWARE_TYPES).driver("fake-hardware", {"rescue": "agent"}),
        instance_info=info,
    )
    rescue = node.driver.rescue.rescue
    client_post = agent.post
    agent.post = lambda name, params, *, wait: client_post(name, params, wait=True)
    assert Done() == rescue(node)
    assert Done() == rescue(after_death(node))
    assert ["rescue.finalize_rescue"] == agent.names()


def test_a_running_installer_is_not_started_again(node, monkeypatch):
    started = []
    registry = load(HARDWARE_TYPES, enabled_interfaces=INTERFACES)
    driver = registry.driver("fake-hardware", {"deploy": "anaconda", "boot": "fake"})
    monkeypatch.setattr(type(driver.power), "power_on", lambda *_: started.append(1) or Done())
    node = replace(node, driver=driver)
    assert Wait({"started": True}) == driver.deploy.deploy(node)
    for status, outcome in (("start", Wait({"started": True})), ("end", Done())):
        node = replace(node, agent=replace(node.agent, status=status))
        assert outcome == driver.deploy.deploy(after_death(node))
    assert [1] == started


# At the BMC


@pytest.fixture(scope="module")
def fleet():
    with running(machines=1, power_off_seconds=0.05) as simulator:
        yield simulator


@pytest.fixture
def machine(fleet):
    machine = fleet.machines[0]
    machine.log.clear()
    return machine


@pytest.fixture
def server(machine):
    """The node of a simulated machine."""
    options = {**OPTIONS["redfish"], "firmware_update_overall_timeout": 60}
    return target(
        "redfish",
        registry=load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100)),
        uuid=machine.uuid,
        driver_info=machine.driver_info(),
        options={**OPTIONS, "redfish": options},
    )


def ordered(machine, order):
    return sum(entry["kind"] == "redfish" and order in entry["what"] for entry in machine.log)


def finish_with_deaths(node, kind, step, **args):
    """Call a step until it ends; before each call another one crashes, and its outcome is lost."""
    interface = node.driver.by_kind[kind]
    for _ in range(200):
        node = attempt_of(node)
        interface.run(node, step, args)
        node = attempt_of(crashed(node))
        outcome = interface.run(node, step, args)
        if not isinstance(outcome, Wait):
            return outcome
        time.sleep(0.02)
        node = replace(node, progress=outcome.progress, reports={})
    raise AssertionError(f"no end: {outcome}")


@pytest.mark.parametrize("seconds", [0, 0.3], ids=["ended", "running"])
def test_a_firmware_update_is_started_once(server, machine, monkeypatch, seconds):
    monkeypatch.setattr(machine, "faults", replace(machine.faults, task_seconds=seconds))
    updates = [
        {"component": "bmc", "url": "http://images/2.30.bin"},
        {"component": "bios", "url": "http://images/1.2.0.bin"},
    ]
    outcome = finish_with_deaths(server, "firmware", "update", settings=updates)
    assert Done({"versions": {"bios": "1.2.0", "bmc": "2.30"}}) == outcome
    assert 2 == ordered(machine, "update firmware")
    assert {"BIOS": "1.2.0", "BMC": "2.30"} == machine.firmware


@pytest.mark.parametrize("state", ["power on", "power off"])
def test_a_reboot_starts_the_machine_once_despite_crashes(server, machine, state):
    assert Done() == finish_with_deaths(server, "power", "change", state=state)
    machine.log.clear()
    assert Done() == finish_with_deaths(server, "power", "reboot")
    assert ("On", 1) == (machine.power, ordered(machine, "power on"))


def test_bios_settings_end_as_requested(server, machine):
    settings = [{"name": "NumLock", "value": "Off"}]
    arguments = {"settings": settings}
    assert Done() == finish_with_deaths(server, "bios", "apply_configuration", **arguments)
    assert ("Off", "On") == (machine.bios["NumLock"], machine.power)
    assert Done() == finish_with_deaths(server, "bios", "factory_reset")
    assert ("On", "On") == (machine.bios["NumLock"], machine.power)


def test_a_restart_for_bios_settings_is_completed_after_a_crash(server, machine):
    """Crash after the restart: the settings are as requested, and the agent is not back yet."""
    arguments = {"settings": [{"name": "NumLock", "value": "Off"}]}
    agent = replace(server.agent, url="http://agent")
    boots = type(server.driver.boot)
    step = server.driver.bios.apply_configuration
    node, outcome = replace(server, agent=agent), None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boots, "prepare_ramdisk", lambda *_: None)
        for _ in range(100):
            outcome = step(node, **arguments)
            if machine.bios["NumLock"] == "Off":
                break
            time.sleep(0.02)
            node = replace(node, progress=outcome.progress, reports={})
        # the attempt that saw the machine start recorded nothing
        again = step(replace(node, resumed=True, reports={}), **arguments)
    assert isinstance(again, Wait)


def test_the_agents_medium_is_removed_despite_crashes(server, machine):
    info = {"deploy_iso": "http://127.0.0.1:9/agent.iso", "deploy_forces_oob_reboot": True}
    node = replace(server, driver_info={**server.driver_info, **info})
    node.driver.boot.boot_agent_next(node)
    node.driver.power.order(node, "power on")
    assert "http://127.0.0.1:9/agent.iso" == machine.media["Cd"]
    assert Done() == finish_with_deaths(node, "deploy", "tear_down_agent")
    assert ("", "Hdd", "Continuous", "Off") == (
        machine.media["Cd"], machine.boot_target, machine.boot_enabled, machine.power,
    )  # fmt: skip
