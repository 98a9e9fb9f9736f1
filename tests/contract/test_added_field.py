"""A node field is one table entry: docs/contributing.md adds `rack`, all else derives from it."""

import pytest

from tests.support.tree_copy import BEFORE, SINCE


@pytest.fixture(scope="module")
def nodes(extended):
    """rack -> UUID of its node."""
    uuids = {}
    for rack in ("b", "a"):
        body = {"driver": "fake-hardware", "rack": rack}
        answer = extended.ask("POST", "/v1/nodes", body)
        assert (201, rack) == (answer.status_code, answer.json()["rack"])
        uuids[rack] = answer.json()["uuid"]
    return uuids


def listed(answer):
    return [node["uuid"] for node in answer.json()["nodes"]]


def test_an_added_field_is_checked_and_changed(extended, nodes):
    path = f"/v1/nodes/{nodes['b']}"
    etag = extended.ask("GET", path).headers["ETag"]
    changed = extended.ask("PATCH", path, [{"op": "replace", "path": "/rack", "value": "c"}])
    assert (200, "c") == (changed.status_code, changed.json()["rack"])
    assert etag != changed.headers["ETag"]
    removed = extended.ask("PATCH", path, [{"op": "remove", "path": "/rack"}])
    assert removed.json()["rack"] is None
    extended.ask("PATCH", path, [{"op": "add", "path": "/rack", "value": "b"}])
    assert "b" == extended.ask("GET", path).json()["rack"]
    for value in (5, "too long a name"):
        answer = extended.ask("POST", "/v1/nodes", {"driver": "fake-hardware", "rack": value})
        assert 400 == answer.status_code
        assert "rack" in answer.text


def test_an_added_field_is_shown_in_its_place_from_its_version_on(extended, nodes):
    path = f"/v1/nodes/{nodes['a']}"
    names = list(extended.ask("GET", path).json())
    at = names.index("rack")
    assert ["provision_updated_at", "rack", "raid_config"] == names[at - 1 : at + 2]
    assert "rack" not in extended.ask("GET", path, version=BEFORE).json()
    details = extended.ask("GET", "/v1/nodes/detail").json()["nodes"]
    assert ["b", "a"] == [node["rack"] for node in details]


def test_an_added_field_filters_and_sorts_lists(extended, nodes):
    assert [nodes["a"]] == listed(extended.ask("GET", "/v1/nodes?rack=a"))
    assert [] == listed(extended.ask("GET", "/v1/nodes?rack=z"))
    assert [nodes["a"], nodes["b"]] == listed(extended.ask("GET", "/v1/nodes?sort_key=rack"))
    listed_nodes = extended.ask("GET", "/v1/nodes?fields=rack").json()["nodes"]
    assert ["b", "a"] == [node["rack"] for node in listed_nodes]


def test_an_added_field_is_refused_below_its_version(extended, nodes):
    path = f"/v1/nodes/{nodes['a']}"
    body = {"driver": "fake-hardware", "rack": "a"}
    change = [{"op": "replace", "path": "/rack", "value": "c"}]
    for answer in (
        extended.ask("POST", "/v1/nodes", body, BEFORE),
        extended.ask("PATCH", path, change, BEFORE),
        *(
            extended.ask("GET", f"/v1/nodes?{query}", version=BEFORE)
            for query in ("rack=a", "sort_key=rack", "fields=rack")
        ),
    ):
        assert 406 == answer.status_code
        assert SINCE in answer.text


def test_an_added_field_is_an_option_and_a_column_of_the_command_line(extended, nodes):
    assert "--rack" in extended.cli("node", "create", "--help")
    extended.cli("node", "set", nodes["a"], "--rack", "a2")
    output = extended.cli("node", "list", "--fields", "rack", "-o", "json")
    assert "a2" in output
    extended.cli("node", "set", nodes["a"], "--rack", "a")


def test_an_added_field_is_documented(extended):
    document = extended.ask("GET", "/openapi.json").json()
    schemas = document["components"]["schemas"]
    expected = {"type": ["string", "null"], "maxLength": 8, "x-since": SINCE}
    assert expected == schemas["NodeCreate"]["properties"]["rack"]
    assert SINCE == schemas["Node"]["properties"]["rack"]["x-since"]
    parameters = document["paths"]["/v1/nodes"]["get"]["parameters"]
    assert "rack" in [parameter.get("name") for parameter in parameters]
    api, policy = (extended.folder / "docs" / name for name in ("api.md", "policy.md"))
    rule = "`baremetal:node:update:rack`"
    assert f"| `rack` | {SINCE} | POST, PATCH | {rule} | {SINCE} | yes |" in api.read_text()
    assert f"| {rule} | Change `rack` | `rule:system_admin` |" in policy.read_text()
