"""Versions, headers, paths and errors of all requests."""

import re

import orjson
import pytest
from sqlalchemy.exc import OperationalError

from app.api.web import root
from app.server.application import PAGES

from .conftest import fault


@pytest.mark.parametrize(
    ("headers", "spoken"),
    [
        ({}, "1.1"),
        ({"X-OpenStack-Ironic-API-Version": ""}, "1.1"),
        ({"X-OpenStack-Ironic-API-Version": "1.50"}, "1.50"),
        ({"X-OpenStack-Ironic-API-Version": "latest"}, "1.115"),
        ({"OpenStack-API-Version": "baremetal 1.60"}, "1.60"),
        ({"OpenStack-API-Version": "compute 2.1, baremetal latest"}, "1.115"),
        ({"OpenStack-API-Version": "compute 2.1"}, "1.1"),
        (
            {"OpenStack-API-Version": "baremetal 1.60", "X-OpenStack-Ironic-API-Version": "1.9"},
            "1.60",
        ),
    ],
)
def test_a_request_is_answered_in_its_version(api, headers, spoken):
    answer = api.client.get("/v1/nodes", headers=headers)

    assert (200, spoken) == (answer.status_code, answer.headers["X-OpenStack-Ironic-API-Version"])


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nodes"])
@pytest.mark.parametrize("version", ["abc", "1", "1.2.3", "2.1", "1.0", "1.116", "1.-1"])
def test_an_unknown_version_is_not_acceptable(api, path, version):
    answer = api.at(version)("GET", path)

    assert 406 == answer.status_code
    assert "1.1" == answer.headers["X-OpenStack-Ironic-API-Minimum-Version"]
    assert "1.115" == answer.headers["X-OpenStack-Ironic-API-Maximum-Version"]
    assert "X-OpenStack-Ironic-API-Version" not in answer.headers
    assert ("faultstring" if path == "/" else "description") in fault(answer)


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/", "/nodes", "/nodes/"])
def test_a_path_may_omit_the_version_and_end_with_a_slash(api, path):
    assert {"nodes": []} == api("GET", path).json
    assert 200 == api("HEAD", path).status_code


def test_an_agent_reads_the_version_from_the_root(api):
    document = api.at(None)("GET", "/").json

    assert "1.115" == document["default_version"]["version"]
    assert [document["default_version"]] == document["versions"]


def test_the_v1_document_links_the_resources_of_the_version(api):
    assert "conductors" in api("GET", "/v1").json
    assert "conductors" not in api.at("1.48")("GET", "/v1/").json


def test_every_answer_has_its_request_id(api):
    answer = api("GET", "/v1/nowhere")

    assert answer.headers["Openstack-Request-Id"].startswith("req-")
    assert answer.headers["Openstack-Request-Id"] == answer.headers["X-Openstack-Request-Id"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nowhere", 404),
        ("PUT", "/v1/nodes", 405),
        ("GET", "/v1//nodes", 404),
        ("PUT", "/v1/nodes/n1/states/target_raid_config", 405),
        ("GET", "/v1/heartbeat", 405),
    ],
)
def test_an_unknown_route_is_reported_in_the_routers_shape(api, method, path, status):
    answer = api(method, path, Accept="text/html")

    assert (status, "application/json") == (answer.status_code, answer.content_type)
    assert {"code", "title", "description"} == fault(answer).keys()
    assert status == fault(answer)["code"]
    assert ("Allow" in answer.headers) == (status == 405)
    assert "X-OpenStack-Ironic-API-Version" not in answer.headers


@pytest.mark.parametrize("part", ["vmedia", "bios", "vifs", "volume/targets", "firmware"])
def test_a_part_that_a_version_lacks_is_not_found_by_any_method(api, part):
    path = f"/v1/nodes/{api.node()['uuid']}/{part}"

    assert 404 == api.at("1.27")("PUT", path, {}).status_code
    assert 404 != api("PUT", path, {}).status_code


def test_a_heartbeat_may_have_its_node_in_its_body(api):
    fields = {"callback_url": "https://a", "agent_version": "9", "agent_token": "x"}
    body = fields | {"node_ident": api.node()["uuid"]}

    assert "node_ident" in fault(api("POST", "/v1/heartbeat", fields))["faultstring"]
    assert "token" in fault(api("POST", "/v1/heartbeat", body))["faultstring"]
    assert 404 == api.at("1.21")("POST", "/v1/heartbeat", body).status_code


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "states/console/n1", None),
        ("GET", "states/n1", None),
        ("GET", "vendor_passthru/n1/methods", None),
        ("PUT", "maintenance/n1", {"reason": "why"}),
        ("DELETE", "maintenance/n1", None),
    ],
)
def test_older_clients_have_the_node_last_in_the_path(api, method, path, body):
    api.node(name="n1")
    prefix, _, suffix = path.partition("/n1")
    usual = api(method, f"/v1/nodes/n1/{prefix}{suffix}", body)

    answer = api(method, f"/v1/nodes/{path}", body)
    assert (usual.status_code, usual.data) == (answer.status_code, answer.data)
    assert usual.status_code < 300


@pytest.mark.parametrize(
    ("version", "name", "status"),
    [
        ("1.90", "a.json", 200),
        ("1.90", "a.json.json", 200),
        ("1.90", "a", 404),
        ("1.91", "a.json", 200),
        ("1.91", "a.json.json", 404),
    ],
)
def test_a_name_may_end_with_the_suffix_of_older_versions(api, version, name, status):
    api.node(name="a.json")

    assert status == api.at(version)("GET", f"/v1/nodes/{name}").status_code
    assert status == api.at(version)("PATCH", f"/v1/nodes/{name}", []).status_code


def test_a_body_that_is_no_object_is_refused(api):
    messages = [
        fault(api("POST", "/v1/nodes", body))["faultstring"]
        for body in ([], {"driver": "fake-hardware", "extra": []})
    ]
    assert [
        "Schema error for node: [] is not of type 'object'",
        "Schema error for node: [] is not of type 'object', 'null' (extra)",
    ] == messages


def test_the_error_of_a_handler_is_encoded_twice(api):
    answer = api("GET", "/v1/nodes/missing")

    assert 404 == answer.status_code
    assert {
        "faultcode": "Client",
        "faultstring": "Node missing could not be found.",
        "debuginfo": None,
    } == fault(answer)


def test_an_unexpected_exception_is_a_500_without_details(api, monkeypatch):
    def crash(*_args):
        raise KeyError("the password is sesame")

    monkeypatch.setattr("app.hardware.drivers.loaded", crash)
    answer = api("GET", "/v1/drivers")

    assert 500 == answer.status_code
    assert {
        "faultcode": "Server",
        "faultstring": "Internal server error.",
        "debuginfo": None,
    } == fault(answer)


def test_an_unreachable_database_is_a_503(api, monkeypatch):
    def unreachable(_session):
        raise OperationalError("SELECT 1", {}, ConnectionRefusedError())

    monkeypatch.setattr("app.hardware.drivers.loaded", unreachable)
    answer = api("GET", "/v1/drivers")

    assert (503, "5") == (answer.status_code, answer.headers["Retry-After"])


def test_a_client_that_fails_on_retry_after_does_not_get_it(api):
    node = api.node(reservation="rack-1")
    path = f"/v1/nodes/{node['uuid']}/maintenance"

    assert "2" == api("PUT", path, {}).headers["Retry-After"]
    answer = api("PUT", path, {}, **{"User-Agent": "python-ironicclient"})
    assert 409 == answer.status_code
    assert "Retry-After" not in answer.headers


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"driver": "fake-hardware", "extra": ' + b'{"a":' * 30 + b"1" + b"}" * 31, 400),
        (b'{"driver": "fake-hardware", "extra": {"a": "' + b"x" * (1 << 20) + b'"}}', 413),
        (b"\xff\xfe", 400),
    ],
)
def test_unreadable_bodies_are_refused(api, body, status):
    headers = {"Content-Type": "application/json", "X-OpenStack-Ironic-API-Version": "1.115"}
    answer = api.client.post("/v1/nodes", data=body, headers=headers)

    assert status == answer.status_code
    if b"{" * 2 in body or status == 413:
        assert {"faultcode", "faultstring"} == answer.json.keys()


def test_a_body_that_is_not_json_is_refused(api):
    assert 400 == api.client.post("/v1/nodes", data={"driver": "fake-hardware"}).status_code


@pytest.mark.parametrize(
    "path", ["nodes?colour=red", "ports?colour=red", "drivers?x=", "shards?colour=red"]
)
def test_an_unknown_query_parameter_is_refused(api, path):
    assert 400 == api("GET", f"/v1/{path}").status_code


def test_the_root_takes_any_query_parameter(api):
    assert 200 == api("GET", "/v1?colour=red").status_code


@pytest.mark.parametrize("collection", ["nodes", "ports", "conductors", "inspection_rules"])
def test_an_empty_marker_is_refused(api, collection):
    assert 400 == api("GET", f"/v1/{collection}?marker=").status_code


@pytest.mark.parametrize(
    ("version", "path", "status"),
    [
        ("1.48", "/v1/conductors", 404),
        ("1.49", "/v1/conductors", 200),
        ("1.7", "/v1/nodes?fields=uuid", 406),
        ("1.42", "/v1/nodes?detail=true", 400),
        ("1.20", "/v1/nodes?resource_class=x", 406),
        ("1.49", "/v1/nodes?fields=uuid,owner", 406),
        ("1.49", "/v1/nodes?sort_key=owner", 406),
        ("1.65", "/v1/nodes?sort_key=network_data", 406),
        ("1.66", "/v1/nodes?sort_key=network_data", 400),
        ("1.29", "/v1/drivers?type=dynamic", 406),
        ("1.21", "/v1/lookup?addresses=52:54:00:00:00:01", 404),
        ("1.77", "/v1/nodes/x/history", 404),
    ],
)
def test_a_route_of_a_newer_version_is_not_found(api, version, path, status):
    assert status == api.at(version)("GET", path).status_code


def test_fields_of_newer_versions_are_not_shown(api):
    uuid = api.node()["uuid"]
    fields = {
        version: api.at(f"1.{version}")("GET", f"/v1/nodes/{uuid}").json.keys()
        for version in (1, 49, 50)
    }

    assert "name" not in fields[1]
    assert {"owner"} == fields[50] - fields[49]


def test_the_documentation_describes_every_route(api):
    spec = api.at(None)("GET", "/openapi.json").json
    rules = {
        (re.sub(r"<(?:[^>]*:)?(\w+)>", r"{\1}", str(rule)), method.lower())
        for rule in api.client.application.url_map.iter_rules()
        if ".refused_" not in rule.endpoint  # these only refuse methods
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    itself = {(path, "get") for path in (*PAGES, "/openapi.json")}

    assert rules - itself == {
        (path, method) for path, about in spec["paths"].items() for method in about
    }
    assert "<script src=" in api.at(None)("GET", "/docs").text


def test_the_health_check_queries_the_database(api, monkeypatch):
    assert 200 == api.at(None)("GET", "/healthcheck").status_code
    monkeypatch.setattr(root, "text", lambda _sql: (_ for _ in ()).throw(
        OperationalError("SELECT 1", {}, ConnectionRefusedError())))  # fmt: skip
    assert 503 == api.at(None)("GET", "/healthcheck").status_code
    assert orjson.loads(api.at(None)("GET", "/healthcheck").data)


def test_a_request_with_a_body_accepts_no_parameters(api):
    answer = api("POST", "/v1/nodes?colour=red", {"driver": "fake-hardware"})
    assert (400, "Client") == (answer.status_code, fault(answer)["faultcode"])
    assert "colour" in fault(answer)["faultstring"]


def test_a_method_of_a_newer_version_is_refused_with_the_available_ones(api):
    answer = api.at("1.51")("POST", "/v1/allocations", {"resource_class": "large"})
    assert 405 == answer.status_code
    assert {"GET", "HEAD", "OPTIONS"} == set(answer.headers["Allow"].split(", "))
