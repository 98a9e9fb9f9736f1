"""Nodes as records, with `baremetal node create`, `set`, `unset`, `show`, `list` and `delete`."""

import json
import shlex
import uuid

import pytest

from tests.contract.clients.cli import options

NETWORK = {"links": [], "networks": [], "services": []}
RAID = {"logical_disks": [{"size_gb": "MAX", "raid_level": "1"}]}
#: kind of interface -> an implementation that is not the default
INTERFACES = {
    "bios": "no-bios", "boot": "ipxe", "console": "no-console", "deploy": "ramdisk",
    "firmware": "no-firmware", "inspect": "no-inspect", "management": "noop", "network": "noop",
    "power": "ipmitool", "raid": "no-raid", "rescue": "no-rescue", "storage": "external",
    "vendor": "no-vendor",
}  # fmt: skip
DEFAULTS = {f"{kind}_interface": "fake" for kind in INTERFACES} | {
    "network_interface": "noop",
    "storage_interface": "noop",
}
#: option of create and set -> (its value, or none for a flag; field; shown value)
BOTH = {
    **{
        f"--{kind}-interface": (name, f"{kind}_interface", name)
        for kind, name in INTERFACES.items()
    },
    "--driver": ("fake-hardware", "driver", "fake-hardware"),
    "--driver-info": ("fake_password=b", "driver_info", {"fake_password": "******"}),
    "--property": ("memory_mb=4096", "properties", {"memory_mb": 4096}),
    "--extra": ('a={"b": [1]}', "extra", {"a": {"b": [1]}}),
    "--name": ("of-cli", "name", "of-cli"),
    "--instance-name": ("inst", "instance_name", "inst"),
    "--network-data": (json.dumps(NETWORK), "network_data", NETWORK),
    "--resource-class": ("large", "resource_class", "large"),
    "--conductor-group": ("", "conductor_group", ""),
    "--automated-clean": (None, "automated_clean", True),
    "--no-automated-clean": (None, "automated_clean", False),
    "--owner": ("o", "owner", "o"),
    "--lessee": ("l", "lessee", "l"),
    "--description": ("a test node", "description", "a test node"),
    "--shard": ("s1", "shard", "s1"),
    "--disable-power-off": (None, "disable_power_off", True),
}
INSTANCE, UUID = str(uuid.uuid4()), str(uuid.uuid4())
ONLY_CREATE = {"--uuid": (UUID, "uuid", UUID)}
ONLY_SET = {
    "--instance-uuid": (INSTANCE, "instance_uuid", INSTANCE),
    "--instance-info": ("image_source=http://i", "instance_info", {"image_source": "http://i"}),
    "--target-raid-config": (json.dumps(RAID), "target_raid_config", RAID),
    "--enable-power-off": (None, "disable_power_off", False),
    "--retired": (None, "retired", True),
    "--retired-reason": ("old", "retired_reason", "old"),
}
#: Only for nodes with an instance.
PROTECTED = {"--protected", "--protected-reason"}
#: Options that name another resource; separate tests cover them.
REFERENCES = {"--chassis-uuid", "--parent-node"}
RESETS = {f"--reset-{kind}-interface" for kind in INTERFACES} | {"--reset-interfaces"}
#: option of unset -> (its value; field; shown value afterwards), if that is not null
UNSET = {
    "--property": ("memory_mb", "properties", {}),
    "--extra": ("a", "extra", {}),
    "--driver-info": ("fake_password", "driver_info", {}),
    "--instance-info": ("image_source", "instance_info", {}),
    "--network-data": (None, "network_data", {}),
    "--target-raid-config": (None, "target_raid_config", {}),
    "--retired": (None, "retired", False),
    "--conductor-group": (None, "conductor_group", ""),
    **{
        f"--{field.replace('_', '-')}": (None, field, default)
        for field, default in DEFAULTS.items()
    },
}
NULLED = ("instance-uuid", "instance-name", "resource-class", "automated-clean", "retired-reason",
          "owner", "lessee", "description", "shard", "name")  # fmt: skip
UNSET |= {f"--{option}": (None, option.replace("-", "_"), None) for option in NULLED}


def words(table):
    """Return the arguments for every option of a table, and the fields shown afterwards."""
    arguments = [
        word
        for option, (value, *_) in table.items()
        for word in ((option,) if value is None else (option, value))
    ]
    return arguments, {field: field_value for _, field, field_value in table.values()}


def without(table, *left_out):
    return {option: row for option, row in table.items() if option not in left_out}


@pytest.mark.parametrize(
    ("command", "tested_options"),
    [
        ("node create", {*BOTH, *ONLY_CREATE, *REFERENCES}),
        ("node set", {*BOTH, *ONLY_SET, *PROTECTED, *REFERENCES, *RESETS}),
        ("node unset", {*UNSET, *PROTECTED, *REFERENCES}),
    ],
)
def test_no_option_of_the_client_is_left_out(command, tested_options):
    assert options(command) == tested_options


@pytest.mark.parametrize("cleaned", ["--automated-clean", "--no-automated-clean"])
def test_a_node_is_created_with_every_option_and_deleted(baremetal, cleaned):
    other = {"--automated-clean", "--no-automated-clean"} - {cleaned}
    arguments, expected = words({**without(BOTH, *other), **ONLY_CREATE})

    created = baremetal("node", "create", *arguments)

    assert expected == {field: created[field] for field in expected}
    assert created == baremetal("node", "show", "of-cli")
    baremetal("node", "delete", UUID)
    assert "404" in baremetal.refused("node", "show", UUID)


@pytest.mark.parametrize(
    "left_out",
    [("--automated-clean", "--enable-power-off"), ("--no-automated-clean", "--disable-power-off")],
)
def test_every_option_is_set_and_unset(baremetal, node, left_out):
    uuid = baremetal("node", "show", node)["uuid"]
    arguments, expected = words(without({**BOTH, **ONLY_SET}, *left_out))

    baremetal("node", "set", node, *arguments)

    answer = baremetal("node", "show", uuid)
    assert expected == {field: answer[field] for field in expected}

    arguments, expected = words(UNSET)
    baremetal("node", "unset", uuid, *arguments)

    answer = baremetal("node", "show", uuid)
    assert expected == {field: answer[field] for field in expected}
    baremetal("node", "set", uuid, "--name", node)


def test_interfaces_are_reset(baremetal, node):
    arguments, _ = words(
        {f"--{kind}-interface": (name, "", "") for kind, name in INTERFACES.items()}
    )
    baremetal("node", "set", node, *arguments)

    baremetal("node", "set", node, *(RESETS - {"--reset-interfaces"}))

    assert DEFAULTS == baremetal("node", "show", node, "--fields", *DEFAULTS)


def test_interfaces_are_reset_by_a_change_of_the_driver(baremetal, node):
    assert "400" in baremetal.refused("node", "set", node, "--driver", "ipmi")

    baremetal("node", "set", node, "--driver", "ipmi", "--reset-interfaces")

    answer = baremetal("node", "show", node)
    assert ("ipmitool", "no-bios") == (answer["power_interface"], answer["bios_interface"])
    arguments = ("--driver", "fake-hardware", "--reset-interfaces", "--bios-interface", "no-bios")
    baremetal("node", "set", node, *arguments)
    expected = {**DEFAULTS, "bios_interface": "no-bios"}
    assert expected == baremetal("node", "show", node, "--fields", *DEFAULTS)


def test_several_nodes_are_set_at_once(baremetal, node):
    baremetal("node", "create", "--driver", "fake-hardware", "--name", "second")

    baremetal("node", "set", node, "second", "--owner", "both")

    listed = baremetal("node", "list", "--owner", "both")
    assert {node, "second"} == {row["name"] for row in listed}
    baremetal("node", "delete", "second")


def test_a_node_is_protected_while_it_has_an_instance(baremetal, node):
    assert "409" in baremetal.refused("node", "set", node, "--protected")
    baremetal("node", "manage", node, "--wait", 30)
    baremetal("node", "adopt", node, "--wait", 30)

    baremetal("node", "set", node, "--protected", "--protected-reason", "has user data")

    answer = baremetal("node", "show", node)
    assert (True, "has user data") == (answer["protected"], answer["protected_reason"])
    assert "403" in baremetal.refused("node", "undeploy", node)
    baremetal("node", "unset", node, "--protected-reason")
    assert baremetal("node", "show", node)["protected_reason"] is None
    baremetal("node", "unset", node, "--protected")
    assert not baremetal("node", "show", node)["protected"]


def test_a_node_belongs_to_a_chassis_and_to_a_parent(baremetal, node):
    chassis = baremetal("chassis", "create")["uuid"]
    parent = baremetal("node", "show", node)["uuid"]
    arguments = ("--driver", "fake-hardware", "--chassis-uuid", chassis, "--parent-node", parent)
    child = baremetal("node", "create", *arguments)

    assert (chassis, parent) == (child["chassis_uuid"], child["parent_node"])
    for filters in (("--chassis", chassis, "--include-children"), ("--parent-node", parent)):
        assert [child["uuid"]] == [row["uuid"] for row in baremetal("node", "list", *filters)]
    without_children = {row["uuid"] for row in baremetal("node", "list")}
    with_children = {row["uuid"] for row in baremetal("node", "list", "--include-children")}
    assert {child["uuid"]} == with_children - without_children
    assert {"children": [child["uuid"]]} == baremetal("node", "children", "list", node)
    baremetal("node", "unset", child["uuid"], "--chassis-uuid", "--parent-node")
    answer = baremetal("node", "show", child["uuid"])
    assert (None, None) == (answer["chassis_uuid"], answer["parent_node"])
    baremetal("node", "set", child["uuid"], "--chassis-uuid", chassis, "--parent-node", parent)
    answer = baremetal("node", "show", child["uuid"])
    assert (chassis, parent) == (answer["chassis_uuid"], answer["parent_node"])
    baremetal("node", "delete", child["uuid"])
    baremetal("chassis", "delete", chassis)


#: arguments of list -> whether they match the first, and the second of two nodes
FILTERS = {
    "--maintenance": (True, False),
    "--no-maintenance": (False, True),
    "--retired": (False, True),
    "--no-retired": (True, False),
    "--associated": (False, True),
    "--unassociated": (True, False),
    "--fault 'power failure'": (False, False),
    "--provision-state enroll": (True, True),
    "--provision-state active": (False, False),
    "--driver fake-hardware": (True, True),
    "--driver ipmi": (False, False),
    "--resource-class listed-one": (True, False),
    "--conductor fleet-1": (True, True),
    "--conductor nobody": (False, False),
    "--owner listed-owner": (False, True),
    "--lessee listed-lessee": (True, False),
    "--description-contains second": (False, True),
    "--instance-name listed-instance": (False, True),
    "--sharded": (True, False),
    "--unsharded": (False, True),
    "--shards other listed-shard": (True, False),
}
CREATED = (
    ("--resource-class", "listed-one", "--lessee", "listed-lessee", "--shard", "listed-shard"),
    ("--owner", "listed-owner", "--description", "the second", "--instance-name",
     "listed-instance"),
)  # fmt: skip


@pytest.fixture(scope="module")
def pair(baremetal):
    """UUIDs of two nodes with different fields."""
    nodes = [
        baremetal("node", "create", "--driver", "fake-hardware", *arguments)
        for arguments in CREATED
    ]
    first_uuid, second_uuid = (node["uuid"] for node in nodes)
    baremetal("node", "maintenance", "set", first_uuid, "--reason", "broken fan")
    baremetal("node", "set", second_uuid, "--instance-uuid", str(uuid.uuid4()), "--retired")
    yield first_uuid, second_uuid
    baremetal("node", "unset", second_uuid, "--instance-uuid")
    baremetal("node", "delete", first_uuid, second_uuid)


@pytest.mark.parametrize("filters", FILTERS)
def test_a_list_is_filtered(baremetal, pair, filters):
    listed_uuids = {row["uuid"] for row in baremetal("node", "list", *shlex.split(filters))}
    assert FILTERS[filters] == tuple(node_uuid in listed_uuids for node_uuid in pair)


def test_a_list_of_the_nodes_of_an_empty_group_is_empty(baremetal, pair):
    assert [] == baremetal("node", "list", "--conductor-group", "nowhere")
    assert set(pair) <= {row["uuid"] for row in baremetal("node", "list", "--conductor-group", "")}


def test_a_list_shows_the_requested_fields(baremetal, pair):
    row = next(entry for entry in baremetal("node", "list") if entry["uuid"] == pair[0])
    assert {
        "uuid": pair[0], "name": None, "instance_uuid": None, "power_state": None,
        "provision_state": "enroll", "maintenance": True,
    } == row  # fmt: skip

    long = next(entry for entry in baremetal("node", "list", "--long") if entry["uuid"] == pair[0])
    answer = baremetal("node", "show", pair[0])
    assert {field: answer[field] for field in long} == long
    assert "broken fan" == long["maintenance_reason"]
    some = baremetal("node", "list", "--fields", "uuid", "lessee", "traits", "conductor")
    row = {"uuid": pair[0], "lessee": "listed-lessee", "traits": [], "conductor": "fleet-1"}
    assert row in some
    fields = {"name": None, "lessee": "listed-lessee"}
    assert fields == baremetal("node", "show", pair[0], "--fields", "name", "lessee")


def test_a_list_is_sorted_and_paginated(baremetal, pair):
    ordered = [row["uuid"] for row in baremetal("node", "list", "--sort", "uuid:desc")]
    assert sorted(ordered, reverse=True) == ordered
    assert set(pair) <= set(ordered)

    pages, marker = [], ()  # the client keeps the service's order
    while page := baremetal("node", "list", "--limit", 1, *marker):
        pages += [row["uuid"] for row in page]
        marker = ("--marker", pages[-1])
    assert ordered == sorted(pages, reverse=True)


def test_a_node_is_found_by_its_instance(baremetal, pair):
    instance = baremetal("node", "show", pair[1])["instance_uuid"]
    assert pair[1] == baremetal("node", "show", "--instance", instance)["uuid"]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("create", "--driver", "no-such"), 400),
        (("create", "--driver", "fake-hardware", "--bios-interface", "no-such"), 400),
        (("create", "--driver", "fake-hardware", "--conductor-group", "nowhere"), 400),
        (("create", "--driver", "fake-hardware", "--name", "not a name"), 400),
        (("show", "no-such"), 404),
        (("set", "no-such", "--owner", "me"), 404),
        (("delete", "no-such"), 404),
        (("list", "--marker", str(uuid.UUID(int=1))), 404),
        (("maintenance", "set", "no-such"), 404),
    ],
)
def test_what_is_wrong_is_told(baremetal, words, status):
    assert f"(HTTP {status})" in baremetal.refused("node", *words)
