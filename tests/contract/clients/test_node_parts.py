"""Parts of a node, through the `baremetal` command."""

import json
import uuid

import pytest

from tests.support.fleet import until

WHERE = {"interface": "bios", "step": "apply_configuration"}
BIOS = [{**WHERE, "args": {"settings": [{"name": "Turbo", "value": "On"}]}}]
FIRMWARE = [{"component": "bmc", "url": "http://files/2.1"}]


@pytest.fixture
def manageable(baremetal, fleet, node):
    """A node that accepts management requests."""
    baremetal("node", "manage", node)
    _until_manageable(fleet, node)
    return node


def _until_manageable(fleet, node):
    def reached():
        answer = fleet.get(f"nodes/{node}")
        return ("manageable", None) == (answer["provision_state"], answer["reservation"])

    until(reached, f"{node} manageable")


def test_traits_are_added_and_removed(baremetal, node):
    def traits():
        return sorted(row["traits"] for row in baremetal("node", "trait", "list", node))

    assert [] == traits()
    baremetal("node", "trait", "add", node, "CUSTOM_A", "CUSTOM_B")
    baremetal("node", "add", "trait", node, "HW_CPU_X86_VMX")
    assert ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"] == traits()
    baremetal("node", "trait", "remove", node, "CUSTOM_A")
    baremetal("node", "remove", "trait", node, "CUSTOM_B")
    assert ["HW_CPU_X86_VMX"] == traits()
    baremetal("node", "trait", "remove", node, "--all")
    assert [] == traits()
    assert "400" in baremetal.refused("node", "add", "trait", node, "lower")
    assert "404" in baremetal.refused("node", "remove", "trait", node, "CUSTOM_A")


def test_vifs_are_attached_and_detached(baremetal, node):
    owner = ("--node", baremetal("node", "show", node)["uuid"])
    port = baremetal("port", "create", "52:54:00:00:01:01", *owner)["uuid"]
    group = baremetal("port", "group", "create", *owner)["uuid"]
    baremetal("node", "vif", "attach", node, "v1", "--port-uuid", port)
    baremetal("node", "vif", "attach", node, "v2", "--portgroup-uuid", group)
    baremetal("node", "vif", "attach", node, "v3", "--vif-info", "a=b")
    assert [] == baremetal("node", "vif", "list", node), "the noop network knows none"
    for vif in ("v1", "v2", "v3"):
        baremetal("node", "vif", "detach", node, vif)


def test_boot_device_boot_mode_and_secure_boot_are_set(baremetal, manageable):
    baremetal("node", "boot", "device", "set", manageable, "pxe", "--persistent")
    answer = baremetal("node", "boot", "device", "show", manageable)
    assert {"boot_device": "pxe", "persistent": True} == answer
    answer = baremetal("node", "boot", "device", "show", manageable, "--supported")
    assert {"supported_boot_devices": "pxe"} == answer
    assert "400" in baremetal.refused("node", "boot", "device", "set", manageable, "disk")

    def becomes(field, value):
        until(lambda: value == baremetal("node", "show", manageable)[field], f"{field} {value}")

    baremetal("node", "boot", "mode", "set", manageable, "bios")
    becomes("boot_mode", "bios")
    baremetal("node", "boot", "mode", "set", manageable, "uefi")
    becomes("boot_mode", "uefi")
    baremetal("node", "secure", "boot", "on", manageable)
    becomes("secure_boot", True)
    baremetal("node", "secure", "boot", "off", manageable)
    becomes("secure_boot", False)
    baremetal("node", "inject", "nmi", manageable)


def test_the_console_is_enabled_and_disabled(baremetal, manageable):
    def switched_on():
        return baremetal("node", "console", "show", manageable)["console_enabled"]

    assert not switched_on()
    for verb, enabled in (("enable", True), ("disable", False)):
        baremetal("node", "console", verb, manageable)
        until(lambda expected=enabled: expected == switched_on(), f"console {verb}")
        assert enabled == baremetal("node", "show", manageable)["console_enabled"]


def test_vendor_functions_are_listed_and_called(baremetal, manageable):
    listed = baremetal("node", "passthru", "list", manageable)
    assert {"log_passthrough", "third_method_sync"} < {row["Name"] for row in listed}
    call = ("node", "passthru", "call", manageable)
    baremetal(*call, "second_method", "--arg", "bar=kazoo", "--http-method", "POST")
    assert "bar" in baremetal.refused(*call, "second_method")
    assert "400" in baremetal.refused(*call, "no_such")
    arguments = ("--arg", "bar=meow", "--http-method", "GET")
    assert "400" in baremetal.refused(*call, "third_method_sync", *arguments)


def test_bios_settings_and_firmware_are_shown(baremetal, fleet, manageable):
    assert [] == baremetal("node", "bios", "setting", "list", manageable)
    assert [] == baremetal("node", "firmware", "list", manageable)
    step = {"interface": "firmware", "step": "update", "args": {"settings": FIRMWARE}}
    baremetal("node", "clean", manageable, "--clean-steps", json.dumps([*BIOS, step]))
    _until_manageable(fleet, manageable)

    listed = baremetal("node", "bios", "setting", "list", manageable)
    assert [{"name": "Turbo", "value": "On"}] == listed
    (long,) = baremetal("node", "bios", "setting", "list", manageable, "--long")
    assert {"name", "value", "attribute_type", "read_only"} <= long.keys()
    answer = baremetal("node", "bios", "setting", "show", manageable, "Turbo")
    assert ("Turbo", "On") == (answer["name"], answer["value"])
    assert "404" in baremetal.refused("node", "bios", "setting", "show", manageable, "no-such")
    listed = baremetal("node", "firmware", "list", manageable)
    assert {("bios", "1.0"), ("bmc", "2.1")} == {
        (row["component"], row["current_version"]) for row in listed
    }


def test_history_is_kept(baremetal, manageable):
    baremetal("node", "inspect", manageable)
    (entry, *_) = baremetal("node", "history", "list", manageable)
    assert "The node was verified." == entry["event"]
    (long, *_) = baremetal("node", "history", "list", manageable, "--long")
    assert {"user", "event_type", "conductor"} <= long.keys()
    answer = baremetal("node", "history", "get", manageable, entry["uuid"])
    assert (entry["uuid"], "INFO") == (answer["uuid"], answer["severity"])
    unknown = str(uuid.uuid4())
    assert "404" in baremetal.refused("node", "history", "get", manageable, unknown)


def test_a_node_is_validated(baremetal, node):
    rows = baremetal("node", "validate", node)
    assert {"power", "deploy", "boot", "management"} <= {row["Interface"] for row in rows}
    baremetal("node", "set", node, "--power-interface", "ipmitool")
    rows = {row["Interface"]: row for row in baremetal("node", "validate", node)}
    assert not rows["power"]["Result"]
    assert "ipmi_address" in rows["power"]["Reason"]


def test_an_inventory_is_saved(baremetal, manageable, tmp_path):
    """Fake hardware has none: only an agent's report would be stored."""
    errors = baremetal.refused("node", "inventory", "save", manageable, "--file", tmp_path / "i")
    assert "404" in errors
