"""Nodes: creation, lists, changes, locks, deletion."""

import ast
import re
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest

from app.db.clock import now
from app.models import AgentRecord, Conductor, Fault, Node, NodeHistory, Operation, OperationStep

from .conftest import fault

ROOT = Path(__file__).parents[2]


def test_a_new_node_is_enrolled_with_its_drivers_interfaces(api):
    answer = api("POST", "/v1/nodes", {"driver": "fake-hardware", "name": "n1", "owner": "me"})
    node = answer.json

    assert 201 == answer.status_code
    assert f"http://localhost/v1/nodes/{node['uuid']}" == answer.headers["Location"]
    assert ("enroll", "fake", "noop", "rack-1") == (
        node["provision_state"],
        node["power_interface"],
        node["network_interface"],
        node["conductor"],
    )
    assert node == api("GET", "/v1/nodes/n1").json


def test_before_1_11_new_nodes_are_available(api):
    node = api.at("1.10")("POST", "/v1/nodes", {"driver": "fake-hardware"}).json

    assert "available" == node["provision_state"]
    path = f"/v1/nodes/{node['uuid']}"
    states = {minor: api.at(f"1.{minor}")("GET", path).json["provision_state"] for minor in (1, 2)}
    assert {1: None, 2: "available"} == states


def test_before_inspect_wait_was_known_a_node_in_it_was_inspecting(api):
    path = f"/v1/nodes/{api.node(provision_state='inspect wait')['uuid']}"
    states = {
        minor: api.at(f"1.{minor}")("GET", path).json["provision_state"] for minor in (38, 39)
    }
    assert {38: "inspecting", 39: "inspect wait"} == states


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "driver"),
        ({"driver": "nonesuch"}, 400, "supports driver nonesuch for"),
        ({"driver": "fake-hardware", "conductor_group": "far"}, 400, 'group "far"'),
        ({"driver": "fake-hardware", "power_interface": "steam"}, 400, "steam"),
        ({"driver": "fake-hardware", "colour": "red"}, 400, "colour"),
        ({"driver": "fake-hardware", "provision_state": "active"}, 400, "provision_state"),
        ({"driver": "fake-hardware", "name": "maintenance"}, 400, "reserved"),
        ({"driver": "fake-hardware", "name": "a b"}, 400, "name"),
        ({"driver": "fake-hardware", "name": "x" * 256}, 400, "name"),
        ({"driver": "fake-hardware", "uuid": "1"}, 400, "uuid"),
        ({"driver": "fake-hardware", "extra": []}, 400, "extra"),
        ({"driver": "fake-hardware", "properties": {"memory_mb": "much"}}, 400, "memory_mb"),
        ({"driver": "fake-hardware", "description": "\0"}, 400, "description"),
        ({"driver": "fake-hardware", "parent_node": str(uuid4())}, 400, "parent_node"),
        ({"driver": "fake-hardware", "network_data": {"cables": []}}, 400, "cables"),
    ],
)
def test_an_invalid_node_is_refused(api, body, status, message):
    answer = api("POST", "/v1/nodes", body)

    assert status == answer.status_code
    assert message in fault(answer)["faultstring"]


def test_a_field_that_is_too_new_is_not_acceptable_in_a_body(api):
    body = {"driver": "fake-hardware", "owner": "me"}

    assert 406 == api.at("1.49")("POST", "/v1/nodes", body).status_code
    assert 201 == api.at("1.49")("POST", "/v1/nodes", {**body, "owner": None}).status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_names_and_uuids_are_unique(api):
    body = {"driver": "fake-hardware", "name": "n1", "uuid": str(uuid4())}
    assert 201 == api("POST", "/v1/nodes", body).status_code

    answer = api("POST", "/v1/nodes", {**body, "uuid": str(uuid4())})
    assert (409, "A node with name n1 already exists.") == (
        answer.status_code,
        fault(answer)["faultstring"],
    )
    answer = api("POST", "/v1/nodes", {**body, "name": "n2"})
    assert (409, f"A node with UUID {body['uuid']} already exists.") == (
        answer.status_code,
        fault(answer)["faultstring"],
    )


def test_a_driver_needs_a_live_conductor(api):
    with api.runtime.transaction() as session:
        session.query(Conductor).one().online = False

    assert 400 == api("POST", "/v1/nodes", {"driver": "fake-hardware"}).status_code


def test_secrets_are_masked_at_any_depth(api):
    body = {
        "driver": "fake-hardware",
        "driver_info": {"redfish_password": "x", "redfish_username": "u", "a": [{"x_token": 1}]},
        "instance_info": {"configdrive": "x", "image_url": "http://u:p@h/", "image_source": "s"},
    }
    uuid = api("POST", "/v1/nodes", body).json["uuid"]
    nodes = [
        api("GET", f"/v1/nodes/{uuid}").json,
        api("GET", "/v1/nodes/detail").json["nodes"][0],
        api("GET", "/v1/nodes?fields=driver_info,instance_info").json["nodes"][0],
    ]

    for node in nodes:
        assert {
            "redfish_password": "******",
            "redfish_username": "u",
            "a": [{"x_token": "******"}],
        } == node["driver_info"]
        assert {
            "configdrive": "******",
            "image_url": "******",
            "image_source": "s",
        } == node["instance_info"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("order", ["sort_key=name", "sort_key=owner&sort_dir=desc", "sort_dir=desc",
                                   "sort_key=maintenance", "sort_key=created_at"])  # fmt: skip
def test_pages_show_every_node_once(api, order):
    for number in range(7):
        api.node(name=f"n{number}", owner=[None, "a", "b"][number % 3], maintenance=number % 2)
    whole = [node["uuid"] for node in api("GET", f"/v1/nodes?{order}").json["nodes"]]

    uuids, url = [], f"/v1/nodes?{order}&limit=3&provision_state=enroll"
    while url:
        page = api("GET", url).json
        uuids += [node["uuid"] for node in page["nodes"]]
        url = page.get("next")
        assert url is None or "provision_state=enroll" in url

    assert whole == uuids
    assert 7 == len(uuids)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("key", ["name", "owner", "updated_at", "secure_boot"])
def test_nodes_without_a_value_come_first_and_last_in_descending_order(api, key):
    values = {
        "name": ["a", "b", "c", "d"], "owner": ["a", "a", "b", "b"], "secure_boot": [False, False, True, True],
        "updated_at": [datetime(2026, 1, day) for day in (1, 1, 2, 3)],
    }[key]  # fmt: skip
    created_uuids = [api.node(**{key: value})["uuid"] for value in [None, *values, None]]
    ordered = [created_uuids[0], created_uuids[-1], *created_uuids[1:-1]]
    for direction, expected in (("asc", ordered), ("desc", ordered[::-1])):
        for limit in range(1, len(created_uuids) + 1):
            uuids, url = [], f"/v1/nodes?sort_key={key}&sort_dir={direction}&limit={limit}"
            while url:
                page = api("GET", url).json
                uuids += [node["uuid"] for node in page["nodes"]]
                url = page.get("next")
            assert expected == uuids


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 400), ("limit=-1", 400), ("limit=x", 400), ("limit=5000", 200),
        ("marker=x", 400), ("marker=00000000-0000-4000-8000-000000000000", 404), ("sort_key=extra", 400),
        ("sort_key=fence", 400), ("sort_dir=up", 400), ("fields=nonesuch", 400),
        ("fields=uuid&detail=true", 400), ("detail=maybe", 400), ("provision_state=odd", 400),
        ("fault=odd", 400), ("associated=perhaps", 400), ("chassis_uuid=x", 400),
    ],
)  # fmt: skip
def test_queries_are_checked(api, query, status):
    assert status == api("GET", f"/v1/nodes?{query}").status_code


def written_faults():
    """Read the faults that the service assigns to nodes from its source."""
    for path in (path for root in ("app", "workers") for path in (ROOT / root).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "fault":
                yield path.name, ast.unparse(node.value)
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    pairs = [(target, node.value)]
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                        pairs = zip(target.elts, node.value.elts, strict=True)
                    for place, value in pairs:
                        if isinstance(place, ast.Attribute) and place.attr == "fault":
                            yield path.name, ast.unparse(value)


def test_every_fault_can_be_a_filter(api):
    values = dict.fromkeys(value for _, value in written_faults())
    assert {"Fault.POWER_FAILURE", "Fault.RESTORED", "fault", "None"} <= values.keys()
    # annotated parameters of type Fault
    assert [] == [value for value in values if not re.fullmatch(r"Fault\.\w+|fault|None", value)]
    nodes = {node_fault: api.node(fault=node_fault)["uuid"] for node_fault in Fault}
    for node_fault, uuid in nodes.items():
        answer = api("GET", f"/v1/nodes?fault={node_fault}")
        assert (200, [uuid]) == (answer.status_code, [one["uuid"] for one in answer.json["nodes"]])
    message = fault(api("GET", "/v1/nodes?fault=odd"))["faultstring"]
    assert all(node_fault in message for node_fault in Fault)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["a", "b"]),
        ("maintenance=yes", ["b"]),
        ("associated=1", ["a"]),
        ("associated=off", ["b"]),
        ("owner=me", ["a"]),
        ("project=you", ["b"]),
        ("provision_state=active", ["b"]),
        ("description_contains=50%25", ["a"]),
        ("driver=redfish", []),
        ("conductor=rack-1", ["a", "b"]),
        ("conductor=rack-2", []),
        ("shard=s1,s2", ["a"]),
        ("sharded=false", ["b"]),
        ("parent_node=a", ["child"]),
        ("include_children=true", ["a", "b", "child"]),
        ("retired=true", ["b"]),
        ("retired=false", ["a"]),
        ("retired=false&resource_class=gold", []),
    ],
)
def test_lists_are_filtered(api, query, names):
    parent = api.node(name="a", instance_uuid=str(uuid4()), owner="me", description="50% off",
                     shard="s1")  # fmt: skip
    api.node(name="b", maintenance=True, lessee="you", provision_state="active",
             resource_class="gold", description="500", retired=True)  # fmt: skip
    api.node(name="child", parent_node=parent["uuid"])

    assert names == [node["name"] for node in api("GET", f"/v1/nodes?{query}").json["nodes"]]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_patch_changes_nested_keys(api):
    uuid = api.node(extra={"a": {"b": 1}, "list": [1, 2]})["uuid"]
    answer = api("PATCH", f"/v1/nodes/{uuid}", [
        {"op": "replace", "path": "/extra/a/b", "value": 2},
        {"op": "add", "path": "/extra/list/-", "value": 3},
        {"op": "remove", "path": "/extra/list/0"},
        {"op": "add", "path": "/name", "value": "n1"},
        {"op": "add", "path": "/automated_clean", "value": "false"},
    ])  # fmt: skip

    assert 200 == answer.status_code
    assert {"a": {"b": 2}, "list": [2, 3]} == answer.json["extra"]
    assert ("n1", False) == (answer.json["name"], answer.json["automated_clean"])
    assert answer.json["updated_at"]

    removed = api("PATCH", "/v1/nodes/n1", [
        {"op": "remove", "path": f"/{field}"}
        for field in ("extra", "name", "automated_clean", "maintenance")
    ])  # fmt: skip
    assert ({}, None, None, False) == tuple(
        removed.json[field] for field in ("extra", "name", "automated_clean", "maintenance")
    )


@pytest.mark.parametrize(
    "change",
    [
        {"op": "replace", "path": "/uuid", "value": str(uuid4())},
        {"op": "replace", "path": "/provision_state", "value": "active"},
        {"op": "add", "path": "/traits", "value": []},
        {"op": "test", "path": "/name", "value": "x"},
        {"op": "add", "path": "/name"},
        {"op": "add", "path": "name", "value": "x"},
        {"op": "add", "path": "/", "value": "x"},
        {"op": "add", "path": "/name", "value": None},
        {"op": "add", "path": "/extra/a", "value": 1, "from": "/x"},
        {"op": "remove", "path": "/extra/missing"},
        {"op": "replace", "path": "/extra/missing/deeper", "value": 1},
        {"op": "remove", "path": "/driver"},
        {"op": "replace", "path": "/extra", "value": "text"},
        {"op": "add", "path": "/protected_reason", "value": "why"},
        "text",
    ],
)
def test_an_invalid_patch_is_refused(api, change):
    uuid = api.node()["uuid"]

    assert 400 == api("PATCH", f"/v1/nodes/{uuid}", [change]).status_code


def test_an_empty_patch_changes_nothing(api):
    uuid = api.node(reservation="rack-1")["uuid"]
    answer = api("PATCH", f"/v1/nodes/{uuid}", [])

    assert (200, None) == (answer.status_code, answer.json["updated_at"])


@pytest.mark.parametrize(
    ("node", "change", "status"),
    [
        ({"provision_state": "cleaning", "target_provision_state": "available"}, "/extra/a", 409),
        ({"provision_state": "cleaning", "target_provision_state": "available"}, "/retired", 200),
        ({"provision_state": "clean failed", "target_provision_state": "available"}, "/extra/a", 200),
        ({"provision_state": "deploy hold", "target_provision_state": "active"}, "/extra/a", 409),
        ({"provision_state": "inspecting", "target_provision_state": "manageable"}, "/extra/a", 409),
        ({"provision_state": "available"}, "/retired", 409),
        ({"provision_state": "active"}, "/retired", 200),
        ({"provision_state": "active"}, "/protected", 200),
        ({"provision_state": "available"}, "/protected", 409),
        ({"provision_state": "active", "resource_class": "gold"}, "/resource_class", 409),
        ({"provision_state": "active"}, "/resource_class", 200),
        ({"provision_state": "active"}, "/raid_interface", 409),
        ({"provision_state": "active", "maintenance": True}, "/raid_interface", 200),
        ({"provision_state": "manageable"}, "/raid_interface", 200),
        ({"instance_uuid": str(uuid4())}, "/instance_uuid", 409),
        ({"reservation": "rack-1"}, "/extra/a", 409),
        ({"console_enabled": True}, "/driver", 409),
    ],
)  # fmt: skip
def test_the_state_decides_which_fields_may_be_changed(api, node, change, status):
    values = {
        "/resource_class": "silver", "/raid_interface": "no-raid", "/instance_uuid": str(uuid4()),
        "/driver": "redfish",
    }  # fmt: skip
    uuid = api.node(**node)["uuid"]
    body = [{"op": "add", "path": change, "value": values.get(change, True)}]

    assert status == api("PATCH", f"/v1/nodes/{uuid}", body).status_code


def test_a_new_driver_may_change_the_interfaces(api):
    uuid = api.node()["uuid"]
    body = [
        {"op": "replace", "path": "/driver", "value": "redfish"},
        {"op": "replace", "path": "/network_interface", "value": "noop"},
    ]

    assert 400 == api("PATCH", f"/v1/nodes/{uuid}", body).status_code
    changed = api("PATCH", f"/v1/nodes/{uuid}?reset_interfaces=true", body)
    assert (200, "redfish", "redfish") == (
        changed.status_code,
        changed.json["driver"],
        changed.json["power_interface"],
    )
    assert 400 == api("PATCH", f"/v1/nodes/{uuid}?reset_interfaces=true", []).status_code


def test_clearing_a_flag_clears_its_reason(api):
    uuid = api.node(provision_state="active", maintenance=True, maintenance_reason="m",
                    fault="power failure", protected=True, protected_reason="p", retired=True,
                    retired_reason="r")["uuid"]  # fmt: skip
    node = api("PATCH", f"/v1/nodes/{uuid}", [
        {"op": "replace", "path": f"/{field}", "value": False}
        for field in ("maintenance", "protected", "retired")
    ]).json  # fmt: skip

    reasons = ("maintenance_reason", "fault", "protected_reason", "retired_reason")
    assert [None] * 4 == [node[field] for field in reasons]


def test_a_node_is_in_service_unless_it_is_retired_with_or_without_a_reason(api):
    def retirement(node):
        return node["retired"], node["retired_reason"]

    body = {"driver": "fake-hardware"}
    reasoned = {"retired": True, "retired_reason": "end of warranty"}
    assert (False, None) == retirement(api("POST", "/v1/nodes", body).json)
    node = api("POST", "/v1/nodes", {**body, **reasoned}).json
    path = f"/v1/nodes/{node['uuid']}"
    assert (True, "end of warranty") == retirement(node) == retirement(api("GET", path).json)

    def patch(**fields):
        return api("PATCH", path, [
            {"op": "replace", "path": f"/{name}", "value": value} for name, value in fields.items()
        ])  # fmt: skip

    assert (True, "sold") == retirement(patch(retired_reason="sold").json)
    assert (True, None) == retirement(patch(retired_reason=None).json)
    assert (False, None) == retirement(patch(retired=False).json)
    assert 400 == patch(retired_reason="sold").status_code
    assert (True, "sold") == retirement(patch(retired=True, retired_reason="sold").json)
    removed = api("PATCH", path, [{"op": "remove", "path": "/retired"}])
    assert (False, None) == retirement(removed.json) == retirement(api("GET", path).json)


def test_maintenance_is_set_and_cleared(api):
    uuid = api.node(fault="power failure")["uuid"]
    path = f"/v1/nodes/{uuid}/maintenance"

    answer = api("PUT", path, {"reason": "disk"})
    assert (202, b"") == (answer.status_code, answer.data)
    assert "Content-Type" not in answer.headers
    assert "disk" == api("GET", f"/v1/nodes/{uuid}").json["maintenance_reason"]

    assert 202 == api("DELETE", path).status_code
    node = api("GET", f"/v1/nodes/{uuid}").json
    assert (False, None, None) == (node["maintenance"], node["maintenance_reason"], node["fault"])
    assert 202 == api("PUT", f"{path}?reason=by+query").status_code


@pytest.mark.parametrize(
    ("node", "status"),
    [
        ({}, 204),
        ({"provision_state": "available"}, 204),
        ({"provision_state": "active"}, 409),
        ({"provision_state": "active", "maintenance": True}, 204),
        ({"instance_uuid": str(uuid4())}, 409),
        ({"protected": True, "maintenance": True}, 403),
        ({"reservation": "rack-1", "maintenance": True}, 409),
    ],
)
def test_the_state_decides_whether_a_node_may_be_deleted(api, node, status):
    uuid = api.node(**node)["uuid"]

    assert status == api("DELETE", f"/v1/nodes/{uuid}").status_code
    assert (404 if status == 204 else 200) == api("GET", f"/v1/nodes/{uuid}").status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_deleting_a_node_deletes_all_of_its_rows(api):
    uuid = api.node()["uuid"]
    api("POST", "/v1/ports", {"node_uuid": uuid, "address": "52:54:00:00:00:01"})
    api("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "manage"})
    with api.runtime.transaction() as session:
        node = session.query(Node).one()
        node.reservation, node.maintenance, node.operation_id = None, True, None
        session.add(AgentRecord(node_id=node.id))
        session.add(NodeHistory(uuid=str(uuid4()), node_id=node.id, created_at=now(),
                                severity="INFO", event_type="x", event="y"))  # fmt: skip
        assert session.query(OperationStep).count()

    assert 204 == api("DELETE", f"/v1/nodes/{uuid}").status_code
    with api.runtime.reading() as session:
        for model in (Node, AgentRecord, NodeHistory, Operation, OperationStep):
            assert 0 == session.query(model).count()


def test_a_node_is_validated_without_a_request_to_its_bmc(api):
    uuid = api("POST", "/v1/nodes", {"driver": "redfish"}).json["uuid"]
    results = api("GET", f"/v1/nodes/{uuid}/validate").json

    assert results == api("GET", f"/v1/nodes/validate?node_uuid={uuid}").json
    assert False is results["power"]["result"]
    assert "redfish_address" in results["power"]["reason"]
    assert "vendor" not in results


@pytest.mark.parametrize(
    ("traits", "fits", "message"),
    [
        (["CUSTOM_A"], True, ""),
        (["CUSTOM_A", "CUSTOM_C", "CUSTOM_B"], False, "is missing traits CUSTOM_B, CUSTOM_C"),
        ("CUSTOM_A", False, "A list of strings is expected"),
        ([{"trait": "CUSTOM_A"}], False, "A list of strings is expected"),
    ],
)
def test_a_node_without_the_required_traits_is_not_valid_for_deployment(api, traits, fits, message):
    path = f"/v1/nodes/{api.node(provision_state='available')['uuid']}"
    api("PUT", f"{path}/traits", {"traits": ["CUSTOM_A"]})
    api("PATCH", path, [{"op": "add", "path": "/instance_info/traits", "value": traits}])
    results = api("GET", f"{path}/validate").json
    deployed = api("PUT", f"{path}/states/provision", {"target": "active"})

    assert (fits, 202 if fits else 400) == (results["deploy"]["result"], deployed.status_code)
    if not fits:
        assert message in results["deploy"]["reason"]
        assert results["deploy"]["reason"] == fault(deployed)["faultstring"]
    assert results["power"]["result"]


@pytest.mark.parametrize("group", ["rack1", "RACK1", "Rack1"])
def test_a_conductor_group_is_found_in_any_case(api, group):
    api.node(conductor_group="rack1", name="here")
    api.node(conductor_group="rack2", name="there")
    nodes = api("GET", f"/v1/nodes?conductor_group={group}").json["nodes"]

    assert ["here"] == [node["name"] for node in nodes]


def test_an_invalid_identifier_is_refused(api):
    assert 400 == api("GET", "/v1/nodes/a%20b").status_code
    assert 400 == api("GET", "/v1/operations/%00").status_code
    assert 404 == api("GET", f"/v1/nodes/{uuid4()}").status_code
    api.node(name="n1")
    assert 404 == api.at("1.4")("GET", "/v1/nodes/n1").status_code
