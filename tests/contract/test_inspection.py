"""The API of inspection: the agent's report, the inventory, inspection rules."""

import pytest

from app.models import InspectionReport, Node, NodeInventory, Operation, OperationStep, Port

from .conftest import fault

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
MAC = "52:54:00:00:00:01"
REPORT = {"inventory": {"interfaces": [{"mac_address": MAC.upper(), "name": "eth0"}]}, "data": 1}
PATH = "/v1/continue_inspection"
RULES = "/v1/inspection_rules"
ACTION = {"op": "set-attribute", "args": {"path": "/extra/a", "value": "b"}}
CONDITION = {
    "op": "!eq",
    "args": {"values": ["{inventory.cpu.count}", 4]},
    "loop": [1],
    "multiple": "any",
}


@pytest.fixture
def node(api):
    """A node that waits for the report of its agent."""
    node = api.node(provision_state="inspect wait", target_provision_state="manageable")
    with api.runtime.transaction() as session:
        row = session.query(Node).one()
        session.add(Port(uuid="p", node_id=row.id, address=MAC))
        operation = Operation(uuid="o", node_id=row.id, kind="inspect", state="waiting")
        operation.created_at = row.created_at
        session.add(operation)
        session.flush()
        session.add(
            OperationStep(
                operation_id=operation.id, position=0, interface="inspect", name="await_report",
                source="frame", state="waiting", args={},
            )
        )  # fmt: skip
    return node


# The agent's report


@BOTH
def test_a_report_without_a_version_is_answered_with_the_node(api, node):
    answer = api.at(None)("POST", PATH, REPORT)

    assert (202, {"uuid": node["uuid"]}) == (answer.status_code, answer.json)
    with api.runtime.reading() as session:
        assert 1 == session.query(InspectionReport).one().body["data"]
        assert ("queued", "inspecting") == (
            session.query(Operation).one().state,
            session.query(Node).one().provision_state,
        )
    assert 1 == len(api.messages)
    assert 404 == api.at(None)("POST", f"{PATH}?node_uuid={node['uuid']}", REPORT).status_code


def test_a_report_of_a_newer_agent_is_answered_like_a_lookup(api, node):
    answer = api.at("1.84")("POST", f"{PATH}?node_uuid={node['uuid']}", REPORT)

    assert 202 == answer.status_code
    assert {"node", "config"} == answer.json.keys()
    assert node["uuid"] == answer.json["node"]["uuid"]
    assert len(answer.json["config"]["agent_token"]) >= 32


@pytest.mark.parametrize("version", ["1.2", "1.22", "1.83"])
def test_versions_between_do_not_have_the_route(api, node, version):
    assert 404 == api.at(version)("POST", PATH, REPORT).status_code


@pytest.mark.parametrize(
    ("body", "query", "status"),
    [
        ({}, "", 400),
        ([], "", 400),
        ({"inventory": {}}, "", 400),
        ({"inventory": "x"}, "", 400),
        ({"inventory": {"interfaces": []}}, "", 400),
        ({"inventory": {"interfaces": [{}]}}, "", 400),
        ({"inventory": {"interfaces": [{"mac_address": "junk"}]}}, "", 400),
        ({"inventory": {"interfaces": [{"mac_address": "52:54:00:00:00:99"}]}}, "", 404),
        (REPORT, "?node_uuid=11111111-2222-4333-8444-555555555555", 404),
        (REPORT, "?node_uuid=x", 400),
        (REPORT, "?colour=red", 400),
    ],
)
def test_invalid_reports_are_refused(api, node, body, query, status):
    assert status == api("POST", PATH + query, body).status_code
    assert [] == api.messages


def test_the_size_of_a_report_is_limited(api, node):
    def report(size):
        return {**REPORT, "logs": "x" * size}

    assert 202 == api("POST", PATH, report(15 << 20)).status_code
    assert 413 == api("POST", PATH, report(17 << 20)).status_code


@pytest.mark.parametrize("state", ["manageable", "inspecting", "inspect failed", "clean wait"])
def test_an_unexpected_report_is_answered_as_for_an_unknown_node(api, node, state):
    api.set(node["uuid"], provision_state=state)
    with api.runtime.transaction() as session:
        session.query(Operation).one().state = "failed"
    refused = api("POST", PATH, REPORT)
    stranger = {"inventory": {"interfaces": [{"mac_address": "52:54:00:00:00:09"}]}}
    unknown = api("POST", PATH, stranger)
    assert (404, fault(unknown)) == (refused.status_code, fault(refused))


def test_the_inventory_is_shown(api, node):
    path = f"/v1/nodes/{node['uuid']}/inventory"
    assert 404 == api("GET", path).status_code
    with api.runtime.transaction() as session:
        inventory, data = {"cpu": {"count": 4}}, {"a": [1]}
        row = session.query(Node).one()
        session.add(NodeInventory(node_id=row.id, inventory=inventory, plugin_data=data))
    assert {"inventory": inventory, "plugin_data": data} == api("GET", path).json
    assert 404 == api.at("1.80")("GET", path).status_code


def test_a_node_is_deleted_with_its_report(api, node):
    api("POST", PATH, REPORT)
    api.set(node["uuid"], provision_state="enroll", reservation=None)
    assert 204 == api("DELETE", f"/v1/nodes/{node['uuid']}").status_code


# Rules


def make(api, **fields):
    answer = api("POST", RULES, {"actions": [ACTION], **fields})
    assert 201 == answer.status_code, answer.text
    return answer.json


def patch(op, path, value=None):
    return [{"op": op, "path": path} | ({} if op == "remove" else {"value": value})]


@BOTH
def test_a_rule_is_created_shown_listed_changed_and_deleted(api):
    answer = api("POST", RULES, {"actions": [ACTION], "conditions": [CONDITION], "priority": 3})
    rule = answer.json
    path = f"{RULES}/{rule['uuid']}"

    assert (201, f"http://localhost{path}") == (answer.status_code, answer.location)
    assert {
        "uuid": rule["uuid"], "description": None, "phase": "main", "priority": 3,
        "sensitive": False, "conditions": [CONDITION], "actions": [ACTION],
        "created_at": rule["created_at"], "updated_at": None, "links": rule["links"],
    } == rule  # fmt: skip
    assert rule == api("GET", path).json
    short = {name: rule[name] for name in ("uuid", "priority", "phase", "description", "links")}
    assert {"inspection_rules": [short]} == api("GET", RULES).json
    assert {"inspection_rules": [rule]} == api("GET", f"{RULES}?detail=true").json
    assert {"actions", "links"} == api("GET", f"{path}?fields=actions").json.keys()

    changed = api("PATCH", path, patch("replace", "/priority", 7)).json
    assert (7, True) == (changed["priority"], changed["updated_at"] is not None)
    assert 0 == api("PATCH", path, patch("remove", "/priority")).json["priority"]
    assert [] == api("PATCH", path, patch("remove", "/conditions")).json["conditions"]
    assert 400 == api("PATCH", path, patch("remove", "/actions")).status_code
    changed = api("PATCH", path, patch("add", "/actions/-", ACTION)).json
    assert [ACTION, ACTION] == changed["actions"]
    assert 204 == api("DELETE", path).status_code
    assert 404 == api("GET", path).status_code


@BOTH
def test_a_sensitive_rule_is_never_shown_and_stays_sensitive(api):
    rule = make(api, sensitive=True, conditions=[CONDITION])
    path = f"{RULES}/{rule['uuid']}"

    assert (None, None) == (rule["conditions"], rule["actions"])
    for document in (api("GET", path).json, *api("GET", f"{RULES}?detail=true").json[
        "inspection_rules"]):  # fmt: skip
        assert (True, None, None) == (
            document["sensitive"],
            document["conditions"],
            document["actions"],
        )
    assert 400 == api("PATCH", path, patch("replace", "/sensitive", False)).status_code
    assert 400 == api("PATCH", path, patch("replace", "/sensitive", None)).status_code
    assert 400 == api("PATCH", path, patch("remove", "/sensitive")).status_code
    assert 200 == api("PATCH", path, patch("replace", "/priority", 1)).status_code


@BOTH
def test_all_rules_are_deleted_at_once(api):
    make(api)
    make(api)
    answer = api("DELETE", RULES)
    assert (204, b"") == (answer.status_code, answer.data)
    assert {"inspection_rules": []} == api("GET", RULES).json


def test_rules_are_found_by_phase_and_sorted(api):
    for priority in (5, 1, 3):
        make(api, priority=priority)

    def priorities(query):
        return [
            rule["priority"] for rule in api("GET", f"{RULES}?{query}").json["inspection_rules"]
        ]

    assert [1, 3, 5] == priorities("sort_key=priority&phase=main")
    assert [] == priorities("phase=odd")
    page = api("GET", f"{RULES}?limit=2&phase=main").json
    assert "phase=main" in page["next"]
    for query in ("sort_key=actions", "sort_key=conditions", "limit=0", "colour=red", "detail=x"):
        assert 400 == api("GET", f"{RULES}?{query}").status_code, query


def test_older_versions_do_not_have_rules(api):
    old = api.at("1.95")
    path = f"{RULES}/{make(api)['uuid']}"

    assert "inspection_rules" not in old("GET", "/v1").json
    assert "inspection_rules" in api.at("1.96")("GET", "/v1").json
    assert [404, 404] == [old("GET", url).status_code for url in (RULES, path)]
    refused = [("POST", RULES), ("DELETE", RULES), ("PATCH", path), ("DELETE", path)]
    assert [405] * 4 == [old(method, url, []).status_code for method, url in refused]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"actions": []}, "actions"),
        ({"actions": None}, "actions"),
        ({"actions": [{"op": "odd", "args": {}}]}, "0: op: 'odd' is none of fail"),
        ({"actions": [{"op": "fail", "args": {}}]}, "msg"),
        ({"actions": [{**ACTION, "colour": 1}]}, "colour"),
        ({"conditions": [{"op": "odd", "args": []}]}, "0: op: 'odd' is none of eq"),
        ({"conditions": [{**CONDITION, "multiple": "odd"}]}, "multiple"),
        ({"priority": -1}, "priority"),
        ({"priority": 10000}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"phase": "late"}, "phase"),
        ({"description": "x" * 256}, "description"),
        ({"sensitive": "x"}, "sensitive"),
        ({"uuid": "x"}, "uuid"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_the_wrong_field_of_a_new_rule_is_named(api, fields, message):
    answer = api("POST", RULES, {"actions": [ACTION], **fields})
    assert 400 == answer.status_code
    assert message in fault(answer)["faultstring"]


def test_a_new_rule_is_not_sensitive_by_default(api):
    assert make(api, sensitive=None)["sensitive"] is False


def test_a_duplicate_uuid_of_a_rule_is_refused(api):
    rule = make(api)
    assert 409 == api("POST", RULES, {"actions": [ACTION], "uuid": rule["uuid"]}).status_code
