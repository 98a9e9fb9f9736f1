"""Words of errors and order of fields, on which scripts written for Ironic depend."""

import pytest

from .conftest import fault

ADDRESS = "52:54:00:00:00:01"


@pytest.mark.parametrize(
    ("method", "path", "body", "words", "right"),
    [
        ("POST", "allocations", {"resource_class": "x", "name": "not/a/name"},
         "Cannot create allocation with invalid name 'not/a/name'", "letters, digits"),
        ("POST", "networks", {"name": "not/a/name", "vlan": 2},
         "Cannot create network with invalid name 'not/a/name'", "letters, digits"),
        ("POST", "webhooks", {"name": "not/a/name", "url": "http://192.0.2.1/", "secret": "0123456789abcdef"},
         "Cannot create webhook with invalid name 'not/a/name'", "letters, digits"),
        ("POST", "allocations", {"resource_class": "x" * 81},
         f"Schema error: '{'x' * 81}' is too long", "at most 80 characters (resource_class)"),
        ("POST", "allocations", {"resource_class": "x", "traits": ["foo"]},
         "'foo' does not match '^CUSTOM_[A-Z0-9_]+$'", "(traits/0)"),
        ("POST", "deploy_templates", {"name": "foo", "steps": []},
         "'foo' does not match '^CUSTOM_[A-Z0-9_]+$'", "(name)"),
        ("POST", "allocations", {"resource_class": "x", "uuid": "!@#$"},
         "Expected UUID for uuid: !@#$", ""),
        ("POST", "nodes", {"driver": "nonesuch"},
         ("No valid host was found. Reason: No conductor service registered which supports driver"
         ' nonesuch for conductor group "".'), "the live conductors have fake-hardware"),
        ("PATCH", "nodes/n1", [{"op": "remove", "path": "/extra/prop"}],
         ("Couldn't apply patch '{'op': 'remove', 'path': '/extra/prop'}'. Reason: can't remove a"
         " non-existent object 'prop'"), ""),
        ("PATCH", "nodes/n1", [{"op": "replace", "path": "/driver_info/a/b", "value": 1}],
         "Reason: member 'a' not found", ""),
        ("PATCH", "nodes/n1", [{"op": "replace", "path": "/health", "value": 1}],
         "Cannot patch /health. Only the following can be updated: automated_clean", "extra"),
        ("PATCH", "nodes/n1", {"a": 1}, "Schema error for patch: {'a': 1} is not of type 'array'", ""),
        ("PATCH", "nodes/n1", [{"op": "replace", "path": "/extra", "value": "text"}],
         "Schema error for patch: 'text' is not of type 'object', 'null'", "(extra)"),
        ("PATCH", "nodes/n1", [{"op": "replace", "path": "/name", "value": "a b"}],
         ": Cannot change name to invalid name 'a b'", "letters, digits"),
        ("POST", "nodes", {}, "Schema error for node: 'driver' is a required property", ""),
        ("POST", "nodes", {"driver": "fake-hardware", "colour": 1},
         "Schema error for node: Additional properties are not allowed ('colour' was unexpected)", ""),
        ("POST", "nodes", {"driver": "fake-hardware", "retired": "perhaps"},
         "Invalid retired: Unrecognized value 'perhaps', acceptable values are: '0', '1'", ""),
        ("POST", "ports", {"node_uuid": "x", "address": ADDRESS}, "Expected UUID for node_uuid: x", ""),
        ("POST", "ports", {"node_uuid": "5" * 32, "address": "x"},
         "Expected valid MAC address for address: 'x'", ""),
        ("PUT", "nodes/n1/states/provision", {}, "Missing mandatory parameter: target", ""),
        ("PUT", "nodes/n1/states/provision", {"target": "clean", "clean_steps": [{"step": 5}]},
         "Invalid clean_steps: 5 is not of type 'string'", "(clean_steps/0/step)"),
        ("PUT", "nodes/n1/states/provision", {"target": "fly"},
         'The requested action "fly" can not be performed on node',
         "there is no such action, and the state accepts manage."),
        ("PUT", "nodes/n1/states/provision", {"target": "active"},
         'while it is in state "enroll": the state accepts manage.', ""),
        ("GET", "nodes?colour=red", None, "Unexpected arguments: colour", ""),
        # the query is checked before the body
        ("POST", "nodes?colour=red", {}, "Unexpected arguments: colour", ""),
        ("POST", "continue_inspection?colour=red", [], "Unexpected arguments: colour", ""),
        ("GET", "nodes?drivr=x", None, "Unexpected arguments: drivr", "the nearest is 'driver'"),
        ("GET", "nodes?limit=x", None, "Expected an integer for limit: x", ""),
        ("GET", "nodes?limit=0", None, "Limit must be positive", ""),
        ("GET", "nodes?sort_dir=up", None,
         "Invalid sort direction: up. Acceptable values are 'asc' or 'desc'", ""),
    ],
)  # fmt: skip
def test_an_error_has_ironics_words_the_field_and_the_accepted_values(
    api, method, path, body, words, right
):
    api.node(name="n1")
    answer = api(method, f"/v1/{path}", body)
    text = fault(answer)["faultstring"]

    assert 400 == answer.status_code
    assert words in text
    assert right in text.partition(words)[2]


def test_an_error_names_the_first_of_many_unknown_fields(api):
    unknown = {f"driver{number}" * 9: 1 for number in range(5_000)}
    answer = api("POST", "/v1/nodes", {"driver": "fake-hardware", **unknown})
    text = fault(answer)["faultstring"]
    assert 400 == answer.status_code
    assert 20 == text.count("was unexpected")
    assert "nearest" not in text


def test_an_error_shows_only_the_path_of_a_document(api):
    api.node(name="n1", driver_info={"deep": {"redfish_password": "sesame"}})
    patch = [{"op": "remove", "path": "/driver_info/deep/x/y"}]

    assert "sesame" not in api("PATCH", "/v1/nodes/n1", patch).text


@pytest.mark.parametrize(
    ("path", "first_keys", "last_keys"),
    [
        ("nodes/n1", "uuid created_at updated_at automated_clean bios_interface",
         "vendor_interface links conductor allocation_uuid chassis_uuid ports states portgroups volume"),
        ("nodes", "uuid instance_uuid maintenance power_state provision_state name links", ""),
        ("nodes/detail", "uuid created_at updated_at automated_clean", "states portgroups volume"),
        ("nodes?fields=name,provision_state,uuid", "uuid name provision_state links", ""),
        ("nodes?fields=chassis_uuid,provision_state,name", "provision_state name links chassis_uuid", ""),
        ("nodes/n1/states", "console_enabled last_error power_state provision_state", "secure_boot"),
        ("nodes/n1/validate", "boot deploy management network power bios", "raid rescue storage"),
        ("ports", "uuid address links", ""),
        ("ports/detail", "uuid created_at updated_at address extra internal_info is_smartnic",
         "available_for_dynamic_portgroup links portgroup_uuid"),
        ("portgroups", "uuid address name links", ""),
        ("chassis/detail", "uuid created_at updated_at description extra links nodes", ""),
        ("conductors/rack-1", "created_at updated_at hostname conductor_group drivers links alive", ""),
    ],
)  # fmt: skip
def test_fields_have_ironics_order(api, path, first_keys, last_keys):
    """Clients print fields in the order of the answer."""
    uuid = api.node(name="n1", maintenance_reason="del\x7f", description='a "b"')["uuid"]
    api("POST", "/v1/ports", {"node_uuid": uuid, "address": ADDRESS})
    api("POST", "/v1/portgroups", {"node_uuid": uuid})
    api("POST", "/v1/chassis", {})
    answer = api("GET", f"/v1/{path}").json
    items = next((value for value in answer.values() if isinstance(value, list)), None)
    keys = " ".join(answer if "/" in path and "detail" not in path else items[0])

    assert keys.startswith(first_keys)
    assert keys.endswith(last_keys)


def test_a_page_shows_the_fields_of_each_node(api):
    """Fields that are equal in all nodes of a page, in some, and in none."""
    for number in range(3):
        api.node(name=f"n{number}", description="same", owner="a" if number else None,
                 maintenance=bool(number), last_error=f'\x7f"{number}')  # fmt: skip
    page = api("GET", "/v1/nodes/detail").json["nodes"]

    assert page == [api("GET", f"/v1/nodes/n{number}").json for number in range(3)]
    assert [(f"n{number}", "same", f'\x7f"{number}') for number in range(3)] == [
        (node["name"], node["description"], node["last_error"]) for node in page
    ]
