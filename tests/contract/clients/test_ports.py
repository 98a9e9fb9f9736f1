"""Options of ports, port groups, volume connectors and targets, and chassis."""

import json
import uuid

import pytest

from tests.contract.clients.cli import options
from tests.support.fleet import until

LINK = {"switch_id": "00:11:22:33:44:55", "port_id": "Gi1/0/1", "switch_info": "sw1"}
LINKS = tuple(f"--local-link-connection={key}={value}" for key, value in LINK.items())
UNLINKS = tuple(f"--local-link-connection={key}" for key in LINK)
A = {"a": 1}

#: resource -> option of create and set -> (its arguments; field; shown value); a flag has no
#: arguments
BOTH = {
    "port": {
        "--local-link-connection": (LINKS, "local_link_connection", LINK),
        "--physical-network": ("physnet1", "physical_network", "physnet1"),
        "--name": ("a-port", "name", "a-port"),
        "--description": ("left", None, None),  # the client never shows it
        "--vendor": ("v", "vendor", "v"),
        "--category": ("c", "category", "c"),
        "--extra": ("a=1", "extra", A),
    },
    "port group": {
        "--address": ("52:54:00:00:02:10", "address", "52:54:00:00:02:10"),
        "--name": ("a-group", "name", "a-group"),
        "--mode": ("802.3ad", "mode", "802.3ad"),
        "--property": ("a=1", "properties", A),
        "--physical-network": ("physnet1", "physical_network", "physnet1"),
        "--category": ("c", "category", "c"),
        "--support-standalone-ports": (None, "standalone_ports_supported", True),
        "--extra": ("a=1", "extra", A),
    },
    "volume connector": {
        "--type": ("iqn", "type", "iqn"),
        "--connector-id": ("iqn.c1", "connector_id", "iqn.c1"),
        "--extra": ("a=1", "extra", A),
    },
    "volume target": {
        "--type": ("iscsi", "volume_type", "iscsi"),
        "--boot-index": ("3", "boot_index", 3),
        "--volume-id": ("v-1", "volume_id", "v-1"),
        "--property": ("a=1", "properties", A),
        "--extra": ("a=1", "extra", A),
    },
    "chassis": {
        "--description": ("rack", "description", "rack"),
        "--extra": ("a=1", "extra", A),
    },
}
UUID = {"--uuid"}
#: command -> options of its resource besides these
OTHERS = {
    "port create": {*UUID, "--node", "--pxe-enabled", "--port-group", "--is-smartnic"},
    "port set": {
        "--node", "--address", "--pxe-enabled", "--pxe-disabled", "--port-group", "--is-smartnic",
    },
    "port group create": {*UUID, "--node", "--unsupport-standalone-ports"},
    "port group set": {"--node", "--unsupport-standalone-ports"},
    "volume connector create": {*UUID, "--node"},
    "volume connector set": {"--node"},
    "volume target create": {*UUID, "--node"},
    "volume target set": {"--node"},
    "chassis create": UUID,
    "chassis set": set(),
}  # fmt: skip
#: resource -> option of unset -> (its arguments; field; shown value afterwards)
UNSET = {
    "port": {
        "--local-link-connection": (UNLINKS, "local_link_connection", {}),
        "--physical-network": (None, "physical_network", None),
        "--is-smartnic": (None, "is_smartnic", False),
        "--name": (None, "name", None),
        "--description": (None, None, None),
        "--vendor": (None, "vendor", None),
        "--category": (None, "category", None),
        "--port-group": (None, "portgroup_uuid", None),
        "--extra": ("a", "extra", {}),
    },
    "port group": {
        "--address": (None, "address", None),
        "--name": (None, "name", None),
        "--property": ("a", "properties", {}),
        "--physical-network": (None, "physical_network", None),
        "--category": (None, "category", None),
        "--extra": ("a", "extra", {}),
    },
    "volume connector": {"--extra": ("a", "extra", {})},
    "volume target": {"--property": ("a", "properties", {}), "--extra": ("a", "extra", {})},
    "chassis": {"--description": (None, "description", None), "--extra": ("a", "extra", {})},
}
ADDRESS = "52:54:00:00:02:01"
#: resource -> arguments that its creation requires
NEEDED = {
    "port": (ADDRESS, "--node"),
    "port group": ("--node",),
    "volume connector": ("--type", "mac", "--connector-id", "0", "--node"),
    "volume target": ("--type", "rbd", "--boot-index", "0", "--volume-id", "0", "--node"),
    "chassis": (),
}


def words(rows):
    """Return the arguments of options, and the fields shown afterwards."""
    arguments = []
    for option, (value, *_) in rows.items():
        if isinstance(value, tuple):
            arguments += value
        else:
            arguments += [option] if value is None else [option, value]
    return arguments, {field: field_value for _, field, field_value in rows.values() if field}


@pytest.fixture
def owner(baremetal, node):
    """UUID of a node that is off, so that its volumes may be changed."""
    return _off(baremetal, node)


def _off(baremetal, node):
    baremetal("node", "power", "off", node)

    def shown():
        answer = baremetal("node", "show", node)
        return (
            answer if ("power off", None) == (answer["power_state"], answer["reservation"]) else {}
        )

    return until(shown, f"{node} off")["uuid"]


def needed(resource, owner):
    arguments = NEEDED[resource]
    return (*arguments, owner) if "--node" in arguments else arguments


@pytest.mark.parametrize("resource", BOTH)
def test_no_option_of_the_client_is_left_out(resource):
    for verb in ("create", "set"):
        command = f"{resource} {verb}"
        assert options(command) == {*BOTH[resource], *OTHERS[command]}
    assert options(f"{resource} unset") == UNSET[resource].keys()


@pytest.mark.parametrize("resource", BOTH)
def test_a_resource_is_created_with_every_option(baremetal, owner, resource):
    arguments, expected = words(BOTH[resource])
    identity = str(uuid.uuid4())
    create_arguments = [*needed(resource, owner), *arguments, "--uuid", identity]

    created = baremetal(*resource.split(), "create", *create_arguments)

    assert {**expected, "uuid": identity} == {
        field: created[field] for field in (*expected, "uuid")
    }
    answer = baremetal(*resource.split(), "show", identity)
    assert created == {field: answer[field] for field in created}
    (field, value), *_ = expected.items()
    some = baremetal(*resource.split(), "show", identity, "--fields", "uuid", field)
    assert {"uuid": identity, field: value} == some
    baremetal(*resource.split(), "delete", identity)
    assert "404" in baremetal.refused(*resource.split(), "show", identity)


@pytest.mark.parametrize("resource", BOTH)
def test_every_option_is_set_and_unset(baremetal, owner, resource):
    name = resource.split()
    identity = baremetal(*name, "create", *needed(resource, owner))["uuid"]
    arguments, expected = words(BOTH[resource])

    baremetal(*name, "set", identity, *arguments)

    answer = baremetal(*name, "show", identity)
    assert expected == {field: answer[field] for field in expected}

    arguments, expected = words(UNSET[resource])
    baremetal(*name, "unset", identity, *arguments)

    answer = baremetal(*name, "show", identity)
    assert expected == {field: answer[field] for field in expected}
    baremetal(*name, "delete", identity)


@pytest.mark.parametrize("resource", BOTH)
def test_a_resource_is_listed(baremetal, owner, resource):
    """By node, with all or some fields, sorted, in pages; several are deleted at once."""
    name = resource.split()
    first_arguments, second_arguments = needed(resource, owner), list(needed(resource, owner))
    if ADDRESS in second_arguments:
        second_arguments[0] = "52:54:00:00:02:02"
    second_arguments = ["1" if word == "0" else word for word in second_arguments]
    both = {
        baremetal(*name, "create", *arguments)["uuid"]
        for arguments in (first_arguments, second_arguments)
    }
    owned = () if resource == "chassis" else ("--node", owner)

    def uuids(*filters):
        return [row["uuid"] for row in baremetal(*name, "list", *owned, *filters)]

    assert both <= set(uuids())
    assert not owned or len(uuids()) == 2
    assert uuids("--sort", "uuid:asc") == sorted(uuids())
    page = uuids("--limit", 1)
    assert 1 == len(page)
    assert set(uuids()) - {*page} >= set(uuids("--limit", 1, "--marker", page[0])) != set()
    assert [{"uuid": uuid} for uuid in sorted(uuids())] == baremetal(
        *name, "list", *owned, "--fields", "uuid", "--sort", "uuid"
    )
    long = next(
        entry for entry in baremetal(*name, "list", *owned, "--long") if entry["uuid"] in both
    )
    answer = baremetal(*name, "show", long["uuid"])
    assert {field: answer[field] for field in long} == long
    baremetal(*name, "delete", *both)
    assert not both & set(uuids())
    assert "404" in baremetal.refused(*name, "list", *owned, "--marker", page[0])


def test_a_port_has_a_group_and_pxe_enabled(baremetal, owner):
    group, other = (baremetal("port", "group", "create", "--node", owner)["uuid"] for _ in range(2))
    arguments = ("--node", owner, "--port-group", group, "--pxe-enabled", "false")
    port = baremetal("port", "create", ADDRESS, *arguments)
    assert (group, False) == (port["portgroup_uuid"], port["pxe_enabled"])
    changed = ("--port-group", other, "--pxe-enabled", "--address", "52:54:00:00:02:03")
    baremetal("port", "set", port["uuid"], *changed)
    answer = baremetal("port", "show", "--address", "52:54:00:00:02:03")
    assert (other, True) == (answer["portgroup_uuid"], answer["pxe_enabled"])
    assert [port["uuid"]] == [
        row["uuid"] for row in baremetal("port", "list", "--port-group", other)
    ]
    assert [] == baremetal("port", "list", "--port-group", group)
    assert [] == baremetal("port", "list", "--address", ADDRESS)
    baremetal("port", "set", port["uuid"], "--pxe-disabled")
    assert not baremetal("port", "show", port["uuid"])["pxe_enabled"]
    assert "409" in baremetal.refused("port", "create", "52:54:00:00:02:03", "--node", owner)


def test_a_smart_nic_has_a_host(baremetal, owner):
    link = ("--local-link-connection=port_id=p1", "--local-link-connection=hostname=h1")
    port = baremetal("port", "create", ADDRESS, "--node", owner, *link, "--is-smartnic")
    assert port["is_smartnic"]
    baremetal("port", "unset", port["uuid"], "--is-smartnic")
    assert not baremetal("port", "show", port["uuid"])["is_smartnic"]
    baremetal("port", "set", port["uuid"], "--is-smartnic")
    assert baremetal("port", "show", port["uuid"])["is_smartnic"]
    without = ("--local-link-connection=switch_id=00:11:22:33:44:55", "--is-smartnic")
    other = ("port", "create", "52:54:00:00:02:04", "--node", owner, *without)
    assert "hostname" in baremetal.refused(*other)


def test_a_group_supports_standalone_ports_or_not(baremetal, owner):
    alone = ("--support-standalone-ports", "--unsupport-standalone-ports")
    group = baremetal("port", "group", "create", "--node", owner, alone[1])
    assert not group["standalone_ports_supported"]
    for option, expected in zip(alone, (True, False), strict=True):
        baremetal("port", "group", "set", group["uuid"], option)
        answer = baremetal("port", "group", "show", group["uuid"])
        assert expected == answer["standalone_ports_supported"]


def test_a_port_and_its_group_move_to_another_node(baremetal, owner):
    other = baremetal("node", "create", "--driver", "fake-hardware")["uuid"]
    _off(baremetal, other)
    for resource in ("port", "port group", "volume connector", "volume target"):
        name = resource.split()
        identity = baremetal(*name, "create", *needed(resource, owner))["uuid"]
        baremetal(*name, "set", identity, "--node", other)
        assert other == baremetal(*name, "show", identity)["node_uuid"], resource
    baremetal("node", "delete", other)


def test_groups_are_found_by_address_name_and_shard(baremetal, owner):
    baremetal("node", "set", owner, "--shard", "of-groups")
    arguments = ("--node", owner, "--address", "52:54:00:00:02:20", "--name", "bond7")
    group = baremetal("port", "group", "create", *arguments)["uuid"]
    assert group == baremetal("port", "group", "show", "bond7")["uuid"]
    address = ("--address", "52:54:00:00:02:20")
    assert group == baremetal("port", "group", "show", *address)["uuid"]
    for filters in (address, ("--shards", "of-groups")):
        assert [group] == [row["uuid"] for row in baremetal("port", "group", "list", *filters)]
    assert [{"name": "of-groups", "count": 1}] == [
        shard for shard in baremetal("shard", "list") if shard["name"] == "of-groups"
    ]


def test_resources_are_created_from_a_file(baremetal, tmp_path):
    port = {"address": "52:54:00:00:02:30"}
    node = {
        "driver": "fake-hardware",
        "name": "of-file",
        "ports": [port],
        "portgroups": [{"name": "pg-of-file", "ports": [{"address": "52:54:00:00:02:31"}]}],
    }
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"chassis": [{"description": "of file", "nodes": [node]}]}))

    baremetal("create", file)

    created_node = baremetal("node", "show", "of-file")
    (group,) = baremetal("port", "group", "list", "--node", "of-file")
    assert "pg-of-file" == group["name"]
    assert 2 == len(baremetal("port", "list", "--node", "of-file"))
    chassis = baremetal("chassis", "show", created_node["chassis_uuid"])
    assert "of file" == chassis["description"]
    baremetal("node", "delete", "of-file")
    baremetal("chassis", "delete", chassis["uuid"])
