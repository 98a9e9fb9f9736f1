"""The list of the operations of all nodes: pages, filters, permissions."""

import pytest

from .conftest import fault


@pytest.fixture
def requested(api):
    """UUIDs of the operations of three nodes, the newest first."""
    requested_uuids = []
    for name in ("n1", "n2", "n3"):
        api.node(name=name)
        api("PUT", f"/v1/nodes/{name}/states/provision", {"target": "manage"})
        (operation,) = api("GET", f"/v1/nodes/{name}/operations").json["operations"]
        requested_uuids.insert(0, operation["uuid"])
    return requested_uuids


def uuids(answer):
    assert 200 == answer.status_code, answer.json
    return [operation["uuid"] for operation in answer.json["operations"]]


def test_the_operations_of_all_nodes_are_listed_the_newest_first(api, requested):
    answer = api("GET", "/v1/operations")
    assert requested == uuids(answer)
    newest = answer.json["operations"][0]
    assert ("n3", "manage", "queued") == (newest["node_name"], newest["kind"], newest["state"])
    assert newest["node_uuid"] == api("GET", "/v1/nodes/n3").json["uuid"]


def test_the_list_is_read_page_after_page(api, requested):
    page = api("GET", "/v1/operations?limit=2")
    assert requested[:2] == uuids(page)
    following = page.json["next"].partition("/v1/")[2]
    assert requested[2:] == uuids(api("GET", f"/v1/{following}"))
    assert requested[::-1] == uuids(api("GET", "/v1/operations?sort_key=created_at&sort_dir=asc"))


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("active=true", 3), ("active=false", 0), ("kind=manage", 3), ("kind=clean", 0),
        ("state=queued", 3), ("state=failed", 0),
    ],
)  # fmt: skip
def test_operations_are_filtered(api, requested, query, count):
    assert count == len(uuids(api("GET", f"/v1/operations?{query}")))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("kind=deploy", "'deploy' is not one of ['manage', 'provide',"),
        ("state=happy", "'happy' is not one of ['queued', 'running',"),
        ("colour=red", "colour"),
        ("sort_key=error", "sort_key"),
        ("marker=x", "marker"),
        ("limit=0", "limit"),
    ],
)
def test_an_invalid_filter_is_refused_by_name(api, query, message):
    answer = api("GET", f"/v1/operations?{query}")
    assert 400 == answer.status_code
    assert message in fault(answer)["faultstring"]
