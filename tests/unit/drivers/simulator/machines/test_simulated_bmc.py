"""Simulated BMCs through sushy."""

import time

import pytest
import requests
import sushy

from drivers.simulator.simulator import running
from tests.support.fleet import until

from .conftest import connect, what


@pytest.fixture
def bmc(sim):
    return connect(sim.machines[0])


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
    sim.set_faults(0, power_on_seconds=600)
    system.reset_system(sushy.ResetType.ON)
    system.refresh()
    assert sushy.PowerState.OFF == system.power_state
    assert "On" == sim.next_power_state(0)
    system.reset_system(sushy.ResetType.FORCE_OFF)
    assert "" == sim.next_power_state(0)
    sim.set_faults(0, power_on_seconds=0.1)
    started = time.monotonic()
    system.reset_system(sushy.ResetType.ON)
    until(lambda: sim.machines[0].power == "On")
    assert time.monotonic() - started >= 0.1
    assert "" == sim.next_power_state(0)


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
    media_of = {member.identity: member for member in bmc.get_manager().virtual_media.get_members()}
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
    names = [
        attribute.name
        for attribute in system.bios.get_attribute_registry().registry_entries.attributes
    ]
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
    drives = [{"@odata.id": member.path} for member in storage.drives[:2]]
    volume = storage.volumes.create({"RAIDType": "RAID1", "Links": {"Drives": drives}})
    assert sushy.RAIDType.RAID1 == volume.raid_type
    drive = storage.drives[0]
    drive.refresh(force=True)
    assert [volume.path] == [listed_volume.path for listed_volume in drive.volumes]
    volume.delete()
    storage.volumes.refresh(force=True)
    assert [] == storage.volumes.get_members()


def test_a_firmware_update_is_a_task_and_changes_the_version(sim, bmc):
    sim.set_faults(0, task_seconds=0.1)
    service = bmc.get_update_service()
    part = next(
        member for member in service.firmware_inventory.get_members() if member.identity == "BIOS"
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
    sessions = dict(machine.sessions)
    assert 1 == len(sessions)
    machine.sessions.clear()
    assert machine.uuid == client.get_system().uuid
    assert 1 == len(machine.sessions)
    assert sessions != machine.sessions
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

    result = errors(7)
    assert result == errors(7)
    assert {200, 500} == set(result[1])
    assert result[0] != errors(8)[0]


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
