"""Traits of nodes."""

import pytest
from sqlalchemy import event

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture
def node(api):
    return api.node(name="n1")


def traits(api, path="/v1/nodes/n1"):
    return api("GET", path + ("/traits" if "?" not in path else "")).json["traits"]


@BOTH
def test_traits_are_set_added_and_removed(api, node):
    path = "/v1/nodes/n1/traits"

    assert (
        204 == api("PUT", path, {"traits": ["HW_CPU_X86_VMX", "CUSTOM_B", "CUSTOM_B"]}).status_code
    )
    added = api("PUT", f"{path}/CUSTOM_A")
    assert (204, f"http://localhost{path}/CUSTOM_A") == (added.status_code, added.location)
    assert 204 == api("PUT", f"{path}/CUSTOM_A").status_code
    assert ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"] == traits(api)
    assert traits(api) == api("GET", "/v1/nodes/n1").json["traits"]

    assert 204 == api("DELETE", f"{path}/CUSTOM_A").status_code
    assert 404 == api("DELETE", f"{path}/CUSTOM_A").status_code
    assert ["CUSTOM_B", "HW_CPU_X86_VMX"] == traits(api)
    assert 204 == api("DELETE", path).status_code
    assert [] == traits(api)
    assert api("GET", "/v1/nodes/n1").json["updated_at"] is not None


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "traits", {"traits": ["custom_a"]}, 400),
        ("PUT", "traits", {"traits": ["HW_CPU_NOSUCH"]}, 400),
        ("PUT", "traits", {"traits": ["CUSTOM_" + "A" * 249]}, 400),
        ("PUT", "traits", {"traits": ["CUSTOM_" + "A" * 248]}, 204),
        ("PUT", "traits", {"traits": [f"CUSTOM_{i}" for i in range(51)]}, 400),
        ("PUT", "traits", {"traits": [f"CUSTOM_{i}" for i in range(50)]}, 204),
        ("PUT", "traits", {"traits": "CUSTOM_A"}, 400),
        ("PUT", "traits", {}, 400),
        ("PUT", "traits/CUSTOM_a", None, 400),
        ("PUT", "traits/CUSTOM_A", {"traits": []}, 400),
        ("PUT", "traits/CUSTOM_A", [], 400),
        ("PUT", "traits/CUSTOM_A", {}, 204),
        ("DELETE", "traits/CUSTOM_A", None, 404),
    ],
)  # fmt: skip
def test_an_invalid_trait_is_refused(api, node, method, path, body, status):
    assert status == api(method, f"/v1/nodes/n1/{path}", body).status_code


def test_a_node_has_at_most_fifty_traits(api, node):
    api("PUT", "/v1/nodes/n1/traits", {"traits": [f"CUSTOM_{i}" for i in range(50)]})

    assert 400 == api("PUT", "/v1/nodes/n1/traits/CUSTOM_50").status_code
    assert 204 == api("PUT", "/v1/nodes/n1/traits/CUSTOM_49").status_code


@pytest.mark.parametrize(("method", "status"), [("GET", 406), ("PUT", 405), ("DELETE", 404)])
def test_older_versions_have_no_traits(api, node, method, status):
    body = {"traits": []} if method == "PUT" else None

    assert status == api.at("1.36")(method, "/v1/nodes/n1/traits", body).status_code
    assert "traits" not in api.at("1.36")("GET", "/v1/nodes/n1").json
    assert 404 == api(method, "/v1/nodes/nonesuch/traits", body).status_code


def test_traits_of_a_locked_node_are_not_changed(api, node):
    api.set(node["uuid"], reservation="rack-1")

    assert 409 == api("PUT", "/v1/nodes/n1/traits", {"traits": ["CUSTOM_A"]}).status_code
    assert 409 == api("DELETE", "/v1/nodes/n1/traits").status_code


@BOTH
def test_a_list_reads_all_traits_by_one_query_and_none_if_they_are_not_shown(api):
    for number in range(5):
        node = api.node(name=f"n{number}")
        api("PUT", f"/v1/nodes/{node['uuid']}/traits", {"traits": [f"CUSTOM_{number}"]})
    trait_queries = []

    def note(_conn, _cursor, statement, *_):
        trait_queries.append("node_traits" in statement)

    event.listen(api.runtime.engine, "before_cursor_execute", note)
    try:
        listed = api("GET", "/v1/nodes?fields=name,traits").json["nodes"]
        plain = api("GET", "/v1/nodes").json["nodes"]
    finally:
        event.remove(api.runtime.engine, "before_cursor_execute", note)

    assert {f"n{i}": [f"CUSTOM_{i}"] for i in range(5)} == {n["name"]: n["traits"] for n in listed}
    assert 5 == len(plain)
    assert 1 == sum(trait_queries)


def test_traits_are_deleted_with_their_node(api, node):
    api("PUT", "/v1/nodes/n1/traits", {"traits": ["CUSTOM_A"]})
    assert 204 == api("DELETE", "/v1/nodes/n1").status_code

    api.node(name="n1")
    assert [] == traits(api)
