"""The simulator through its clients: sushy for the BMC, a small service for the agent."""

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import sushy

from drivers.simulator import media
from drivers.simulator.agent import Agent
from drivers.simulator.fault_settings import BadFault
from drivers.simulator.faults import Faults
from drivers.simulator.simulator import Simulator, running
from tests.support.fleet import until
from tests.support.web import Handler, serving

TOKEN = "t" * 43
IMAGE = b"an operating system" * 5000
FAST = {"boot_seconds": 0.0, "heartbeat_gap": 0.0, "retry_factor": 0.002}


class Service(Handler):
    """The service's side of the agent's protocol, and a web server with an image."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        where, service = urlsplit(self.path), self.server
        if where.path == "/":
            self.answer(200, {"default_version": {"id": "v1", "version": "1.115"}})
        elif where.path == "/image":
            self.answer(200, IMAGE)
        elif service.lookup_answers:
            self.answer(service.lookup_answers.pop(0))
        else:
            version = self.headers["X-OpenStack-Ironic-API-Version"]
            service.lookups.append((version, parse_qs(where.query)))
            config = {"heartbeat_timeout": service.heartbeat_timeout, "agent_token": service.token}
            self.answer(200, {"node": {"uuid": "node-1"}, "config": config})

    def do_POST(self):
        body = self.body()
        if self.path == "/v1/continue_inspection":
            self.server.inspections.append(body)
            self.answer(202, {"uuid": "node-1"})
        else:
            version = self.headers["X-OpenStack-Ironic-API-Version"]
            self.server.heartbeats.append((version, self.path, body))
            self.answer(202)


@pytest.fixture
def service():
    facts = {"lookups": [], "heartbeats": [], "inspections": []}
    facts |= {"token": TOKEN, "heartbeat_timeout": 300}
    # lookup_answers: statuses of the lookups before the first success
    with serving(Service, lookup_answers=[], **facts) as server:
        yield server


@pytest.fixture
def sim():
    with running(machines=3, **FAST) as simulator:
        yield simulator


@pytest.fixture
def bmc(sim):
    return connect(sim.machines[0])


def connect(machine):
    """Connect sushy without a session, which it would end from the garbage collector's thread."""
    login = sushy.auth.BasicAuth("admin", "admin")
    return sushy.Sushy(machine.redfish_address, auth=login, server_side_retries=0)


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
    before = len(service.heartbeats)
    system.reset_system(sushy.ResetType.ON)
    until(lambda: len(service.heartbeats) > before)
    return Orders(service.heartbeats[-1][2]["callback_url"])


def what(machine, kind):
    return [entry["what"] for entry in machine.log if entry["kind"] == kind]


# The BMC


def test_power_commands_of_sushy_take_effect_and_are_logged(sim, bmc):
    machine, system = sim.machines[0], bmc.get_system(sim.machines[0].system_id)
    assert sushy.PowerState.OFF == system.power_state
    system.reset_system(sushy.ResetType.ON)
    system.refresh()
    assert sushy.PowerState.ON == system.power_state
    system.reset_system(sushy.ResetType.FORCE_RESTART)
    system.reset_system(sushy.ResetType.NMI)
    assert ("hung", 2) == (machine.runs, machine.boots)
    system.reset_system(sushy.ResetType.FORCE_OFF)
    assert ("Off", "off") == (machine.power, machine.runs)
    assert ["power on", "restart", "nmi", "power off"] == what(machine, "redfish")
    with pytest.raises(sushy.exceptions.HTTPError) as refused:
        system.reset_system(sushy.ResetType.FORCE_RESTART)
    assert 409 == refused.value.status_code


def test_a_machine_without_a_system_ignores_a_soft_power_off(sim, bmc):
    machine, system = sim.machines[0], bmc.get_system()
    system.reset_system(sushy.ResetType.ON)
    until(lambda: machine.runs == "no bootable device")
    system.reset_system(sushy.ResetType.GRACEFUL_SHUTDOWN)
    assert "On" == machine.power


def test_the_power_state_changes_after_its_delay(sim, bmc):
    system = bmc.get_system()
    sim.set_faults(0, power_on_seconds=0.1)
    started = time.monotonic()
    system.reset_system(sushy.ResetType.ON)
    system.refresh()
    assert sushy.PowerState.OFF == system.power_state
    until(lambda: sim.machines[0].power == "On")
    assert time.monotonic() - started >= 0.1


def test_a_command_replaces_one_that_is_still_running(sim, bmc):
    machine, system = sim.machines[0], bmc.get_system()
    sim.set_faults(0, power_on_seconds=0.1)
    system.reset_system(sushy.ResetType.ON)
    system.reset_system(sushy.ResetType.FORCE_OFF)
    sim.set_faults(0, power_on_seconds=0.3)
    started = time.monotonic()
    system.reset_system(sushy.ResetType.ON)
    until(lambda: machine.power == "On")
    assert time.monotonic() - started >= 0.3


def test_a_stuck_power_accepts_commands_and_does_nothing(sim, bmc):
    sim.set_faults(0, power_stuck=True)
    bmc.get_system().reset_system(sushy.ResetType.ON)
    assert "Off" == sim.machines[0].power


def test_boot_settings_are_kept_and_a_one_time_override_is_cleared_by_its_use(sim, bmc):
    machine, system = sim.machines[0], bmc.get_system()
    system.set_system_boot_options(
        sushy.BootSource.UEFI_HTTP,
        sushy.BootSourceOverrideEnabled.ONCE,
        sushy.BootSourceOverrideMode.UEFI,
        http_boot_uri=f"{sim.url}/nothing",
    )
    system.refresh()
    assert f"{sim.url}/nothing" == system.boot.http_boot_uri
    assert sushy.BootSource.UEFI_HTTP == system.boot.target
    system.reset_system(sushy.ResetType.ON)
    until(lambda: machine.runs == "no bootable device")
    assert "cannot boot UefiHttp" in what(machine, "machine")
    system.refresh()
    assert sushy.BootSourceOverrideEnabled.DISABLED == system.boot.enabled
    system.set_system_boot_options(
        sushy.BootSource.PXE,
        sushy.BootSourceOverrideEnabled.CONTINUOUS,
        sushy.BootSourceOverrideMode.LEGACY,
    )
    system.reset_system(sushy.ResetType.FORCE_RESTART)
    until(lambda: machine.runs == "no bootable device")
    system.refresh()
    assert sushy.BootSource.PXE == system.boot.target
    assert sushy.BootSourceOverrideMode.LEGACY == system.boot.mode


def test_virtual_media_accepts_one_medium_at_a_time(sim, bmc):
    media_of = {each.identity: each for each in bmc.get_manager().virtual_media.get_members()}
    drive = media_of["Cd"]
    drive.insert_media("http://127.0.0.1:1/a.iso")
    drive.refresh()
    assert (True, "http://127.0.0.1:1/a.iso") == (drive.inserted, drive.image)
    with pytest.raises(sushy.exceptions.HTTPError):
        drive.insert_media("http://127.0.0.1:1/b.iso")
    drive.eject_media()
    drive.refresh()
    assert not drive.inserted
    assert ["insert media", "eject media"] == what(sim.machines[0], "redfish")


def test_bios_attributes_are_pending_until_the_next_reset(bmc):
    system = bmc.get_system()
    system.bios.set_attribute("ProcTurboMode", "Disabled")
    assert "Enabled" == system.bios.attributes["ProcTurboMode"]
    assert "Disabled" == system.bios.pending_attributes["ProcTurboMode"]
    system.reset_system(sushy.ResetType.ON)
    system.bios.refresh(force=True)
    assert "Disabled" == system.bios.attributes["ProcTurboMode"]
    names = [each.name for each in system.bios.get_attribute_registry().registry_entries.attributes]
    assert "SriovGlobalEnable" in names
    for bad in ({"NoSuch": 1}, {"ProcTurboMode": "Maybe"}):
        with pytest.raises(sushy.exceptions.BadRequestError):
            system.bios.set_attributes(bad)
    system.bios.reset_bios()
    system.reset_system(sushy.ResetType.FORCE_RESTART)
    system.bios.refresh(force=True)
    assert "Enabled" == system.bios.attributes["ProcTurboMode"]


def test_secure_boot_takes_effect_at_the_next_boot_and_needs_uefi(bmc):
    system = bmc.get_system()
    system.secure_boot.set_enabled(True)
    system.secure_boot.refresh(force=True)
    now = sushy.SecureBootCurrentBoot
    assert (True, now.DISABLED) == (system.secure_boot.enabled, system.secure_boot.current_boot)
    system.reset_system(sushy.ResetType.ON)
    system.secure_boot.refresh(force=True)
    assert now.ENABLED == system.secure_boot.current_boot
    system.set_system_boot_options(mode=sushy.BootSourceOverrideMode.LEGACY)
    with pytest.raises(sushy.exceptions.HTTPError):
        system.secure_boot.set_enabled(True)


def test_sushy_reads_the_hardware_of_a_machine(sim, bmc):
    machine, system = sim.machines[0], bmc.get_system()
    assert set(machine.macs) == {mac.lower() for mac in system.ethernet_interfaces.summary}
    assert machine.memory_gib == system.memory_summary.size_gib
    assert machine.cpus == system.processors.get_members()[0].total_threads
    assert [machine.disk_bytes] == system.simple_storage.disks_sizes_bytes
    assert 4 == len(system.storage.get_members()[0].drives)
    assert machine.uuid == system.uuid
    assert system.chassis[0].thermal.temperatures[0].reading_celsius
    assert system.chassis[0].power.power_supplies[0].power_capacity_watts
    assert "2.10" == system.managers[0].firmware_version
    system.set_indicator_led(sushy.IndicatorLED.LIT)
    system.refresh()
    assert sushy.IndicatorLED.LIT == system.indicator_led


def test_sushy_creates_and_deletes_a_volume(sim, bmc):
    storage = bmc.get_system().storage.get_members()[0]
    drives = [{"@odata.id": each.path} for each in storage.drives[:2]]
    volume = storage.volumes.create({"RAIDType": "RAID1", "Links": {"Drives": drives}})
    assert sushy.RAIDType.RAID1 == volume.raid_type
    drive = storage.drives[0]
    drive.refresh(force=True)
    assert [volume.path] == [each.path for each in drive.volumes]
    volume.delete()
    storage.volumes.refresh(force=True)
    assert [] == storage.volumes.get_members()


def test_a_firmware_update_is_a_task_and_changes_the_version(sim, bmc):
    sim.set_faults(0, task_seconds=0.1)
    service = bmc.get_update_service()
    part = next(
        each for each in service.firmware_inventory.get_members() if each.identity == "BIOS"
    )
    monitor = service.simple_update("http://127.0.0.1:1/bios-9.bin", targets=[part.path])
    assert sushy.TASK_STATE_RUNNING == monitor.task.task_state
    assert "1.0.0" == part.version
    until(lambda: not monitor.check_is_processing)
    until(lambda: part.refresh() or "bios-9" == part.version)


def test_wrong_credentials_are_refused(sim):
    machine = sim.machines[0]
    url = f"{machine.redfish_address}{machine.system_id}"
    assert 401 == requests.get(url, timeout=60).status_code
    assert 401 == requests.get(url, auth=("admin", "wrong"), timeout=60).status_code
    assert 200 == requests.get(url, auth=("admin", "admin"), timeout=60).status_code
    with pytest.raises(sushy.exceptions.AccessError):
        sushy.Sushy(machine.redfish_address, "admin", "wrong").get_system()


def test_a_session_is_opened_renewed_when_the_bmc_has_lost_it_and_closed(sim):
    machine = sim.machines[0]
    client = sushy.Sushy(machine.redfish_address, "admin", "admin")
    first = dict(machine.sessions)
    assert 1 == len(first)
    machine.sessions.clear()
    assert machine.uuid == client.get_system().uuid
    assert 1 == len(machine.sessions)
    assert first != machine.sessions
    client._auth.close()
    assert {} == machine.sessions


def test_a_machine_does_not_serve_the_system_of_another(sim, bmc):
    with pytest.raises(sushy.exceptions.ResourceNotFoundError):
        bmc.get_system(sim.machines[1].system_id)


def test_equal_seeds_give_equal_machines_and_errors():
    def errors(seed):
        with running(machines=1, seed=seed, error_rate=0.5) as simulator:
            machine = simulator.machines[0]
            url = f"{machine.redfish_address}/redfish/v1/"
            return machine.uuid, [requests.get(url, timeout=60).status_code for _ in range(20)]

    first = errors(7)
    assert first == errors(7)
    assert {200, 500} == set(first[1])
    assert first[0] != errors(8)[0]


def test_a_dead_bmc_closes_connections_and_a_silent_one_never_answers(sim):
    url = f"{sim.machines[0].redfish_address}/redfish/v1/"
    sim.set_faults(0, bmc_dead=True)
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=60)
    sim.set_faults(0, bmc_dead=None, bmc_silent=True)
    with pytest.raises(requests.ReadTimeout):
        requests.get(url, timeout=0.1)
    other = f"{sim.machines[1].redfish_address}/redfish/v1/"
    assert 200 == requests.get(other, timeout=60).status_code


# The agent


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
        each["step"]: each["priority"]
        for each in offered["clean_steps"]["generic_hardware_manager"]
    }
    assert (99, 10, 0) == (
        steps["erase_devices_metadata"],
        steps["erase_devices"],
        steps["create_configuration"],
    )
    done = orders.step("clean", "deploy.erase_devices")
    assert ("SUCCEEDED", "erase_devices") == (
        done["command_status"],
        done["command_result"]["clean_step"]["step"],
    )

    sha256 = hashlib.sha256(IMAGE).hexdigest()
    info = {"id": "disk.raw", "urls": [f"{service.url}/image"]}
    info |= {"os_hash_algo": "sha256", "os_hash_value": sha256}
    written = orders.step("deploy", "deploy.write_image", image_info=info, configdrive="H4sI")
    assert "SUCCEEDED" == written["command_status"]
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
    for each, more in ((machine, ""), (other, f"&ipa-agent-token={TOKEN}")):
        each.media["Cd"] = sim.medium(service.url) + more
        each.boot_target, each.boot_enabled = "Cd", "Once"
        sim.press(each.number, on=True)
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
    found = [each for each in offered["generic_hardware_manager"] if each["step"] == "flash"]
    assert [(50, True)] == [(each["priority"], each["reboot_requested"]) for each in found]
    assert "SUCCEEDED" == orders.step("clean", "bios.flash")["command_status"]


def test_the_raid_step_of_a_deployment_lists_its_arguments_and_applies_them(sim, service):
    machine = sim.machines[0]
    sim.set_faults(0, step_seconds=0)
    orders = boot_agent(sim, service, machine)
    listed = orders.run("deploy.get_deploy_steps")["command_result"]["deploy_steps"]
    (apply,) = [
        each for each in listed["generic_hardware_manager"] if "apply_configuration" == each["step"]
    ]
    assert {"raid_config": True, "delete_existing": False} == {
        name: arg["required"] for name, arg in apply["argsinfo"].items()
    }
    first, second = ({"size_gb": size, "raid_level": "1"} for size in (10, "MAX"))
    for disk, kept, built in (
        (first, {}, [first]),
        (second, {"delete_existing": False}, [first, second]),
        (second, {}, [second]),
    ):
        wanted = {"logical_disks": [disk]}
        done = orders.step("deploy", "raid.apply_configuration", raid_config=wanted, **kept)
        assert {"logical_disks": built} == done["command_result"]["deploy_result"]
        assert built == machine.raid == machine.describe()["raid"]
    failed = orders.step("deploy", "raid.apply_configuration")
    assert "raid_config has no logical_disks" in str(failed["command_error"])
    orders.step("clean", "raid.delete_configuration")
    assert [] == machine.raid


def test_rescue_and_lockdown_end_the_agents_api(sim, service):
    machine, other = sim.machines[:2]
    orders = boot_agent(sim, service, machine)
    done = orders.run("rescue.finalize_rescue", rescue_password="$5$x", hashed=True)
    assert "SUCCEEDED" == done["command_status"]
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
        found = service.inspections[0]["inventory"]["interfaces"]
        assert list(machine.macs) == [each["mac_address"] for each in found]
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


# Media, faults, control


def test_parameters_are_found_anywhere_in_an_image(sim, tmp_path):
    line = b" ipa-api-url=http://192.0.2.1:6385/ ipa-insecure=1\n"
    for offset in (0, media.CHUNK - 10, media.CHUNK - len(line) + 2, 2 * media.CHUNK):
        image = tmp_path / "image"
        image.write_bytes(bytes(offset) + line)
        found = asyncio.run(media.scan(None, image.as_uri()))
        assert {"ipa-api-url": "http://192.0.2.1:6385/", "ipa-insecure": "1"} == found


def test_faults_are_set_over_http_and_a_bad_one_is_named(sim):
    faults = f"{sim.url}/sim/machines/2/faults"
    given = requests.post(faults, json={"latency": 0.01, "step_fails": {"x": "y"}}, timeout=60)
    assert 0.01 == given.json()["latency"] == sim.machines[2].faults.latency
    assert 0.0 == sim.machines[1].faults.latency
    requests.post(f"{sim.url}/sim/faults", json={"latency": 0.02, "drop_rate": 0.5}, timeout=60)
    assert [0.02, 0.02, 0.01] == [each.faults.latency for each in sim.machines]
    requests.post(faults, json={"latency": None}, timeout=60)
    assert 0.02 == sim.machines[2].faults.latency
    for bad in ({"latencyy": 1}, {"drop_rate": 2}, {"bmc_dead": "yes"}, {"step_fails": 3}):
        refused = requests.post(faults, json=bad, timeout=60)
        assert 400 == refused.status_code
        assert next(iter(bad)) in refused.json()["error"]
    assert 400 == requests.post(faults, data="{", timeout=60).status_code
    with pytest.raises(BadFault, match="no_such"):
        Simulator(machines=1, no_such=1)


def test_the_control_endpoint_shows_machines_and_their_logs(sim):
    machine = sim.machines[2]
    connect(machine).get_system().reset_system(sushy.ResetType.ON)
    listed = requests.get(f"{sim.url}/sim/machines", timeout=60).json()
    assert [each.uuid for each in sim.machines] == [each["uuid"] for each in listed]
    assert ["Off", "Off", "On"] == [each["power"] for each in listed]
    log = requests.get(f"{sim.url}/sim/machines/2/log", timeout=60).json()
    assert ("redfish", "power on", "On") == tuple(log[0][key] for key in ("kind", "what", "detail"))
    requests.post(f"{sim.url}/sim/machines/2/power", json={"state": "off"}, timeout=60)
    until(lambda: machine.power == "Off")
    assert ["power on"] == what(machine, "redfish")
    assert 404 == requests.get(f"{sim.url}/sim/machines/3", timeout=60).status_code


def test_the_defaults_of_a_fault_are_those_of_the_real_agent():
    assert (5.0, 1.0) == (Faults().heartbeat_gap, Faults().retry_factor)


def test_the_program_reports_when_it_is_ready_and_stops_on_sigterm(tmp_path):
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "drivers.simulator", "--machines", "2"]
    faults = tmp_path / "faults.toml"
    faults.write_text("[all]\nlatency = 0.5\n[machines.1]\npages = { size = 7 }\n")
    command += ["--ready-file", str(ready), "--set", "latency=0.01", "--faults", str(faults)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        try:
            printed = json.loads(program.stdout.readline())
            assert printed == json.loads(ready.read_text())
            assert 2 == len(printed["machines"])
            shown = requests.get(f"{printed['url']}/sim/faults", timeout=60).json()
            assert (0.01, False) == (shown["latency"], "pages" in shown)
            shown = requests.get(f"{printed['url']}/sim/machines/1/faults", timeout=60).json()
            assert (0.01, 7) == (shown["latency"], shown["pages"]["size"])
        finally:
            program.send_signal(signal.SIGTERM)
        assert 0 == program.wait(60)


def test_the_program_refuses_a_wrong_file_of_faults(tmp_path):
    faults = tmp_path / "faults.toml"
    faults.write_text("[all]\nbusyness = 1\n")
    command = [sys.executable, "-m", "drivers.simulator", "--faults", str(faults)]
    program = subprocess.run(command, check=False, capture_output=True, text=True)
    assert 1 == program.returncode
    assert program.stderr.startswith(f"{faults}: [all] unknown fault 'busyness'; known: ")
    assert "Traceback" not in program.stderr
