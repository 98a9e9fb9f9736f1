"""Entity tags of nodes: a change made on what somebody else has changed meanwhile is refused."""

import pytest

from tests.contract.conftest import fault

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


def described(text):
    return [{"op": "add", "path": "/description", "value": text}]


@BOTH
def test_a_change_with_the_tag_that_was_read_is_made_and_answers_with_the_next(api):
    path = f"/v1/nodes/{api.node()['uuid']}"
    read = api("GET", path)
    changed = api("PATCH", path, described("mine"), **{"If-Match": read.headers["ETag"]})
    assert 200 == changed.status_code
    assert read.headers["ETag"] != changed.headers["ETag"]
    assert changed.headers["ETag"] == api("GET", path).headers["ETag"]


@BOTH
def test_a_change_of_what_somebody_else_changed_is_refused_and_changes_nothing(api):
    path = f"/v1/nodes/{api.node()['uuid']}"
    tag = api("GET", path).headers["ETag"]
    assert 200 == api("PATCH", path, described("theirs")).status_code
    refused = api("PATCH", path, described("mine"), **{"If-Match": tag})
    assert 412 == refused.status_code
    assert "If-Match" in fault(refused)["faultstring"]
    assert "theirs" == api("GET", path).json["description"]


def test_what_the_service_writes_leaves_the_tag_as_it_is(api):
    """Else a caller could never change a node on which work is in progress."""
    node = api.node()
    path = f"/v1/nodes/{node['uuid']}"
    tag = api("GET", path).headers["ETag"]
    api.set(node["uuid"], power_state="power on", last_error="it failed", fence=7)
    assert tag == api("GET", path).headers["ETag"]
    assert 200 == api("PATCH", path, described("mine"), **{"If-Match": tag}).status_code


@pytest.mark.parametrize(
    ("wanted", "status"), [("*", 200), ('"other", "{tag}"', 200), ('"other"', 412)]
)
def test_any_of_several_tags_will_do(api, wanted, status):
    path = f"/v1/nodes/{api.node()['uuid']}"
    tag = api("GET", path).headers["ETag"].strip('"')
    headers = {"If-Match": wanted.format(tag=tag)}
    assert status == api("PATCH", path, described("mine"), **headers).status_code


@pytest.mark.parametrize(
    ("method", "below", "body"),
    [
        ("DELETE", "", None),
        ("PUT", "/states/provision", {"target": "manage"}),
        ("PUT", "/maintenance", {}),
    ],
)
def test_deletion_and_verbs_respect_the_tag_too(api, method, below, body):
    path = f"/v1/nodes/{api.node()['uuid']}"
    assert 412 == api(method, path + below, body, **{"If-Match": '"old"'}).status_code
    tag = api("GET", path).headers["ETag"]
    assert api(method, path + below, body, **{"If-Match": tag}).status_code < 300


def test_a_new_node_comes_with_its_tag(api):
    made = api("POST", "/v1/nodes", {"driver": "fake-hardware"})
    assert made.headers["ETag"] == api("GET", f"/v1/nodes/{made.json['uuid']}").headers["ETag"]
