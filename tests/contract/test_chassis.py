"""Chassis, and the nodes in them."""

from uuid import uuid4

import pytest

NOBODY = "00000000-0000-4000-8000-000000000000"
FIELDS = {"uuid", "description", "extra", "nodes", "created_at", "updated_at", "links"}


@pytest.fixture
def chassis(api):
    return api("POST", "/v1/chassis", {"description": "rack 1", "extra": {"row": 7}}).json


def placed(api, chassis, **fields):
    body = {"driver": "fake-hardware", "chassis_uuid": chassis["uuid"], **fields}
    return api("POST", "/v1/nodes", body)


def change_of(value):
    return [{"op": "replace", "path": "/chassis_uuid", "value": value}]


@pytest.mark.parametrize("version", ["1.1", "1.115"])
def test_a_chassis_is_created_shown_changed_and_deleted(api, version):
    api = api.at(version)
    answer = api("POST", "/v1/chassis", {"description": "rack 1"})
    chassis = answer.json
    url = f"http://localhost/v1/chassis/{chassis['uuid']}"

    assert (201, url) == (answer.status_code, answer.headers["Location"])
    assert FIELDS == chassis.keys()
    assert [f"{url}/nodes", f"{url}/nodes".replace("/v1", "")] == [
        link["href"] for link in chassis["nodes"]
    ]
    assert chassis == api("GET", url).json
    changed = api("PATCH", url, [{"op": "add", "path": "/extra/a", "value": 1}])
    assert (200, {"a": 1}) == (changed.status_code, changed.json["extra"])
    assert api("PATCH", url, [{"op": "remove", "path": "/description"}]).json["description"] is None
    assert (204, 404) == (api("DELETE", url).status_code, api("GET", url).status_code)


def test_lists_show_the_short_form_by_default(api, chassis):
    forms = {
        "/v1/chassis": {"uuid", "description", "links"},
        "/v1/chassis/detail": FIELDS,
        "/v1/chassis?detail=true": FIELDS,
        "/v1/chassis?fields=extra,nodes": {"extra", "nodes", "links"},
    }
    lists = {path: api("GET", path).json["chassis"] for path in forms}

    assert forms == {path: items[0].keys() for path, items in lists.items()}
    assert {"uuid", "links"} == api("GET", f"/v1/chassis/{chassis['uuid']}?fields=uuid").json.keys()


@pytest.mark.parametrize(
    ("version", "method", "path", "body", "status"),
    [
        ("1.1", "GET", "/v1/chassis/detail", None, 200),
        ("1.7", "GET", "/v1/chassis?fields=uuid", None, 406),
        ("1.42", "GET", "/v1/chassis?detail=true", None, 400),
        ("1.115", "GET", "/v1/chassis/detail?fields=uuid", None, 400),
        ("1.115", "GET", "/v1/chassis/by-name", None, 400),
        ("1.115", "GET", f"/v1/chassis/{NOBODY}", None, 404),
        ("1.115", "GET", f"/v1/chassis?marker={NOBODY}", None, 404),
        ("1.115", "GET", "/v1/chassis?sort_key=extra", None, 400),
        ("1.115", "GET", "/v1/chassis?colour=red", None, 400),
        ("1.115", "POST", "/v1/chassis", {"description": "x" * 256}, 400),
        ("1.115", "POST", "/v1/chassis", {"extra": [1]}, 400),
        ("1.115", "POST", "/v1/chassis", {"colour": "red"}, 400),
        ("1.115", "POST", "/v1/chassis", {}, 201),
    ],
)
def test_what_is_wrong_is_refused(api, version, method, path, body, status):
    assert status == api.at(version)(method, path, body).status_code


def test_the_uuid_of_a_chassis_is_unique_and_cannot_be_changed(api, chassis):
    change = [{"op": "replace", "path": "/uuid", "value": str(uuid4())}]

    assert 409 == api("POST", "/v1/chassis", {"uuid": chassis["uuid"]}).status_code
    assert 400 == api("PATCH", f"/v1/chassis/{chassis['uuid']}", change).status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nodes_belong_to_a_chassis(api, chassis):
    node = placed(api, chassis, name="n1")
    api.node()
    path, uuid = f"/v1/chassis/{chassis['uuid']}", node.json["uuid"]

    assert (201, chassis["uuid"]) == (node.status_code, node.json["chassis_uuid"])
    for listing in (f"{path}/nodes", f"/v1/nodes?chassis_uuid={chassis['uuid']}"):
        assert [uuid] == [entry["uuid"] for entry in api("GET", listing).json["nodes"]]
    assert node.json == api("GET", f"{path}/nodes/detail").json["nodes"][0]
    assert 400 == api("DELETE", path).status_code
    assert 406 == api.at("1.24")("PATCH", "/v1/nodes/n1", change_of(None)).status_code
    removal = [{"op": "remove", "path": "/chassis_uuid"}]
    assert api.at("1.25")("PATCH", "/v1/nodes/n1", removal).json["chassis_uuid"] is None
    assert 204 == api("DELETE", path).status_code


def test_an_unknown_chassis_is_refused(api, chassis):
    missing = {"uuid": str(uuid4())}
    node = placed(api, chassis).json

    assert 400 == placed(api, missing).status_code
    assert 400 == placed(api, {"uuid": "by-name"}).status_code
    change = change_of(missing["uuid"])
    assert 400 == api("PATCH", f"/v1/nodes/{node['uuid']}", change).status_code
    assert 404 == api("GET", f"/v1/nodes?chassis_uuid={missing['uuid']}").status_code
    assert 404 == api("GET", f"/v1/chassis/{missing['uuid']}/nodes").status_code
    assert 400 == api("GET", "/v1/chassis/by-name/nodes").status_code
    assert 400 == api("GET", f"/v1/chassis/{chassis['uuid']}/nodes/{node['uuid']}").status_code
    assert 400 == api("POST", f"/v1/chassis/{chassis['uuid']}/nodes", {}).status_code
