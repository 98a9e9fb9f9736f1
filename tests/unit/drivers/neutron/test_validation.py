"""Validation of the settings for flat and neutron: an error before anything is done."""

from dataclasses import replace

import pytest

from drivers.core.errors import InvalidDriverInfo
from drivers.neutron import service
from tests.unit.drivers.neutron.conftest import FIRST, SECOND


def test_the_settings_of_both_interfaces_are_sufficient(neutron, machine):
    for network in ("flat", "neutron"):
        it = machine(network)
        it.driver.network.validate(it)
    assert [] == neutron.requests, "validation sends nothing"


@pytest.mark.parametrize(
    ("network", "fields", "message"),
    [
        ("flat", {"neutron_endpoint_override": None}, r"needs the setting \[neutron\]auth_url"),
        ("flat", {"neutron_cleaning_network": None}, r"\[neutron\]cleaning_network, or driver_info"),
        ("neutron", {"neutron_provisioning_network": ""}, r"\[neutron\]provisioning_network"),
        ("neutron", {"disable_power_off": True}, "disable_power_off: network_interface neutron"),
        ("neutron", {"nics": (replace(FIRST, is_smartnic=True),)}, "port p1 is a smart NIC"),
        ("neutron", {"nics": (replace(FIRST, local_link_connection={}),)}, "local_link_connection: no port"),
        ("neutron", {"driver_info": {"fail_on_binding_failure": "perhaps"}}, "neither true nor false"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(machine, network, fields, message):
    it = machine(network, **fields)
    with pytest.raises(InvalidDriverInfo, match=message):
        it.driver.network.validate(it)


@pytest.mark.parametrize(
    "nics",
    [
        (replace(FIRST, local_link_connection={}), SECOND),
        (replace(FIRST, local_link_connection={}, extra={"client-id": "ff:00"}),),
        (),
    ],
)
def test_one_wired_port_is_sufficient(machine, nics):
    it = machine(nics=nics)
    it.driver.network.validate(it)


def test_flat_accepts_what_is_not_switched(machine):
    nics = (replace(FIRST, local_link_connection={}, is_smartnic=True),)
    it = machine("flat", nics=nics, disable_power_off=True)
    it.driver.network.validate(it)


def test_only_a_rescue_needs_its_network(machine):
    it = machine(neutron_rescuing_network=None, driver_info={"deploy_kernel": "k"})
    it.driver.network.validate(it)
    with pytest.raises(InvalidDriverInfo, match="rescuing_network"):
        it.driver.network.validate_rescue(it)
    flat = machine("flat", neutron_rescuing_network=None)
    flat.driver.network.validate_rescue(flat)


def test_a_node_without_ports_is_told(machine):
    it = machine(nics=())
    with pytest.raises(InvalidDriverInfo, match="no port with pxe_enabled"):
        it.driver.network.add_cleaning_network(it)


@pytest.mark.parametrize("auth_type", ["nonesuch", ""])
def test_an_unknown_plugin_is_named(machine, auth_type):
    it = machine(neutron_auth_type=auth_type)
    with pytest.raises(InvalidDriverInfo, match=r"\[neutron\]auth_type"):
        it.driver.network.add_cleaning_network(it)


def test_the_missing_extra_is_named(machine, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openstack.connection", None)
    service._connect.cache_clear()
    it = machine()
    with pytest.raises(InvalidDriverInfo, match=r"install ingot\[openstack\]"):
        it.driver.network.add_cleaning_network(it)
