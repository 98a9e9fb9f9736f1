"""Ironic's hardware types and interfaces, and what replaces them."""

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.interface_kinds import KINDS
from workers.moving import driver_mapping
from workers.moving.driver_mapping import INTERFACES, NotServed, mapped

LOADED = {
    hardware.name: {kind: [cls.name for cls in classes] for kind, classes in hardware.interfaces.items()}
    for hardware in HARDWARE_TYPES
}  # fmt: skip
ALL_KEYS = {key: key for key in ("address", "username", "password", "system_id", "verify_ca")}


def node(driver, types=LOADED, **interfaces):
    name = driver_mapping.HARDWARE_TYPES.get(driver, driver_mapping.Successor(driver)).name
    defaults = {f"{kind}_interface": names[0] for kind, names in types.get(name, {}).items()}
    return {
        "driver": driver,
        **defaults,
        **{f"{kind}_interface": name for kind, name in interfaces.items()},
    }


@pytest.mark.parametrize(
    ("driver", "successor", "prefix"),
    [("ilo", "redfish", "ilo"), ("ilo5", "redfish", "ilo"), ("irmc", "redfish", "irmc"), ("ibmc", "redfish", "ibmc"),
     ("idrac", "idrac", "drac")],
)  # fmt: skip
def test_options_get_the_prefix_of_the_successor(driver, successor, prefix):
    info = {f"{prefix}_{key}": key for key in ALL_KEYS} | {f"{prefix}_port": 1, "other": 2}
    result = mapped(node(driver), info, LOADED, {})
    expected = {f"redfish_{key}": key for key in ALL_KEYS} | {f"{prefix}_port": 1, "other": 2}
    assert (successor, expected) == (result.driver, result.driver_info)
    renamed = [f"driver_info {prefix}_{key} -> redfish_{key}" for key in ALL_KEYS]
    assert renamed == [note for note in result.notes if note.startswith("driver_info")]
    assert (f"driver {driver} -> {successor}" in result.notes) == (driver != successor)


def test_an_option_that_is_set_is_not_replaced():
    info = {"drac_address": "old", "redfish_address": "new"}
    result = mapped(node("idrac"), info, LOADED, {})
    assert (info, []) == (result.driver_info, result.notes)


def test_a_hardware_type_without_a_successor_keeps_its_options():
    info = {"ipmi_address": "10.0.0.5"}
    result = mapped(node("ipmi"), info, LOADED, {})
    assert ("ipmi", info, []) == (result.driver, result.driver_info, result.notes)


def test_each_row_of_the_table_names_interfaces_of_this_service():
    names = {
        kind: {name for kinds in LOADED.values() for name in kinds.get(kind, ())} for kind in KINDS
    }
    for (kind, ironic_name), (candidates, _) in INTERFACES.items():
        assert kind in KINDS, ironic_name
        assert candidates, ironic_name
        assert set(candidates) <= names[kind], ironic_name


@pytest.mark.parametrize(
    ("driver", "kind", "name", "here", "loss"),
    [
        ("ilo", "bios", "ilo", "redfish", ""), ("ilo", "boot", "ilo-pxe", "pxe", ""), ("ilo", "boot", "ilo-ipxe", "ipxe", ""),
        ("ilo", "boot", "ilo-uefi-https", "redfish-https", ""), ("irmc", "boot", "irmc-virtual-media", "redfish-virtual-media", ""),
        ("ilo", "inspect", "inspector", "agent", ""),
        ("irmc", "console", "ipmitool-shellinabox", "no-console", " (without console)"), ("idrac", "power", "idrac-wsman", "idrac-redfish", ""),
        ("idrac", "inspect", "idrac", "idrac-redfish", ""), ("ibmc", "vendor", "ibmc", "redfish", " (without vendor functions of iBMC)"),
    ],
)  # fmt: skip
def test_an_interface_is_replaced_with_a_note(driver, kind, name, here, loss):
    result = mapped(node(driver, **{kind: name}), {}, LOADED, {})
    assert here == result.interfaces[f"{kind}_interface"]
    assert f"{kind}_interface {name} -> {here}{loss}" in result.notes


def test_the_first_candidate_that_the_hardware_type_has_is_taken(monkeypatch):
    candidates = (("nonesuch", "pxe", "ipxe"), "")
    monkeypatch.setitem(driver_mapping.INTERFACES, ("boot", "old"), candidates)
    assert "pxe" == mapped(node("ipmi", boot="old"), {}, LOADED, {}).interfaces["boot_interface"]


def test_a_node_without_an_interface_gets_the_first_one_with_a_note():
    types = {"ipmi": {kind: ["one", "two"] for kind in KINDS}}
    result = mapped({"driver": "ipmi"}, {}, types, {})
    assert {"one"} == set(result.interfaces.values())
    assert f"{next(iter(KINDS))}_interface None -> one" in result.notes


def test_the_operators_choice_precedes_name_and_table():
    types = {"ipmi": {kind: ["one", "two"] for kind in KINDS}}
    choice = {("boot", "one"): "two", ("power", "ipmitool"): "two"}
    result = mapped(node("ipmi", types, power="ipmitool"), {}, types, choice)
    assert ("two", "two", "one") == tuple(
        result.interfaces[f"{kind}_interface"] for kind in ("boot", "power", "raid")
    )
    with pytest.raises(NotServed, match="--interface boot:one=three: there are one, two"):
        mapped(node("ipmi", types), {}, types, {("boot", "one"): "three"})


def test_what_is_not_served_names_what_to_do():
    with pytest.raises(
        NotServed, match=r"snmp: hardware type snmp is not enabled here.* has ipmi, redfish"
    ):
        mapped({"driver": "snmp"}, {}, {"redfish": {}, "ipmi": {}}, {})
    with pytest.raises(NotServed, match="has none"):
        mapped({"driver": "snmp"}, {}, {}, {})
    with pytest.raises(
        NotServed,
        match=r"network_interface other is not served; enabled are .*--interface network:other=NAME",
    ):
        mapped(node("ipmi", network="other"), {}, LOADED, {})
