"""Port groups, and the ports that belong to them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from uuid import uuid4

import pytest

from tests.contract.conftest import fault


@pytest.fixture
def node(api):
    return api.node(name="n1")


def make(api, node, **fields):
    answer = api("POST", "/v1/portgroups", {"node_uuid": node["uuid"], **fields})
    assert 201 == answer.status_code, answer.text
    return answer.json


def make_port(api, node, number=1, **fields):
    body = {"node_uuid": node["uuid"], "address": f"52:54:00:00:00:0{number}", **fields}
    return api("POST", "/v1/ports", body)


def replaced(path, value):
    return [{"op": "replace", "path": path, "value": value}]


def test_a_port_group_is_created_shown_changed_and_deleted(api, node):
    group = make(api, node, name="bond0", address="52:54:00:AA:00:01", properties={"a": 1})
    path = "/v1/portgroups/bond0"
    links = f"http://localhost/v1/portgroups/{group['uuid']}"

    assert {
        "uuid": group["uuid"], "name": "bond0", "node_uuid": node["uuid"],
        "address": "52:54:00:aa:00:01", "extra": {}, "internal_info": {},
        "standalone_ports_supported": True, "mode": "active-backup", "properties": {"a": 1},
        "physical_network": None, "category": None, "dynamic_portgroup": False,
        "created_at": group["created_at"], "updated_at": None,
        "ports": [
            {"href": f"{links}/ports", "rel": "self"},
            {"href": f"{links.replace('/v1', '')}/ports", "rel": "bookmark"},
        ],
        "links": [
            {"href": links, "rel": "self"},
            {"href": links.replace("/v1", ""), "rel": "bookmark"},
        ],
    } == group  # fmt: skip
    assert group == api("GET", path).json
    changed = api("PATCH", path, replaced("/mode", "802.3ad"))
    assert (200, "802.3ad") == (changed.status_code, changed.json["mode"])
    assert changed.json["updated_at"]
    assert 204 == api("DELETE", path).status_code
    assert 404 == api("GET", path).status_code


def test_lists_show_the_short_form_by_default(api, node):
    group = make(api, node, name="bond0")
    short = {"uuid", "name", "address", "links"}
    forms = {
        "/v1/portgroups": short,
        "/v1/nodes/n1/portgroups": short,
        "/v1/portgroups?detail=true": group.keys(),
        "/v1/portgroups/detail": group.keys(),
        "/v1/nodes/n1/portgroups/detail": group.keys(),
        "/v1/portgroups?fields=mode,ports": {"mode", "ports", "links"},
    }

    lists = {path: api("GET", path).json["portgroups"] for path in forms}
    assert forms == {path: items[0].keys() for path, items in lists.items()}
    assert 400 == api("GET", "/v1/portgroups/detail?fields=mode").status_code
    assert 400 == api("GET", "/v1/portgroups?sort_key=properties").status_code


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"node_uuid": None}, 400),
        ({"node_uuid": str(uuid4())}, 400),
        ({"name": "not a name"}, 400),
        ({"address": "52:54"}, 400),
        ({"category": "x" * 81}, 400),
        ({"physical_network": "x" * 65}, 400),
        ({"standalone_ports_supported": "perhaps"}, 400),
        ({"internal_info": {"a": 1}}, 400),
        ({"dynamic_portgroup": True}, 400),
        ({"mode": None, "address": None, "properties": None}, 201),
    ],
)
def test_an_invalid_port_group_is_refused(api, node, fields, status):
    body = {"node_uuid": node["uuid"], **fields}

    assert status == api("POST", "/v1/portgroups", body).status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("field", ["name", "address", "uuid"])
def test_names_and_addresses_are_unique(api, node, field):
    value = {"name": "bond0", "address": "52:54:00:00:00:01", "uuid": str(uuid4())}[field]
    make(api, node, **{field: value})
    answer = api("POST", "/v1/portgroups", {"node_uuid": node["uuid"], field: value})

    assert 409 == answer.status_code
    label = {"address": "MAC address", "uuid": "UUID"}.get(field, field)
    assert f"A portgroup with {label} {value} already exists." == fault(answer)["faultstring"]


@pytest.mark.parametrize(
    ("version", "method", "path", "body", "status"),
    [
        ("1.22", "GET", "/v1/portgroups", None, 404),
        ("1.22", "POST", "/v1/portgroups", {}, 404),
        ("1.23", "GET", "/v1/portgroups", None, 200),
        ("1.23", "GET", "/v1/portgroups/bond0", None, 200),
        ("1.23", "GET", "/v1/nodes/n1/portgroups", None, 404),
        ("1.24", "GET", "/v1/nodes/n1/portgroups", None, 200),
        ("1.23", "GET", "/v1/portgroups/bond0/ports", None, 404),
        ("1.24", "GET", "/v1/portgroups/bond0/ports", None, 200),
        ("1.25", "POST", "/v1/portgroups", {"mode": "802.3ad"}, 406),
        ("1.26", "POST", "/v1/portgroups", {"mode": "802.3ad"}, 201),
        ("1.25", "PATCH", "/v1/portgroups/bond0", replaced("/properties", {}), 406),
        ("1.101", "POST", "/v1/portgroups", {"physical_network": "p"}, 406),
        ("1.102", "POST", "/v1/portgroups", {"category": "c"}, 406),
        ("1.103", "POST", "/v1/portgroups", {"category": "c"}, 201),
        ("1.98", "GET", "/v1/portgroups?conductor_groups=a", None, 406),
        ("1.105", "GET", "/v1/portgroups?shard=a", None, 406),
        ("1.106", "GET", "/v1/portgroups?shard=a", None, 200),
        ("1.110", "GET", "/v1/portgroups?fields=dynamic_portgroup", None, 406),
        ("1.23", "GET", "/v1/ports?portgroup=bond0", None, 406),
        ("1.24", "GET", "/v1/ports?portgroup=bond0", None, 200),
        ("1.23", "GET", "/v1/ports?fields=portgroup_uuid", None, 406),
    ],
)
def test_each_route_exists_from_its_version(api, node, version, method, path, body, status):
    make(api, node, name="bond0")
    if method == "POST":
        body = {"node_uuid": node["uuid"], **body}

    assert status == api.at(version)(method, path, body).status_code


@pytest.mark.parametrize(
    ("version", "hidden"),
    [
        ("1.23", {"mode", "properties", "physical_network", "category", "dynamic_portgroup"}),
        ("1.26", {"physical_network", "category", "dynamic_portgroup"}),
        ("1.102", {"category", "dynamic_portgroup"}),
        ("1.111", set()),
    ],
)
def test_older_versions_do_not_show_newer_fields(api, node, version, hidden):
    group = make(api, node)
    document = api.at(version)("GET", f"/v1/portgroups/{group['uuid']}").json

    assert hidden == group.keys() - document.keys()


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 2), ("node=n1", 1), ("address=52:54:00:00:00:01", 1), ("address=52:54:00:00:00:09", 0),
        ("shard=s1", 1), ("conductor_groups=far", 1),
    ],
)  # fmt: skip
def test_port_groups_are_filtered(api, node, query, count):
    make(api, node, address="52:54:00:00:00:01")
    make(api, api.node(shard="s1", conductor_group="far"))

    assert count == len(api("GET", f"/v1/portgroups?{query}").json["portgroups"])


def test_invalid_filters_are_refused(api, node):
    assert 400 == api("GET", "/v1/portgroups?node=n1&shard=s").status_code
    assert 404 == api("GET", "/v1/portgroups?node=nonesuch").status_code


@pytest.mark.parametrize(
    ("change", "state", "maintenance", "status"),
    [
        ({"op": "remove", "path": "/mode"}, "enroll", False, 400),
        ({"op": "remove", "path": "/node_uuid"}, "enroll", False, 400),
        ({"op": "remove", "path": "/name"}, "enroll", False, 200),
        ({"op": "replace", "path": "/name", "value": None}, "enroll", False, 200),
        ({"op": "replace", "path": "/internal_info", "value": {}}, "enroll", False, 400),
        ({"op": "replace", "path": "/uuid", "value": str(uuid4())}, "enroll", False, 400),
        ({"op": "add", "path": "/extra/a", "value": 1}, "active", False, 200),
        ({"op": "add", "path": "/extra/a", "value": 1}, "inspecting", False, 409),
        ({"op": "replace", "path": "/node_uuid", "value": "other"}, "manageable", False, 200),
        ({"op": "replace", "path": "/node_uuid", "value": "other"}, "available", False, 409),
        ({"op": "replace", "path": "/node_uuid", "value": "other"}, "available", True, 200),
        ({"op": "replace", "path": "/node_uuid", "value": str(uuid4())}, "enroll", False, 400),
    ],
)
def test_the_state_decides_which_fields_of_a_port_group_may_be_changed(
    api, node, change, state, maintenance, status
):
    group = make(api, node, name="bond0")
    other = api.node()
    api.set(node["uuid"], provision_state=state, maintenance=maintenance)
    if change.get("value") == "other":
        change = {**change, "value": other["uuid"]}

    assert status == api("PATCH", f"/v1/portgroups/{group['uuid']}", [change]).status_code


def test_a_locked_node_keeps_its_port_groups(api, node):
    group = make(api, node)
    path = f"/v1/portgroups/{group['uuid']}"
    api.set(node["uuid"], reservation="rack-1")

    assert 409 == api("PATCH", path, replaced("/extra", {})).status_code
    assert 409 == api("DELETE", path).status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_port_belongs_to_a_group_of_its_node(api, node):
    group, foreign = make(api, node, name="bond0"), make(api, api.node())
    port = make_port(api, node, portgroup_uuid=group["uuid"])
    other = make_port(api, node, 2)
    path = f"/v1/ports/{other.json['uuid']}"

    assert (201, group["uuid"]) == (port.status_code, port.json["portgroup_uuid"])
    for listing in ("/v1/portgroups/bond0/ports", "/v1/ports?portgroup=bond0"):
        assert [port.json["uuid"]] == [
            listed_port["uuid"] for listed_port in api("GET", listing).json["ports"]
        ]
    detail = api("GET", "/v1/portgroups/bond0/ports/detail").json["ports"]
    assert [group["uuid"]] == [listed_port["portgroup_uuid"] for listed_port in detail]
    assert 400 == make_port(api, node, 3, portgroup_uuid=foreign["uuid"]).status_code
    assert 400 == make_port(api, node, 3, portgroup_uuid=str(uuid4())).status_code
    change = replaced("/portgroup_uuid", foreign["uuid"])
    assert 400 == api("PATCH", path, change).status_code
    change = replaced("/portgroup_uuid", group["uuid"])
    assert group["uuid"] == api("PATCH", path, change).json["portgroup_uuid"]
    change = [{"op": "remove", "path": "/portgroup_uuid"}]
    assert api("PATCH", path, change).json["portgroup_uuid"] is None
    api.set(node["uuid"], provision_state="available")
    change = replaced("/portgroup_uuid", group["uuid"])
    assert 409 == api("PATCH", path, change).status_code


def test_a_group_with_ports_is_not_deleted(api, node):
    group = make(api, node)
    port = make_port(api, node, portgroup_uuid=group["uuid"]).json
    path = f"/v1/portgroups/{group['uuid']}"

    assert 400 == api("PATCH", path, replaced("/node_uuid", api.node()["uuid"])).status_code
    assert 400 == api("DELETE", path).status_code
    assert 204 == api("DELETE", f"/v1/ports/{port['uuid']}").status_code
    assert 204 == api("DELETE", path).status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_group_is_not_deleted_while_a_port_joins_it(api, node):
    another = replace(api, client=api.client.application.test_client())
    both = Barrier(2)

    def join(group):
        both.wait()
        return make_port(api, node, portgroup_uuid=group["uuid"])

    def forget(group):
        both.wait()
        return another("DELETE", f"/v1/portgroups/{group['uuid']}")

    with ThreadPoolExecutor(2) as threads:
        for _ in range(8):
            group = make(api, node)
            joined, forgotten = threads.submit(join, group), threads.submit(forget, group)
            joined = joined.result()
            statuses = joined.status_code, forgotten.result().status_code
            assert statuses in {(201, 400), (400, 204)}
            if statuses[0] == 201:
                api("DELETE", f"/v1/ports/{joined.json['uuid']}")


def test_a_pxe_enabled_port_needs_support_of_standalone_ports(api, node):
    group = make(api, node, standalone_ports_supported=False)

    assert 409 == make_port(api, node, portgroup_uuid=group["uuid"]).status_code
    port = make_port(api, node, portgroup_uuid=group["uuid"], pxe_enabled=False)
    assert 201 == port.status_code
    path = f"/v1/ports/{port.json['uuid']}"
    assert 409 == api("PATCH", path, replaced("/pxe_enabled", True)).status_code


@pytest.mark.parametrize(
    ("of_group", "of_member", "of_port", "status"),
    [
        (None, "p1", "p1", 201),
        (None, "p1", "p2", 409),
        (None, "p1", None, 409),
        (None, None, "p1", 409),
        ("p1", "p1", None, 409),
        ("p1", "p1", "p1", 201),
    ],
)
def test_the_ports_of_a_group_are_on_one_physical_network(
    api, node, of_group, of_member, of_port, status
):
    group = make(api, node, physical_network=of_group)
    member = make_port(api, node, portgroup_uuid=group["uuid"], physical_network=of_member)
    port = make_port(api, node, 2, portgroup_uuid=group["uuid"], physical_network=of_port)

    assert (201, status) == (member.status_code, port.status_code)
    group = api("GET", f"/v1/portgroups/{group['uuid']}").json
    assert of_member == group["physical_network"]


def test_a_port_on_another_network_than_its_group_is_refused(api, node):
    group = make(api, node, physical_network="p1")

    assert 409 == make_port(api, node, portgroup_uuid=group["uuid"]).status_code
    port = make_port(api, node, portgroup_uuid=group["uuid"], physical_network="p2")
    assert 409 == port.status_code


def test_the_physical_network_of_a_group_is_that_of_its_ports(api, node):
    group = make(api, node, physical_network="p1")
    port = make_port(api, node, portgroup_uuid=group["uuid"], physical_network="p1").json
    path = f"/v1/ports/{port['uuid']}"

    change = replaced("/physical_network", "p2")
    assert 400 == api("PATCH", path, change).status_code
    assert 409 == api.at("1.101")("PATCH", path, change).status_code
    change = replaced("/physical_network", "p3")
    assert 200 == api("PATCH", f"/v1/portgroups/{group['uuid']}", change).status_code
    assert "p3" == api("GET", path).json["physical_network"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/nodes/n1/portgroups", "/v1/portgroups/bond0/ports"])
def test_lists_below_other_resources_are_read_only(api, node, method, path):
    make(api, node, name="bond0")

    assert 400 == api(method, path, {}).status_code
    assert 400 == api(method, f"{path}/{uuid4()}", {}).status_code
    assert 400 == api("GET", f"{path}/{uuid4()}").status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_port_groups_are_deleted_with_their_node(api, node):
    group = make(api, node)
    make_port(api, node, portgroup_uuid=group["uuid"])

    assert 204 == api("DELETE", "/v1/nodes/n1").status_code
    assert 404 == api("GET", f"/v1/portgroups/{group['uuid']}").status_code


def test_a_node_links_to_its_port_groups(api, node):
    path = f"/v1/nodes/{node['uuid']}"

    assert f"http://localhost{path}/portgroups" == node["portgroups"][0]["href"]
    assert "portgroups" not in api.at("1.23")("GET", path).json
    collections = {
        version: api.at(version)("GET", "/v1").json.keys() & {"portgroups", "volume", "chassis"}
        for version in ("1.22", "1.31", "1.32")
    }
    assert {
        "1.22": {"chassis"},
        "1.31": {"chassis", "portgroups"},
        "1.32": {"chassis", "portgroups", "volume"},
    } == collections
