"""Redfish features beyond power and boot device, over HTTP to a simulated BMC."""

import time
from dataclasses import replace

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core import boot_settings
from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    InvalidDriverInfo,
    NotFound,
    NotSupported,
    Refused,
    StepFailed,
    Unexpected,
)
from drivers.core.registry import load
from drivers.core.steps import Done, Wait
from drivers.redfish.booting import boot_device
from drivers.redfish.transport import client
from drivers.simulator import system
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import OPTIONS, target


@pytest.fixture(scope="module")
def fleet():
    with running(machines=2, power_off_seconds=0.05) as simulator:
        yield simulator


@pytest.fixture
def machine(fleet):
    """A machine with the same settings and firmware for each test."""
    machine = fleet.machines[0]
    bios, firmware = dict(machine.bios), dict(machine.firmware)
    yield machine
    machine.settle()
    machine.bios, machine.firmware, machine.boot_uri = bios, firmware, ""


@pytest.fixture
def node(fleet, machine):
    options = {**OPTIONS["redfish"], "firmware_update_overall_timeout": 60}
    return target(
        "redfish",
        registry=load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100)),
        uuid=machine.uuid,
        driver_info=machine.driver_info() | {"deploy_iso": fleet.medium("http://127.0.0.1:1")},
        options={**OPTIONS, "redfish": options},
    )


@pytest.fixture
def management(node):
    return node.driver.management


def orders(machine):
    return [each["what"] for each in machine.log if each["kind"] == "redfish"]


def finish(node, kind, step, **args):
    """Call a step until it ends; return its outcome and its reports."""
    node = replace(node, reports={})
    for _ in range(200):
        outcome = node.driver.by_kind[kind].run(node, step, args)
        if not isinstance(outcome, Wait):
            return outcome, node.reports
        time.sleep(0.02)
        node = replace(node, progress=outcome.progress, reports={})
    raise AssertionError(f"no end: {outcome}")


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
    known = {**node.driver_internal_info, **node.reports.get("driver_internal_info", {})}
    return replace(node, driver_internal_info=known, reports={}, progress={})


def boot_orders(machine):
    return [each["detail"] for each in machine.log if each["what"] == "boot device"]


def once(device, **more):
    wanted = {"BootSourceOverrideTarget": device, "BootSourceOverrideEnabled": "Once"}
    return {**wanted, **more}


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
    known = {"redfish_boot_device": "disk"}
    node = replace(node, driver_internal_info=known)
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


def test_an_nmi_is_injected(node, management, machine):
    finish(node, "power", "power_off")
    with pytest.raises(Refused, match="off"):
        management.inject_nmi(node)
    finish(node, "power", "power_on")
    management.inject_nmi(node)
    assert "nmi" == orders(machine)[-1]


def test_sensors_are_temperatures_fans_and_power(node, management):
    finish(node, "power", "power_on")
    found = {each["name"]: each for each in management.sensors(node)}
    assert found["Inlet"] == {
        "name": "Inlet", "kind": "temperature", "reading": 24.0, "unit": "°C", "health": "ok",
    }  # fmt: skip
    assert ("fan", 4200.0, "RPM") == tuple(
        found["Fan 0"][key] for key in ("kind", "reading", "unit")
    )
    assert ("power", 210.0, "W") == tuple(
        found["Power Supply 0"][key] for key in ("kind", "reading", "unit")
    )
    finish(node, "power", "power_off")
    now = {each["name"]: each["reading"] for each in management.sensors(node)}
    assert (0.0, 20.0) == (now["Fan 0"], now["Inlet"])


def test_indicators_of_system_chassis_and_drives_are_switched(node, management, machine):
    known = {(each["component"], each["name"]) for each in management.indicators(node)}
    assert {("system", "led"), ("chassis", "Chassis"), ("disk", "2")} <= known
    for component, name in (("system", "led"), ("disk", "2")):
        management.set_indicator(node, component, name, "blinking")
        assert "blinking" == management.get_indicator(node, component, name)
    assert {2: "Blinking"} == machine.drive_indicators
    with pytest.raises(NotSupported, match="led@system"):
        management.get_indicator(node, "disk", "99")
    with pytest.raises(NotSupported, match="unknown"):
        management.set_indicator(node, "system", "led", "unknown")


def test_virtual_media_are_attached_shown_and_detached(node, management, machine):
    management.attach_virtual_media(node, "cdrom", "http://images/a.iso")
    management.attach_virtual_media(node, "disk", "http://images/b.img")
    shown = {each["image"]: each["media_types"] for each in management.virtual_media(node)}
    assert "CD" in shown["http://images/a.iso"]
    assert "USBStick" in shown["http://images/b.img"]
    management.attach_virtual_media(
        node, "cdrom", "http://images/c.iso"
    )  # it replaces the first medium
    assert "http://images/c.iso" == machine.media["Cd"]
    management.detach_virtual_media(node, ["disk"])
    assert {"Cd": "http://images/c.iso", "Floppy": ""} == machine.media
    vendor = node.driver.vendor
    vendor.call(node, "eject_vmedia", {"boot_device": "cd"})
    assert {"Cd": "", "Floppy": ""} == machine.media
    with pytest.raises(InvalidDriverInfo, match="boot_device"):
        vendor.call(node, "eject_vmedia", {"boot_device": "tape"})


HEADERS = [{"Authorization": "Basic c2VjcmV0"}]


def test_subscriptions_are_created_shown_and_deleted(node, machine):
    vendor = node.driver.vendor
    given = {"Destination": "https://192.0.2.1/events", "HttpHeaders": HEADERS, "Context": "c"}
    created = vendor.call(node, "create_subscription", given)
    assert {
        "Id": created["Id"],
        "Destination": "https://192.0.2.1/events",
        "Context": "c",
        "Protocol": "Redfish",
        "EventTypes": ["Alert"],
    } == created
    assert HEADERS == machine.log[-1]["detail"]["HttpHeaders"]
    by_id = {"id": created["Id"]}
    assert created == vendor.call(node, "get_subscription", by_id)
    (member,) = vendor.call(node, "get_all_subscriptions", {})["Members"]
    assert member["@odata.id"].endswith(created["Id"])
    assert None is vendor.call(node, "delete_subscription", by_id)
    assert [] == vendor.call(node, "get_all_subscriptions", {})["Members"]
    for function in ("get_subscription", "delete_subscription"):
        with pytest.raises(NotFound, match=created["Id"]):
            vendor.call(node, function, by_id)


@pytest.mark.parametrize(
    "wrong",
    [
        {"Destination": "192.0.2.1"},
        {"Destination": 7},
        {"Destination": "https:///events"},
        {"EventTypes": ["Alert", "Fire"]},
        {"EventTypes": "Alert"},
        {"HttpHeaders": {"a": "b"}},
        {"Context": 1},
        {"Protocol": None},
    ],
)
def test_a_wrong_subscription_is_refused_with_its_argument_and_nothing_is_sent(
    node, machine, wrong
):
    count = len(machine.log)
    given = {"Destination": "https://192.0.2.1/events", **wrong}
    with pytest.raises(InvalidDriverInfo, match=f"^{next(iter(wrong))}: "):
        node.driver.vendor.call(node, "create_subscription", given)
    assert count == len(machine.log)


def test_bios_settings_are_read_with_the_facts_of_the_registry(node):
    outcome, reports = finish(node, "bios", "cache_bios_settings")
    found = {each["name"]: each for each in reports["bios_settings"]}
    assert Done() == outcome
    assert ("On", ["On", "Off"], "Enumeration") == (
        found["NumLock"]["value"],
        found["NumLock"]["allowable_values"],
        found["NumLock"]["attribute_type"],
    )
    assert 921600 == found["SerialBaudRate"]["upper_bound"]


def test_bios_settings_are_applied_by_a_restart_only_if_they_differ(node, machine):
    wanted = [{"name": "NumLock", "value": "Off"}, {"name": "SerialBaudRate", "value": 9600}]
    outcome, reports = finish(node, "bios", "apply_configuration", settings=wanted)
    assert Done() == outcome
    assert ("Off", 9600, "On") == (
        machine.bios["NumLock"],
        machine.bios["SerialBaudRate"],
        machine.power,
    )
    found = {each["name"]: each["value"] for each in reports["bios_settings"]}
    assert ("Off", 9600) == (found["NumLock"], found["SerialBaudRate"])
    count = len(orders(machine))
    assert Done() == finish(node, "bios", "apply_configuration", settings=wanted)[0]
    assert count == len(orders(machine))
    assert Done() == finish(node, "bios", "factory_reset")[0]
    assert "On" == machine.bios["NumLock"]


def test_an_unknown_bios_setting_is_named_and_nothing_is_sent(node, machine):
    count = len(orders(machine))
    with pytest.raises(InvalidDriverInfo, match="Turbo"):
        finish(node, "bios", "apply_configuration", settings=[{"name": "Turbo", "value": 1}])
    assert count == len(orders(machine))


def test_firmware_updates_run_one_after_the_other(node, machine):
    _, reports = finish(node, "firmware", "cache_firmware_components")
    assert {"bios": "1.0.0", "bmc": "2.10"} == {
        each["component"]: each["current_version"] for each in reports["firmware"]
    }
    updates = [
        {"component": "bmc", "url": "http://images/2.20.bin"},
        {"component": "bios", "url": "http://images/1.1.0.bin"},
    ]
    outcome, reports = finish(node, "firmware", "update", settings=updates)
    assert Done({"versions": {"bios": "1.1.0", "bmc": "2.20"}}) == outcome
    assert {"bios": "1.1.0", "bmc": "2.20"} == {
        each["component"]: each["last_version_flashed"] for each in reports["firmware"]
    }
    assert 2 == orders(machine).count("update firmware")


BMC_UPDATE = [{"component": "bmc", "url": "http://images/2.30.bin"}]


def test_an_updated_bmc_is_ready_after_three_consecutive_answers(node, monkeypatch):
    firmware, outcome, looks, read = node.driver.firmware, None, [], node.driver.firmware._read
    answers = iter([True, True, False, True, True, True])

    def scripted(target, flashed=()):
        looks.append("end" if flashed else next(answers))
        if not looks[-1]:
            raise Unexpected("it has not got all of its resources yet")
        return read(target, flashed)

    monkeypatch.setattr(firmware, "_read", scripted)
    outcome, _ = finish(node, "firmware", "update", settings=BMC_UPDATE)
    assert isinstance(outcome, Done)
    assert [True, True, False, True, True, True, "end"] == looks


ACCEPTED = {
    "request": {"method": "POST", "path": "/s", "body": {}, "etag": None},
    "facts": {"version": "2.10", "systems": 1}, "tasks": [], "paths": ["/t"], "crashes": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("progress", "reason"),
    [
        ({"record": ACCEPTED, "follow": {"silent": 59}}, None),
        (
            {"record": ACCEPTED, "follow": {"silent": 60}},
            "the update of bmc was ordered, not confirmed: the BMC cannot be read since then",
        ),
        ({"number": 1, "ends": [{}], "good": 2, "polls": 14}, None),
        (
            {"number": 1, "ends": [{}], "good": 2, "polls": 16},
            "the BMC does not answer correctly since",
        ),
    ],
)
def test_a_bmc_that_does_not_return_from_its_update_fails_the_step(fleet, node, progress, reason):
    """At 5 seconds a poll for 300 seconds, and 30 seconds for 480 seconds."""
    fleet.set_faults(0, bmc_dead=True)
    try:
        outcome = node.driver.firmware.update(replace(node, progress=progress), BMC_UPDATE)
    finally:
        fleet.set_faults(0, bmc_dead=None)
    if reason:
        assert outcome.reason.startswith(reason)
    elif "good" in progress:
        assert {**progress, "good": 0, "polls": 15}.items() <= outcome.progress.items()
        assert (30, 60) == (outcome.poll_after, outcome.timeout)
        assert "did not answer" in outcome.reason
    else:
        assert (5, 60, 60) == (
            outcome.poll_after, outcome.timeout, outcome.progress["follow"]["silent"],
        )  # fmt: skip


@pytest.mark.parametrize(
    "setting",
    [
        {"component": "gpu", "url": "http://a/b"},
        {"component": "bmc", "url": "b"},
        {"component": "bmc", "url": "http://a/b", "version": 2},
        {"component": "bmc", "url": "http://a/b", "target": ""},
        {"component": "bmc", "url": "http://a/b", "wait": "long"},
        {"component": "bmc", "url": "http://a/b", "checksum": "x"},
    ],
)
def test_a_wrong_firmware_update_is_refused_at_once(node, setting):
    with pytest.raises(InvalidDriverInfo, match="settings"):
        finish(node, "firmware", "update", settings=[setting])


def test_a_change_in_a_flow_with_an_agent_boots_it_again_and_waits_for_it(node, machine):
    agent = replace(node.agent, url="http://agent")
    settings = [{"name": "NumLock", "value": "Off"}]
    step = node.driver.bios.apply_configuration
    node, forgotten = replace(node, agent=agent), False
    for _ in range(100):
        outcome = step(node, settings)
        forgotten = forgotten or "agent" in node.reports
        if outcome.progress.get("change", {}).get("restarted") and machine.bios["NumLock"] == "Off":
            break
        time.sleep(0.02)
        known = replace(agent, url=None) if forgotten else agent
        node = replace(node, progress=outcome.progress, agent=known, reports={})
    assert machine.media["Cd"]
    assert forgotten
    gone = replace(node, progress=outcome.progress, agent=replace(agent, url=None))
    assert isinstance(step(gone, settings), Wait)
    assert Done() == step(replace(gone, agent=agent), settings)
