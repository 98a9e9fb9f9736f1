"""Sensors, indicators, media, subscriptions and BIOS settings, over HTTP to a simulated BMC."""

import pytest

from drivers.core.errors import InvalidDriverInfo, NotFound, NotSupported, Refused
from drivers.core.steps import Done

from .conftest import finish, orders


def test_an_nmi_is_injected(node, management, machine):
    finish(node, "power", "power_off")
    with pytest.raises(Refused, match="off"):
        management.inject_nmi(node)
    finish(node, "power", "power_on")
    management.inject_nmi(node)
    assert "nmi" == orders(machine)[-1]


def test_sensors_are_temperatures_fans_and_power(node, management):
    finish(node, "power", "power_on")
    sensors = {sensor["name"]: sensor for sensor in management.sensors(node)}
    assert sensors["Inlet"] == {
        "name": "Inlet", "kind": "temperature", "reading": 24.0, "unit": "°C", "health": "ok",
    }  # fmt: skip
    assert ("fan", 4200.0, "RPM") == tuple(
        sensors["Fan 0"][key] for key in ("kind", "reading", "unit")
    )
    assert ("power", 210.0, "W") == tuple(
        sensors["Power Supply 0"][key] for key in ("kind", "reading", "unit")
    )
    finish(node, "power", "power_off")
    now = {sensor["name"]: sensor["reading"] for sensor in management.sensors(node)}
    assert (0.0, 20.0) == (now["Fan 0"], now["Inlet"])


def test_indicators_of_system_chassis_and_drives_are_switched(node, management, machine):
    indicators = {
        (indicator["component"], indicator["name"]) for indicator in management.indicators(node)
    }
    assert {("system", "led"), ("chassis", "Chassis"), ("disk", "2")} <= indicators
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
    media = {medium["image"]: medium["media_types"] for medium in management.virtual_media(node)}
    assert "CD" in media["http://images/a.iso"]
    assert "USBStick" in media["http://images/b.img"]
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
    arguments = {"Destination": "https://192.0.2.1/events", "HttpHeaders": HEADERS, "Context": "c"}
    created = vendor.call(node, "create_subscription", arguments)
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
    arguments = {"Destination": "https://192.0.2.1/events", **wrong}
    with pytest.raises(InvalidDriverInfo, match=f"^{next(iter(wrong))}: "):
        node.driver.vendor.call(node, "create_subscription", arguments)
    assert count == len(machine.log)


def test_bios_settings_are_read_with_the_facts_of_the_registry(node):
    outcome, reports = finish(node, "bios", "cache_bios_settings")
    settings = {setting["name"]: setting for setting in reports["bios_settings"]}
    assert Done() == outcome
    assert ("On", ["On", "Off"], "Enumeration") == (
        settings["NumLock"]["value"],
        settings["NumLock"]["allowable_values"],
        settings["NumLock"]["attribute_type"],
    )
    assert 921600 == settings["SerialBaudRate"]["upper_bound"]


def test_bios_settings_are_applied_by_a_restart_only_if_they_differ(node, machine):
    settings = [{"name": "NumLock", "value": "Off"}, {"name": "SerialBaudRate", "value": 9600}]
    outcome, reports = finish(node, "bios", "apply_configuration", settings=settings)
    assert Done() == outcome
    assert ("Off", 9600, "On") == (
        machine.bios["NumLock"],
        machine.bios["SerialBaudRate"],
        machine.power,
    )
    values = {setting["name"]: setting["value"] for setting in reports["bios_settings"]}
    assert ("Off", 9600) == (values["NumLock"], values["SerialBaudRate"])
    count = len(orders(machine))
    assert Done() == finish(node, "bios", "apply_configuration", settings=settings)[0]
    assert count == len(orders(machine))
    assert Done() == finish(node, "bios", "factory_reset")[0]
    assert "On" == machine.bios["NumLock"]


def test_an_unknown_bios_setting_is_named_and_nothing_is_sent(node, machine):
    count = len(orders(machine))
    with pytest.raises(InvalidDriverInfo, match="Turbo"):
        finish(node, "bios", "apply_configuration", settings=[{"name": "Turbo", "value": 1}])
    assert count == len(orders(machine))
