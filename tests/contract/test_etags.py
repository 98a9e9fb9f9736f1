"""Entity tags of nodes: a change of an outdated representation is refused."""

import secrets

import pytest
from sqlalchemy import update

from app.models import Secret
from tests.contract.conftest import fault

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


def described(text):
    return [{"op": "add", "path": "/description", "value": text}]


@BOTH
def test_a_change_with_the_current_tag_is_made_and_returns_the_next_tag(api):
    path = f"/v1/nodes/{api.node()['uuid']}"
    read = api("GET", path)
    changed = api("PATCH", path, described("mine"), **{"If-Match": read.headers["ETag"]})
    assert 200 == changed.status_code
    assert read.headers["ETag"] != changed.headers["ETag"]
    assert changed.headers["ETag"] == api("GET", path).headers["ETag"]


@BOTH
def test_a_change_with_an_outdated_tag_is_refused_and_changes_nothing(api):
    path = f"/v1/nodes/{api.node()['uuid']}"
    tag = api("GET", path).headers["ETag"]
    assert 200 == api("PATCH", path, described("theirs")).status_code
    refused = api("PATCH", path, described("mine"), **{"If-Match": tag})
    assert 412 == refused.status_code
    assert "If-Match" in fault(refused)["faultstring"]
    assert "theirs" == api("GET", path).json["description"]


def test_changes_by_the_service_keep_the_tag(api):
    """Otherwise a caller could not change a node during an operation."""
    node = api.node()
    path = f"/v1/nodes/{node['uuid']}"
    tag = api("GET", path).headers["ETag"]
    api.set(node["uuid"], power_state="power on", last_error="it failed", fence=7)
    assert tag == api("GET", path).headers["ETag"]
    assert 200 == api("PATCH", path, described("mine"), **{"If-Match": tag}).status_code


@pytest.mark.parametrize(
    ("tags", "status"), [("*", 200), ('"other", "{tag}"', 200), ('"other"', 412)]
)
def test_any_of_several_tags_may_match(api, tags, status):
    path = f"/v1/nodes/{api.node()['uuid']}"
    tag = api("GET", path).headers["ETag"].strip('"')
    headers = {"If-Match": tags.format(tag=tag)}
    assert status == api("PATCH", path, described("mine"), **headers).status_code


@pytest.mark.parametrize(
    ("method", "below", "body"),
    [
        ("DELETE", "", None),
        ("PUT", "/states/provision", {"target": "manage"}),
        ("PUT", "/maintenance", {}),
    ],
)
def test_deletion_and_verbs_check_the_tag(api, method, below, body):
    path = f"/v1/nodes/{api.node()['uuid']}"
    assert 412 == api(method, path + below, body, **{"If-Match": '"old"'}).status_code
    tag = api("GET", path).headers["ETag"]
    assert api(method, path + below, body, **{"If-Match": tag}).status_code < 300


def test_a_new_node_is_returned_with_its_tag(api):
    answer = api("POST", "/v1/nodes", {"driver": "fake-hardware"})
    assert answer.headers["ETag"] == api("GET", f"/v1/nodes/{answer.json['uuid']}").headers["ETag"]


@BOTH
def test_the_tag_depends_on_a_secret_of_the_database(api):
    """Without it, a reader could find a password by computing the tags of guesses."""
    path = f"/v1/nodes/{api.node()['uuid']}"
    tag = api("GET", path).headers["ETag"]
    with api.runtime.transaction() as session:
        session.execute(update(Secret).values(value=secrets.token_hex(32)))
    assert tag != api("GET", path).headers["ETag"]
