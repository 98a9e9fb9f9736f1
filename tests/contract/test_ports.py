"""Ports."""

from uuid import uuid4

import pytest

from app.models import Node


@pytest.fixture
def node(api):
    return api.node(name="n1")


def make(api, node, **fields):
    body = {"node_uuid": node["uuid"], "address": "52:54:00:00:00:01", **fields}
    return api("POST", "/v1/ports", {key: value for key, value in body.items() if value})


def test_a_port_belongs_to_a_node(api, node):
    answer = make(api, node, address="52:54:00:AA:00:01", name="p1")
    port = answer.json

    assert 201 == answer.status_code
    assert ("52:54:00:aa:00:01", node["uuid"], True) == (
        port["address"],
        port["node_uuid"],
        port["pxe_enabled"],
    )
    assert port == api("GET", "/v1/ports/p1").json
    assert [{key: port[key] for key in ("uuid", "address", "links")}] == (
        api("GET", "/v1/nodes/n1/ports").json["ports"]
    )
    assert 204 == api("DELETE", f"/v1/ports/{port['uuid']}").status_code
    assert 404 == api("GET", "/v1/ports/p1").status_code


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"address": "52:54:00"}, 400),
        ({"address": None}, 400),
        ({"node_uuid": str(uuid4())}, 400),
        ({"node_uuid": None}, 400),
        ({"node_ident": "n1"}, 400),
        ({"node_uuid": None, "node_ident": "n1"}, 201),
        ({"local_link_connection": {"switch_id": "x", "port_id": "1"}}, 400),
        ({"local_link_connection": {"port_id": "1"}}, 400),
        ({"local_link_connection": {"colour": "red"}}, 400),
        ({"local_link_connection": {"network_type": "unmanaged"}}, 201),
        ({"local_link_connection": {"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "1"}}, 201),
        ({"is_smartnic": True, "local_link_connection": {"port_id": "1", "switch_id":
                                                         "0a:1b:2c:3d:4e:5f"}}, 400),
        ({"extra": [1]}, 400),
        ({"address": "52-54-00-00-00-01"}, 400),
        ({"colour": "red"}, 400),
    ],
)  # fmt: skip
def test_an_invalid_port_is_refused(api, node, fields, status):
    assert status == make(api, node, **fields).status_code


@pytest.mark.parametrize("switch", ["0A:1B:2C:3D:4E:5F", "0000AABBCCDDEEFF"])
def test_the_id_of_a_switch_is_lower_cased(api, node, switch):
    port = make(api, node, local_link_connection={"switch_id": switch, "port_id": "1"}).json
    assert switch.lower() == port["local_link_connection"]["switch_id"]


def test_a_patch_without_effect_writes_nothing(api, node):
    port = make(api, node).json
    path = f"/v1/ports/{port['uuid']}"
    answer = api("PATCH", path, [{"op": "replace", "path": "/extra", "value": {}}])
    assert port == answer.json == api("GET", path).json


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_addresses_are_unique(api, node):
    assert 201 == make(api, node).status_code
    assert 409 == make(api, node).status_code


def test_a_field_of_a_newer_version_is_not_acceptable(api, node):
    assert 406 == make(api.at("1.87"), node, name="p1").status_code


def test_a_port_can_be_added_to_a_locked_node_but_not_changed(api, node):
    api.set(node["uuid"], reservation="rack-1")
    port = make(api, node)

    assert 201 == port.status_code
    path = f"/v1/ports/{port.json['uuid']}"
    change = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert 409 == api("PATCH", path, change).status_code
    assert 409 == api("DELETE", path).status_code
    api.set(node["uuid"], reservation=None)
    assert {"a": 1} == api("PATCH", path, change).json["extra"]


@pytest.mark.parametrize(
    ("state", "maintenance", "field", "status"),
    [
        ("active", False, "address", 409),
        ("active", True, "address", 200),
        ("manageable", False, "address", 200),
        ("available", False, "pxe_enabled", 409),
        ("available", True, "pxe_enabled", 200),
        ("enroll", False, "pxe_enabled", 200),
        ("active", False, "extra", 200),
        ("inspecting", False, "extra", 409),
    ],
)
def test_the_wiring_of_a_node_in_use_is_not_changed(api, node, state, maintenance, field, status):
    path = f"/v1/ports/{make(api, node).json['uuid']}"
    api.set(node["uuid"], provision_state=state, maintenance=maintenance)
    value = {"address": "52:54:00:00:00:02", "pxe_enabled": False, "extra": {"a": 1}}[field]
    change = [{"op": "replace", "path": f"/{field}", "value": value}]

    assert status == api("PATCH", path, change).status_code


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 2), ("node=n1", 1), ("address=52:54:00:00:00:01", 1), ("address=52:54:00:00:00:09", 0),
        ("shard=s1", 1), ("conductor_groups=far", 1), ("limit=1", 1),
    ],
)  # fmt: skip
def test_ports_are_filtered(api, node, query, count):
    other = api.node(shard="s1", conductor_group="far")
    make(api, node)
    make(api, other, address="52:54:00:00:00:02")

    assert count == len(api("GET", f"/v1/ports?{query}").json["ports"])


def test_filters_that_exclude_each_other_are_refused(api, node):
    for pair in ("node=n1&shard=s1", "node=n1&portgroup=g", "portgroup=g&shard=s1"):
        assert 403 == api("GET", f"/v1/ports?{pair}").status_code
    assert 404 == api("GET", "/v1/ports?node=nonesuch").status_code
    assert 404 == api("GET", "/v1/ports?portgroup=nonesuch").status_code
    assert 400 == api("GET", "/v1/ports?portgroup=g&conductor_groups=far").status_code
    assert 400 == api("GET", "/v1/ports?node=n1&conductor_groups=far").status_code
    assert 400 == api("DELETE", "/v1/ports/by-name").status_code


def test_a_port_can_move_to_another_node(api, node):
    other = api.node()
    path = f"/v1/ports/{make(api, node).json['uuid']}"
    change = [{"op": "replace", "path": "/node_uuid", "value": other["uuid"]}]

    assert other["uuid"] == api("PATCH", path, change).json["node_uuid"]
    with api.runtime.reading() as session:
        assert 2 == session.query(Node).count()


@pytest.mark.parametrize("version", ["1.1", "1.115"])
@pytest.mark.parametrize("path", ["/v1/ports/detail", "/v1/nodes/{uuid}/ports/detail"])
def test_details_have_their_own_route(api, node, version, path):
    port = make(api, node).json
    api = api.at(version)
    ports = api("GET", path.format(**node)).json["ports"]

    assert [api("GET", f"/v1/ports/{port['uuid']}").json] == ports


def test_a_removed_field_gets_the_value_of_a_new_port(api, node):
    fields = {"extra": {"a": 1}, "pxe_enabled": False, "physical_network": "p1"}
    port = make(api, node, extra={"a": 1}, physical_network="p1").json
    path = f"/v1/ports/{port['uuid']}"
    api("PATCH", path, [{"op": "replace", "path": "/pxe_enabled", "value": False}])
    assert fields.items() <= api("GET", path).json.items()

    removed = api("PATCH", path, [{"op": "remove", "path": f"/{name}"} for name in fields]).json
    assert ({}, True, None) == tuple(removed[name] for name in fields)


def test_ports_below_nodes_are_only_listed(api, node):
    uuid = make(api, node).json["uuid"]

    assert 400 == api("POST", "/v1/nodes/n1/ports", {}).status_code
    assert 400 == api("GET", f"/v1/nodes/n1/ports/{uuid}").status_code
