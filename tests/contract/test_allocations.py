"""The API of allocations; the integration tests cover the selection of nodes."""

from uuid import uuid4

import pytest

from app.broker.messages import TaskMessage
from app.inventory import scheduling
from app.models import Conductor
from tests.contract.conftest import fault

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
PATH = "/v1/allocations"
FREE = {"provision_state": "available", "power_state": "power off", "resource_class": "large"}


def make(api, **fields):
    answer = api("POST", PATH, {"resource_class": "large", **fields})
    assert 201 == answer.status_code, answer.text
    return answer.json


def found(api, **fields):
    """Create an allocation, and let the conductor search for a node."""
    uuid = make(api, **fields)["uuid"]
    scheduling.allocate(api.runtime, uuid)
    return api("GET", f"{PATH}/{uuid}").json


def patch(op, path, value=None):
    return [{"op": op, "path": path} | ({} if op == "remove" else {"value": value})]


@BOTH
def test_an_allocation_is_created_completed_shown_and_deleted(api):
    node = api.node(name="n1", **FREE)
    answer = api("POST", PATH, {"resource_class": "large", "name": "a1", "extra": {"a": 1}})
    allocation = answer.json
    path = f"{PATH}/{allocation['uuid']}"

    assert (201, f"http://localhost{path}") == (answer.status_code, answer.location)
    assert ("allocating", None, None, {"a": 1}, [], []) == tuple(
        allocation[name]
        for name in ("state", "node_uuid", "last_error", "extra", "traits", "candidate_nodes")
    )
    assert [TaskMessage("ingot.allocate", (allocation["uuid"],))] == api.messages

    scheduling.allocate(api.runtime, allocation["uuid"])

    active = api("GET", f"{PATH}/a1").json
    assert ("active", node["uuid"], None) == (
        active["state"],
        active["node_uuid"],
        active["last_error"],
    )
    assert {"allocations": [active]} == api("GET", PATH).json
    assert active == api("GET", "/v1/nodes/n1/allocation").json
    allocated_node = api("GET", "/v1/nodes/n1").json
    assert (allocation["uuid"],) * 2 == (
        allocated_node["instance_uuid"],
        allocated_node["allocation_uuid"],
    )
    assert {"traits": []} == allocated_node["instance_info"]
    listed = api("GET", "/v1/nodes?fields=uuid,allocation_uuid").json["nodes"]
    assert [allocation["uuid"]] == [entry["allocation_uuid"] for entry in listed]
    assert "allocation_uuid" not in api.at("1.51")("GET", "/v1/nodes/n1").json

    assert 204 == api("DELETE", path).status_code
    free = api("GET", "/v1/nodes/n1").json
    assert (None, None, {}) == tuple(
        free[name] for name in ("instance_uuid", "allocation_uuid", "instance_info")
    )
    assert 404 == api("GET", path).status_code
    assert 404 == api("DELETE", path).status_code


@pytest.mark.parametrize(
    ("version", "method", "path", "body", "status"),
    [
        ("1.51", "GET", "", None, 404),
        ("1.51", "POST", "", {"resource_class": "large"}, 405),
        ("1.51", "GET", "/a1", None, 404),
        ("1.51", "DELETE", "/a1", None, 405),
        ("1.56", "PATCH", "/a1", [], 405),
        ("1.57", "PATCH", "/a1", [], 200),
        ("1.57", "POST", "", {"node": "n1"}, 400),
        ("1.59", "POST", "", {"resource_class": "large", "owner": "p1"}, 406),
        ("1.59", "GET", "?owner=p1", None, 406),
        ("1.59", "GET", "?fields=owner", None, 406),
        ("1.60", "GET", "?owner=p1", None, 200),
        ("1.52", "POST", "", {"resource_class": "large"}, 201),
    ],
)
def test_a_version_has_its_fields_and_routes(api, version, method, path, body, status):
    make(api, name="a1")
    assert status == api.at(version)(method, PATH + path, body).status_code


def test_the_owner_is_shown_from_1_60(api):
    make(api, name="a1", owner="p1")
    assert "owner" not in api.at("1.59")("GET", f"{PATH}/a1").json
    assert "p1" == api.at("1.60")("GET", f"{PATH}/a1").json["owner"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"resource_class": None}, 400),
        ({"resource_class": ""}, 400),
        ({"resource_class": "x" * 81}, 400),
        ({"traits": ["custom"]}, 400),
        ({"traits": [f"CUSTOM_{i}" for i in range(51)]}, 400),
        ({"traits": None, "candidate_nodes": None, "name": None, "extra": None}, 201),
        ({"candidate_nodes": ["n1"]}, 201),
        ({"candidate_nodes": ["nonesuch"]}, 400),
        ({"candidate_nodes": [str(uuid4())]}, 400),
        ({"candidate_nodes": "n1"}, 400),
        ({"name": "a/b"}, 400),
        ({"uuid": "x"}, 400),
        ({"node": "nonesuch"}, 400),
        ({"state": "active"}, 400),
        ({"colour": "red"}, 400),
    ],
)
def test_invalid_requests_are_refused(api, fields, status):
    api.node(name="n1")
    answer = api("POST", PATH, {"resource_class": "large", **fields})

    assert status == answer.status_code, answer.text
    assert int(status == 201) == len(api("GET", PATH).json["allocations"])


@BOTH
def test_names_and_uuids_are_unique(api):
    allocation = make(api, name="a1")
    other = make(api, name="a2")
    node = api.node(instance_uuid=str(uuid4()))

    for fields in ({"name": "a1"}, {"uuid": allocation["uuid"]}, {"uuid": node["instance_uuid"]}):
        answer = api("POST", PATH, {"resource_class": "large", **fields})
        assert 409 == answer.status_code, fields
    changed = api("PATCH", f"{PATH}/{other['uuid']}", patch("replace", "/name", "a1"))
    assert 409 == changed.status_code


def test_candidates_are_kept_by_uuid_in_their_order(api):
    nodes = [api.node(name=name)["uuid"] for name in ("n1", "n2")]

    assert nodes[::-1] == make(api, candidate_nodes=["n2", nodes[0], "n2"])["candidate_nodes"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a1", "a2", "a3"]), ("resource_class=small", ["a3"]), ("state=active", ["a1"]),
        ("state=error", ["a3"]), ("owner=p2", ["a2"]), ("node=n1", ["a1"]), ("node=n2", []),
        ("limit=1", ["a1"]), ("sort_key=name&sort_dir=desc", ["a3", "a2", "a1"]),
    ],
)  # fmt: skip
def test_allocations_are_filtered(api, query, names):
    api.node(name="n1", **FREE)
    api.node(name="n2")
    found(api, name="a1")
    make(api, name="a2", owner="p2")
    found(api, name="a3", resource_class="small")

    listed = api("GET", f"{PATH}?{query}").json["allocations"]
    assert names == [allocation["name"] for allocation in listed]


@pytest.mark.parametrize(
    "query", ["node=nonesuch", "limit=0", "sort_key=extra", "sort_key=traits", "detail=true"]
)
def test_an_invalid_query_of_allocations_is_refused(api, query):
    assert 400 == api("GET", f"{PATH}?{query}").status_code


@pytest.mark.parametrize(
    ("op", "path", "value", "status"),
    [
        ("replace", "/name", "a9", 200),
        ("remove", "/name", None, 200),
        ("add", "/extra/b", 1, 200),
        ("remove", "/extra", None, 200),
        ("replace", "/name", "a/b", 400),
        ("replace", "/resource_class", "small", 400),
        ("replace", "/owner", "p1", 400),
        ("replace", "/state", "active", 400),
        ("remove", "/extra/nonesuch", None, 400),
    ],
)
def test_only_name_and_extra_can_be_changed(api, op, path, value, status):
    allocation = make(api, name="a1", extra={"a": 1})
    answer = api("PATCH", f"{PATH}/a1", patch(op, path, value))

    assert status == answer.status_code
    assert (status == 400) == (allocation == api("GET", f"{PATH}/{allocation['uuid']}").json)


def test_an_allocation_without_any_conductor_is_refused(api):
    with api.runtime.transaction() as session:
        session.query(Conductor).delete()

    answer = api("POST", PATH, {"resource_class": "large"})
    assert (503, "5") == (answer.status_code, answer.headers["Retry-After"])


# Deletion


@BOTH
@pytest.mark.parametrize(
    ("columns", "status"),
    [
        ({"owner": None}, 204),
        ({"provision_state": "active"}, 409),
        ({"provision_state": "active", "maintenance": True}, 204),
        ({"provision_state": "deploying", "target_provision_state": "active"}, 409),
        ({"provision_state": "deploy failed", "target_provision_state": "active"}, 204),
        ({"reservation": "rack-1"}, 409),
    ],
)
def test_the_allocation_of_a_node_in_use_is_not_deleted(api, columns, status):
    node = api.node(name="n1", **FREE)
    allocation = found(api, name="a1")
    api.set(node["uuid"], **columns)

    for path in (f"{PATH}/a1", "/v1/nodes/n1/allocation"):
        answer = api("DELETE", path)
        assert status == answer.status_code, answer.text
        if status == 204:
            break
    allocation_uuid = api("GET", "/v1/nodes/n1").json["allocation_uuid"]
    assert (None if status == 204 else allocation["uuid"]) == allocation_uuid


def test_the_allocation_of_a_node_has_a_route_below_the_node(api):
    api.node(name="n1", **FREE)
    assert 404 == api("GET", "/v1/nodes/n1/allocation").status_code
    assert 404 == api("DELETE", "/v1/nodes/n1/allocation").status_code
    assert 400 == api("GET", "/v1/nodes/nonesuch/allocation").status_code
    assert 404 == api("DELETE", "/v1/nodes/nonesuch/allocation").status_code
    found(api, name="a1")

    answer = api("GET", "/v1/nodes/n1/allocation?fields=name").json
    assert {"name", "links"} == answer.keys()
    assert 404 == api.at("1.51")("GET", "/v1/nodes/n1/allocation").status_code
    assert 404 == api.at("1.51")("DELETE", "/v1/nodes/n1/allocation").status_code
    assert 204 == api("DELETE", "/v1/nodes/n1/allocation").status_code
    assert [] == api("GET", PATH).json["allocations"]


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        ({"owner": None}, 200),
        ({"provision_state": "active"}, 409),
        ({"provision_state": "active", "maintenance": True}, 200),
    ],
)
def test_removing_the_instance_deletes_the_allocation(api, columns, status):
    node = api.node(name="n1", **FREE)
    found(api)
    api.set(node["uuid"], **columns)

    assert status == api("PATCH", "/v1/nodes/n1", patch("remove", "/instance_uuid")).status_code
    assert int(status != 200) == len(api("GET", PATH).json["allocations"])
    assert (status != 200) == ("traits" in api("GET", "/v1/nodes/n1").json["instance_info"])


def test_an_allocation_of_a_project_keeps_the_nodes_owner(api):
    node = api.node(name="n1", owner="p1", **FREE)
    found(api, owner="p1")

    assert 409 == api("PATCH", "/v1/nodes/n1", patch("add", "/owner", "p2")).status_code
    assert 200 == api("PATCH", "/v1/nodes/n1", patch("add", "/owner", "p1")).status_code
    assert 204 == api("DELETE", "/v1/nodes/n1/allocation").status_code
    assert 200 == api("PATCH", "/v1/nodes/n1", patch("add", "/owner", "p2")).status_code
    assert node["uuid"]


def test_an_allocation_is_deleted_with_its_node(api):
    node = api.node(name="n1", **FREE)
    found(api, name="a1")
    api.set(node["uuid"], maintenance=True)

    assert 204 == api("DELETE", "/v1/nodes/n1").status_code
    assert 404 == api("GET", f"{PATH}/a1").status_code


# Nodes that are already in use


@pytest.fixture
def used(api):
    """An active node with an instance and without an allocation."""
    node = api.node(
        name="n1", provision_state="active", resource_class="large", instance_uuid=str(uuid4())
    )
    api("PUT", "/v1/nodes/n1/traits", {"traits": ["CUSTOM_A"]})
    return node


@BOTH
def test_a_node_in_use_gets_its_allocation_at_once(api, used):
    answer = api("POST", PATH, {"node": "n1", "traits": ["CUSTOM_A"], "candidate_nodes": ["n1"]})

    assert 201 == answer.status_code, answer.text
    assert ("active", used["uuid"], used["instance_uuid"], "large") == tuple(
        answer.json[name] for name in ("state", "node_uuid", "uuid", "resource_class")
    )
    node = api("GET", "/v1/nodes/n1").json
    assert (answer.json["uuid"], ["CUSTOM_A"]) == (
        node["allocation_uuid"],
        node["instance_info"]["traits"],
    )
    assert [] == api.messages


@pytest.mark.parametrize(
    ("columns", "fields", "status"),
    [
        ({"owner": None}, {}, 201),
        ({"instance_uuid": None}, {}, 201),
        ({"owner": None}, {"uuid": str(uuid4())}, 409),
        ({"provision_state": "available"}, {}, 409),
        ({"reservation": "rack-1"}, {}, 409),
        ({"owner": None}, {"resource_class": "small"}, 400),
        ({"owner": None}, {"traits": ["CUSTOM_B"]}, 400),
        ({"owner": None}, {"candidate_nodes": ["n2"]}, 400),
    ],
)
def test_an_unsuitable_allocation_is_refused_and_not_stored(api, used, columns, fields, status):
    api.node(name="n2")
    api.set(used["uuid"], **columns)
    node = api("GET", "/v1/nodes/n1").json
    answer = api("POST", PATH, {"node": "n1", **fields})

    assert status == answer.status_code
    if status != 201:
        assert "Client" == fault(answer)["faultcode"]
        assert [] == api("GET", PATH).json["allocations"]
        assert node == api("GET", "/v1/nodes/n1").json


def test_a_node_has_one_allocation(api, used):
    assert 201 == api("POST", PATH, {"node": "n1"}).status_code
    assert 409 == api("POST", PATH, {"node": "n1"}).status_code
