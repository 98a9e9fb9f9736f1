"""Simulated agents through a small service."""

import asyncio
import hashlib
import time

import pytest
import requests
import sushy

from drivers.simulator.agent import Agent
from drivers.simulator.simulator import running
from tests.support.fleet import until

from .conftest import FAST, IMAGE, TOKEN, connect, what


class Orders:
    """Send commands to the agent of a machine, as the service does."""

    def __init__(self, url, token=TOKEN):
        self.url, self.token = url, token

    def send(self, name, wait=True, **params):
        query = {"wait": str(wait).lower(), "agent_token": self.token}
        body = {"name": name, "params": params}
        return requests.post(f"{self.url}/v1/commands/", params=query, json=body, timeout=60)

    def run(self, name, **params):
        answer = self.send(name, **params)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    def step(self, flow, name, wait=True, version="1.2", **args):
        interface, _, step = name.partition(".")
        return self.run(
            f"{flow}.execute_{flow}_step",
            wait=wait,
            step={"interface": interface, "step": step, "args": args},
            node={},
            ports=[],
            **{f"{flow}_version": {"generic_hardware_manager": version}},
        )

    def last(self):
        query = {"agent_token": self.token}
        answer = requests.get(f"{self.url}/v1/commands/", params=query, timeout=60)
        return answer.json()["commands"][-1]


def boot_agent(sim, service, machine):
    """Insert the agent's medium, power on, and wait for the first heartbeat."""
    system = connect(machine).get_system()
    for device in system.managers[0].virtual_media.get_members():
        if device.identity == "Cd":
            device.insert_media(sim.medium(service.url))
    system.set_system_boot_options(sushy.BootSource.CD, sushy.BootSourceOverrideEnabled.ONCE)
    count = len(service.heartbeats)
    system.reset_system(sushy.ResetType.ON)
    until(lambda: len(service.heartbeats) > count)
    return Orders(service.heartbeats[-1][2]["callback_url"])


def test_a_machine_is_cleaned_deployed_and_boots_its_instance(sim, service):
    machine = sim.machines[1]
    orders = boot_agent(sim, service, machine)
    assert ("1.62", {"addresses": [",".join(machine.macs)]}) == service.lookups[0]
    assert (
        "1.68",
        "/v1/heartbeat/node-1",
        {"callback_url": machine.redfish_address, "agent_token": TOKEN, "agent_version": "13.0.0"},
    ) == service.heartbeats[0]

    offered = orders.run("clean.get_clean_steps", node={}, ports=[])["command_result"]
    steps = {
        step["step"]: step["priority"]
        for step in offered["clean_steps"]["generic_hardware_manager"]
    }
    assert (99, 10, 0) == (
        steps["erase_devices_metadata"],
        steps["erase_devices"],
        steps["create_configuration"],
    )
    command = orders.step("clean", "deploy.erase_devices")
    assert ("SUCCEEDED", "erase_devices") == (
        command["command_status"],
        command["command_result"]["clean_step"]["step"],
    )

    sha256 = hashlib.sha256(IMAGE).hexdigest()
    info = {"id": "disk.raw", "urls": [f"{service.url}/image"]}
    info |= {"os_hash_algo": "sha256", "os_hash_value": sha256}
    image_command = orders.step("deploy", "deploy.write_image", image_info=info, configdrive="H4sI")
    assert "SUCCEEDED" == image_command["command_status"]
    assert (sha256, len(IMAGE), True) == (
        machine.disk.sha256,
        machine.disk.size,
        machine.disk.configdrive,
    )
    assert orders.run("standby.get_partition_uuids")["command_result"]["root uuid"]
    assert "SUCCEEDED" == orders.run("image.install_bootloader")["command_status"]
    assert "SUCCEEDED" == orders.run("standby.sync")["command_status"]
    orders.run("standby.power_off", wait=False)
    until(lambda: machine.power == "Off")

    connect(machine).get_system().reset_system(sushy.ResetType.ON)
    until(lambda: machine.runs == "instance")
    story = what(machine, "agent")
    assert "execute_clean_step deploy.erase_devices" in story
    assert "execute_deploy_step deploy.write_image" in story


def test_the_agent_accepts_commands_only_with_its_token(sim, service):
    orders = boot_agent(sim, service, sim.machines[0])
    for token in ("", "x" * 43):
        assert 401 == Orders(orders.url, token).send("standby.sync").status_code
    assert 200 == requests.get(f"{orders.url}/", timeout=60).status_code
    assert 401 == requests.get(f"{orders.url}/v1/commands/", timeout=60).status_code


def test_a_token_of_another_agent_is_fatal_unless_the_medium_has_one(sim, service):
    service.token = "******"
    machine, other = sim.machines[:2]
    for booting_machine, parameter in ((machine, ""), (other, f"&ipa-agent-token={TOKEN}")):
        booting_machine.media["Cd"] = sim.medium(service.url) + parameter
        booting_machine.boot_target, booting_machine.boot_enabled = "Cd", "Once"
        sim.press(booting_machine.number, on=True)
    until(lambda: "locked down" in machine.agent)
    until(lambda: other.agent == "idle")
    until(lambda: service.heartbeats)
    assert {other.redfish_address} == {beat[2]["callback_url"] for beat in service.heartbeats}


def test_a_lookup_is_retried_after_conflicts_and_errors(sim, service):
    service.lookup_answers = [409, 500, 404]
    boot_agent(sim, service, sim.machines[0])
    assert [] == service.lookup_answers


def test_the_agent_runs_one_command_at_a_time_and_sends_a_heartbeat_at_its_end(sim, service):
    sim.set_faults(None, step_seconds={"erase_devices": 0.15})
    orders = boot_agent(sim, service, sim.machines[0])
    beats = len(service.heartbeats)
    started = orders.step("clean", "deploy.erase_devices", wait=False)
    assert "RUNNING" == started["command_status"]
    busy = orders.send("standby.sync")
    assert 409 == busy.status_code
    assert "Agent is busy" in busy.json()["faultstring"]
    until(lambda: len(service.heartbeats) > beats)
    assert "SUCCEEDED" == orders.last()["command_status"]


def test_heartbeats_keep_their_interval_and_stop_on_command(sim, service):
    sim.set_faults(0, heartbeat_gap=0.2)
    orders = boot_agent(sim, service, sim.machines[0])
    began = time.monotonic()
    orders.step("clean", "deploy.erase_devices")
    until(lambda: len(service.heartbeats) == 2)
    assert time.monotonic() - began >= 0.15

    service.heartbeat_timeout = 0.05
    boot_agent(sim, service, sim.machines[1])
    until(lambda: len(service.heartbeats) > 5)
    sim.set_faults(1, heartbeats_stop=True)
    until(lambda: "idle" == sim.machines[1].agent)
    orders = Orders(sim.machines[1].redfish_address)
    orders.step("clean", "deploy.erase_devices")  # its end would force a heartbeat
    heard = len(service.heartbeats)
    for _ in range(20):
        orders.last()
    assert len(service.heartbeats) <= heard + 1


def test_invalid_commands_are_refused(sim, service):
    orders = boot_agent(sim, service, sim.machines[0])
    assert 400 == orders.send("nonsense").status_code
    assert 400 == orders.send("standby.nope").status_code
    assert 404 == orders.send("nope.nope").status_code
    redirect = requests.get(f"{orders.url}/v1/commands", allow_redirects=False, timeout=60)
    assert 308 == redirect.status_code


def test_a_step_fails_by_an_injected_fault_or_a_wrong_image_or_version(sim, service):
    orders = boot_agent(sim, service, sim.machines[0])
    sim.set_faults(0, step_fails={"deploy.erase_devices": "the disk is on fire"})
    failed = orders.step("clean", "deploy.erase_devices")
    assert ("FAILED", "the disk is on fire") == (
        failed["command_status"],
        failed["command_error"]["details"],
    )
    info = {"id": "i", "urls": [f"{service.url}/image"], "os_hash_algo": "sha256"}
    wrong = orders.step(
        "deploy", "deploy.write_image", image_info=info | {"os_hash_value": "0" * 64}
    )
    assert "ImageChecksumError" == wrong["command_error"]["type"]
    assert sim.machines[0].disk is None
    mismatch = orders.step("clean", "deploy.erase_devices_metadata", version="0.9")
    assert "CLEAN_VERSION_MISMATCH" == mismatch["command_status"]


def test_an_agent_that_dies_in_a_step_returns_with_the_next_boot(sim, service):
    machine = sim.machines[0]
    sim.set_faults(0, agent_dies="deploy.erase_devices")
    orders = boot_agent(sim, service, machine)
    orders.step("clean", "deploy.erase_devices", wait=False)
    until(lambda: machine.agent == "dead")
    with pytest.raises(requests.ConnectionError):
        orders.last()
    beats = len(service.heartbeats)
    machine.boot_target, machine.boot_enabled = "Cd", "Once"
    connect(machine).get_system().reset_system(sushy.ResetType.FORCE_RESTART)
    until(lambda: len(service.heartbeats) > beats)
    assert "SUCCEEDED" == orders.step("clean", "deploy.erase_devices")["command_status"]


def test_steps_can_be_added_and_changed(sim, service):
    flash = {"interface": "bios", "step": "flash", "priority": 50, "reboot_requested": True}
    sim.set_faults(0, steps={"clean": [flash]}, step_seconds=0)
    orders = boot_agent(sim, service, sim.machines[0])
    offered = orders.run("clean.get_clean_steps")["command_result"]["clean_steps"]
    flash_steps = [step for step in offered["generic_hardware_manager"] if step["step"] == "flash"]
    assert [(50, True)] == [(step["priority"], step["reboot_requested"]) for step in flash_steps]
    assert "SUCCEEDED" == orders.step("clean", "bios.flash")["command_status"]


def test_the_raid_step_of_a_deployment_lists_its_arguments_and_applies_them(sim, service):
    machine = sim.machines[0]
    sim.set_faults(0, step_seconds=0)
    orders = boot_agent(sim, service, machine)
    listed = orders.run("deploy.get_deploy_steps")["command_result"]["deploy_steps"]
    (apply,) = [
        step for step in listed["generic_hardware_manager"] if "apply_configuration" == step["step"]
    ]
    assert {"raid_config": True, "delete_existing": False} == {
        name: arg["required"] for name, arg in apply["argsinfo"].items()
    }
    first_disk, second_disk = ({"size_gb": size, "raid_level": "1"} for size in (10, "MAX"))
    for disk, options, built in (
        (first_disk, {}, [first_disk]),
        (second_disk, {"delete_existing": False}, [first_disk, second_disk]),
        (second_disk, {}, [second_disk]),
    ):
        raid_config = {"logical_disks": [disk]}
        command = orders.step(
            "deploy", "raid.apply_configuration", raid_config=raid_config, **options
        )
        assert {"logical_disks": built} == command["command_result"]["deploy_result"]
        assert built == machine.raid == machine.describe()["raid"]
    failed = orders.step("deploy", "raid.apply_configuration")
    assert "raid_config has no logical_disks" in str(failed["command_error"])
    orders.step("clean", "raid.delete_configuration")
    assert [] == machine.raid


def test_rescue_and_lockdown_end_the_agents_api(sim, service):
    machine, other = sim.machines[:2]
    orders = boot_agent(sim, service, machine)
    command = orders.run("rescue.finalize_rescue", rescue_password="$5$x", hashed=True)
    assert "SUCCEEDED" == command["command_status"]
    until(lambda: machine.agent == "rescued")
    assert "rescue" == machine.runs
    boot_agent(sim, service, other).run("system.lockdown", wait=False)
    until(lambda: other.agent == "locked down")
    with pytest.raises(requests.ConnectionError):
        requests.get(other.redfish_address, timeout=60)


def test_the_network_boots_the_agent_and_it_reports_its_inventory(service):
    pxe = f"ipa-api-url={service.url} ipa-inspection-callback-url={service.url}/v1/continue_inspection"
    with running(machines=1, pxe=pxe, **FAST) as simulator:
        machine = simulator.machines[0]
        machine.boot_target, machine.boot_enabled = "Pxe", "Continuous"
        connect(machine).get_system().reset_system(sushy.ResetType.ON)
        until(lambda: service.heartbeats)
        interfaces = service.inspections[0]["inventory"]["interfaces"]
        assert list(machine.macs) == [interface["mac_address"] for interface in interfaces]
        assert ["node-1"] == service.lookups[0][1]["node_uuid"]


def test_an_agent_that_never_boots_sends_nothing(sim, service):
    machine = sim.machines[0]
    sim.set_faults(0, agent_never_boots=True)
    machine.media["Cd"], machine.boot_target = sim.medium(service.url), "Cd"
    machine.boot_enabled = "Once"
    sim.press(0, on=True)
    until(lambda: machine.runs == "agent")
    assert ("", []) == (machine.agent, service.lookups)


def test_an_agent_runs_without_a_simulated_machine(service):
    async def live():
        orders = []
        agent = Agent(service.url, ["52:54:00:00:00:09"], "127.0.0.1", 0, on_power=orders.append)
        await agent.start()
        try:
            await asyncio.to_thread(until, lambda: service.heartbeats)
            url = service.heartbeats[0][2]["callback_url"]
            await asyncio.to_thread(Orders(url).run, "standby.power_off", wait=False)
            await asyncio.to_thread(until, lambda: orders)
        finally:
            await agent.stop()
        return orders

    assert ["off"] == asyncio.run(asyncio.wait_for(live(), 5))
    assert ["52:54:00:00:00:09"] == service.lookups[0][1]["addresses"]
