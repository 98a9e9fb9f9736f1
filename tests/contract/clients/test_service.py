"""Drivers, conductors and shards with the `baremetal` command."""

import pytest

from drivers.builtin import HARDWARE_TYPES
from tests.contract.clients.cli import COMMANDS


def test_drivers_are_shown(baremetal):
    listed = baremetal("driver", "list")
    assert {"name": "fake-hardware", "hosts": "fleet-1"} in listed
    assert {hardware_type.name for hardware_type in HARDWARE_TYPES} == {
        driver["name"] for driver in listed
    }
    assert listed == baremetal("driver", "list", "--type", "dynamic")
    assert [] == baremetal("driver", "list", "--type", "classic")
    long = next(
        driver for driver in baremetal("driver", "list", "--long") if driver["name"] == "redfish"
    )
    assert ("redfish", "dynamic") == (long["default_power_interface"], long["type"])
    assert {"name": "redfish"} in baremetal("driver", "list", "--fields", "name")
    answer = baremetal("driver", "show", "redfish")
    assert "redfish" in answer["enabled_bios_interfaces"]
    fields = ("--fields", "name", "type")
    assert {"name": "ipmi", "type": "dynamic"} == baremetal("driver", "show", "ipmi", *fields)
    assert "404" in baremetal.refused("driver", "show", "no-such")


@pytest.mark.parametrize(
    ("driver", "expected"), [("redfish", "redfish_address"), ("ipmi", "ipmi_address")]
)
def test_properties_of_drivers_are_listed(baremetal, driver, expected):
    rows = baremetal("driver", "property", "list", driver)
    assert expected in {row["property"] for row in rows}
    assert all(row["description"] for row in rows)


def test_properties_of_logical_disks_are_listed(baremetal):
    rows = baremetal("driver", "raid", "property", "list", "fake-hardware")
    assert {"raid_level", "size_gb"} < {row["property"] for row in rows}


def test_vendor_functions_of_drivers_are_listed_and_called(baremetal):
    assert [] == baremetal("driver", "passthru", "list", "fake-hardware")
    call = ("driver", "passthru", "call", "fake-hardware", "no_such")
    assert "no_such" in baremetal.refused(*call, "--arg", "a=b", "--http-method", "GET")
    assert "404" in baremetal.refused("driver", "passthru", "list", "no-such")


def test_conductors_are_shown(baremetal):
    (row,) = baremetal("conductor", "list")
    assert {"hostname": "fleet-1", "conductor_group": "", "alive": True} == row
    (long,) = baremetal("conductor", "list", "--long")
    answer = baremetal("conductor", "show", "fleet-1")
    steady = {"hostname", "conductor_group", "alive", "drivers", "created_at"}
    assert {field: answer[field] for field in steady} == {field: long[field] for field in steady}
    assert {hardware_type.name for hardware_type in HARDWARE_TYPES} == {*answer["drivers"]}
    assert [] == baremetal("conductor", "list", "--marker", "fleet-1")
    for arguments in (("--sort", "hostname:desc"), ("--limit", 1)):
        assert [row] == baremetal("conductor", "list", *arguments)
    assert [{"alive": True}] == baremetal("conductor", "list", "--fields", "alive")
    assert {"alive": True} == baremetal("conductor", "show", "fleet-1", "--fields", "alive")
    assert "404" in baremetal.refused("conductor", "show", "no-such")


def test_shards_are_counted(baremetal, node):
    baremetal("node", "set", node, "--shard", "of-service")
    assert {"name": "of-service", "count": 1} in baremetal("shard", "list")
    baremetal("node", "unset", node, "--shard")
    assert "of-service" not in {shard["name"] for shard in baremetal("shard", "list")}


def test_every_resource_of_the_client_is_tested():
    resources = {command.rsplit(" ", 1)[0].split(" ")[0] for command in COMMANDS}
    assert resources == {
        "allocation", "chassis", "conductor", "create", "deploy", "driver", "inspection", "node",
        "port", "runbook", "shard", "volume",
    }  # fmt: skip
