"""Secure boot, boot mode and boot device, over HTTP to a simulated BMC."""

import time
from dataclasses import replace

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.errors import Refused, StepFailed
from drivers.core.kinds import boot_settings
from drivers.core.registry import load
from drivers.core.steps import Done
from drivers.redfish.booting import boot_device
from drivers.redfish.transport import client
from drivers.simulator.redfish_bmc import system

from .conftest import finish, orders


def test_secure_boot_is_changed_once(node, management, machine):
    machine.boot_mode = "UEFI"
    management.change_secure_boot(node, True)
    assert (True, {"secure_boot": True}) == (management.get_secure_boot(node), node.reports)
    count = len(orders(machine))
    management.change_secure_boot(node, True)
    assert count == len(orders(machine))


def test_secure_boot_without_uefi_is_refused_by_the_bmc(node, management, machine):
    machine.boot_mode, machine.secure_boot = "Legacy", False
    with pytest.raises(Refused, match="UEFI"):
        management.set_secure_boot(node, True)
    machine.boot_mode = "UEFI"


def test_the_boot_mode_is_changed_once(node, management, machine):
    management.change_boot_mode(node, "bios")
    assert {"boot_mode": "bios"} == node.reports
    count = len(orders(machine))
    management.change_boot_mode(node, "bios")
    assert count == len(orders(machine))
    management.change_boot_mode(node, "uefi")


@pytest.fixture
def pending(machine, monkeypatch):
    """A machine whose boot mode changes only with a start, as on BMCs with a job for it."""
    orders = []

    def order(_bmc, **values):
        orders.append(values)
        if "mode" in values and "target" not in values:
            machine.at_start.append(lambda: setattr(machine, "boot_mode", values["mode"]))

    monkeypatch.setattr(client.Connection, "set_boot", order)
    monkeypatch.setattr(boot_settings, "POLL_INTERVAL", 0.05)
    monkeypatch.setattr(boot_device, "LOOK_INTERVAL", 0.0)
    yield orders
    machine.at_start.clear()
    machine.boot_mode = "UEFI"


@pytest.mark.parametrize("power", ["On", "Off"])
def test_a_boot_mode_that_needs_a_restart_gets_one_and_the_power_state_stays(
    node, management, machine, pending, power
):
    finish(node, "power", {"On": "power_on", "Off": "power_off"}[power])
    boots = machine.boots
    outcome, _ = finish(node, "management", "change_boot_mode", mode="bios")
    assert (Done(), "bios", power) == (outcome, management.get_boot_mode(node), machine.power)
    assert ("Legacy", boots + 1) == (machine.boot_mode, machine.boots)
    assert [{"mode": "Legacy"}] == [order for order in pending if "target" not in order]


def test_a_boot_mode_that_no_restart_applies_fails_in_words(
    node, management, machine, pending, monkeypatch
):
    finish(node, "power", "power_off")
    monkeypatch.setattr(boot_settings, "POLL_INTERVAL", 450.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    node = replace(node, progress={"was": "power off", "effect": {"looks": 2}})
    with pytest.raises(StepFailed, match=r"boot mode of node .* is uefi, not bios as ordered"):
        management.change_boot_mode(node, "bios")


def test_the_outcome_of_the_restart_is_not_awaited_without_a_time_for_it(node, machine, pending):
    finish(node, "power", "power_off")
    options = {**node.options["redfish"], "boot_mode_config_timeout": 0}
    node = replace(node, options={**node.options, "redfish": options})
    boots = machine.boots
    outcome, _ = finish(node, "management", "change_boot_mode", mode="bios")
    assert (Done(), boots + 1) == (outcome, machine.boots)


def later(node):
    """Return the node as its next operation gets it, with the reports recorded."""
    internal_info = {**node.driver_internal_info, **node.reports.get("driver_internal_info", {})}
    return replace(node, driver_internal_info=internal_info, reports={}, progress={})


def boot_orders(machine):
    return [entry["detail"] for entry in machine.log if entry["what"] == "boot device"]


def once(device, **fields):
    override = {"BootSourceOverrideTarget": device, "BootSourceOverrideEnabled": "Once"}
    return {**override, **fields}


@pytest.fixture
def forgetful(fleet, node, machine):
    """A machine that is off, whose BMC accepts a boot device for one start only."""
    finish(node, "power", "power_off")
    machine.boot_target, machine.boot_enabled = "None", "Disabled"
    fleet.set_faults(0, boot_once_only=True)
    machine.log.clear()
    yield machine
    fleet.set_faults(0, boot_once_only=None, boot_choices_hidden=None)


@pytest.mark.parametrize("hidden", [False, True], ids=["listed", "refused"])
def test_a_persistent_boot_device_is_set_again_at_each_start_if_the_bmc_accepts_only_once(
    fleet, node, management, forgetful, hidden
):
    fleet.set_faults(0, boot_choices_hidden=hidden)
    management.set_boot_device(node, "disk", persistent=True)
    assert {"boot_device": "disk", "persistent": True} == management.get_boot_device(node)
    node = later(node)
    assert {"boot_device": "disk", "persistent": True} == management.get_boot_device(node)
    assert [once("Hdd")] == boot_orders(forgetful)
    finish(node, "power", "power_on")
    assert [once("Hdd")] * 2 == boot_orders(forgetful)
    until_booted(forgetful)
    assert "Disabled" == forgetful.boot_enabled
    finish(node, "power", "reboot")
    assert [once("Hdd")] * 3 == boot_orders(forgetful)
    until_booted(forgetful)
    finish(replace(node, disable_power_off=True), "power", "reboot")  # a reset
    assert [once("Hdd")] * 4 == boot_orders(forgetful)


def until_booted(machine):
    for _ in range(200):
        if machine.runs not in ("off", "starting"):
            return
        time.sleep(0.02)
    raise AssertionError(f"it is {machine.runs}")


def test_a_boot_device_for_one_start_replaces_the_persistent_one(node, management, forgetful):
    management.set_boot_device(node, "disk", persistent=True)
    node = later(node)
    management.set_boot_device(node, "pxe")
    assert {"boot_device": "pxe", "persistent": False} == management.get_boot_device(node)
    node = later(node)
    finish(node, "power", "power_on")
    until_booted(forgetful)
    finish(node, "power", "reboot")
    assert [once("Hdd"), once("Pxe")] == boot_orders(forgetful)


def test_the_uefi_boot_url_is_set_again_with_its_device(node, forgetful):
    boot = load(HARDWARE_TYPES, ["redfish"]).types["redfish"]["boot"]["redfish-https"]
    boot.bmcs = node.driver.boot.bmcs
    boot.set_image(node, "http://images/live.iso", persistent=True)
    node = later(node)
    finish(node, "power", "power_on")
    until_booted(forgetful)
    forgetful.boot_uri = ""
    finish(node, "power", "reboot")
    assert [once("UefiHttp", HttpBootUri="http://images/live.iso")] * 3 == boot_orders(forgetful)


def test_a_refused_boot_device_does_not_fail_the_start(node, forgetful):
    internal_info = {"redfish_boot_device": "disk"}
    node = replace(node, driver_internal_info=internal_info)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system, "BOOT_ENABLED", ["Disabled"])
        finish(node, "power", "power_on")
    assert ("On", []) == (forgetful.power, boot_orders(forgetful))


def test_boot_settings_that_are_refused_in_post_are_retried(fleet, node, management, machine):
    fleet.set_faults(0, boot_fixed_in_post=True, boot_seconds=60)
    try:
        finish(node, "power", "reboot")
        with pytest.raises(Refused, match="POST") as raised:
            management.set_boot_device(node, "cdrom", persistent=True)
        assert (True, {}) == (raised.value.retryable, node.reports)
    finally:
        fleet.set_faults(0, boot_fixed_in_post=None, boot_seconds=None)
