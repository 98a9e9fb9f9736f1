"""/v1/rollouts: plans, requests, and lists."""

import re
import uuid

import pytest
from sqlalchemy import event, insert, select

from app.api.schemas.rollouts import MOST_NAMES
from app.models import Node, Rollout, RolloutNode
from app.rollouts import rollout_waves

from .conftest import fault

STEPS = [{"interface": "vendor", "step": "log_passthrough"}]
CLEAN = {"target": "clean", "clean_steps": STEPS}
NIGHT = {"cron": "0 22 * * MON-FRI", "zone": "Europe/Berlin", "minutes": 360}


@pytest.fixture
def nodes(api):
    """Names of three manageable nodes, in two racks."""
    for number in range(3):
        rack = {"rack": f"r{number // 2}"}
        api.node(name=f"n{number}", provision_state="manageable", extra=rack)
    return ["n0", "n1", "n2"]


def create(api, **fields):
    answer = api("POST", "/v1/rollouts", {**CLEAN, "nodes": {}, **fields})
    assert 201 == answer.status_code, answer.text
    return answer.json


def refusal(api, body):
    answer = api("POST", "/v1/rollouts", body)
    assert 400 == answer.status_code, answer.text
    return fault(answer)["faultstring"]


def test_a_rollout_is_created_shown_and_listed(api, nodes):
    strategy = {
        "max_unavailable": "50%", "group_by": "extra.rack", "max_groups": 1, "canary": 1,
        "error_budget": 2,
    }  # fmt: skip
    rollout = create(api, strategy=strategy, description="new BIOS")
    assert ("running", 3, 3, 1, 3) == tuple(
        rollout[name] for name in ("state", "nodes", "waves", "canary_waves", "pending")
    )
    assert {
        **strategy, "max_per_group": None, "error_budget": "2", "not_before": None, "windows": [],
    } == rollout["strategy"]  # fmt: skip
    assert {"clean_steps": STEPS} == rollout["arguments"]
    assert "Wave 1 of 3 (canary) waits for 1 of 1 node: 1 not started." == rollout["summary"]
    answer = api("GET", f"/v1/rollouts/{rollout['uuid'].upper()}")
    assert 200 == answer.status_code
    assert rollout == answer.json
    (listed,) = api("GET", "/v1/rollouts").json["rollouts"]
    assert {name: rollout[name] for name in listed} == listed
    entries = api("GET", f"/v1/rollouts/{rollout['uuid']}/nodes").json["nodes"]
    assert [("n0", "r0", 1), ("n1", "r0", 2), ("n2", "r1", 3)] == [
        (entry["node_name"], entry["group"], entry["wave"]) for entry in entries
    ]


def test_the_answer_names_the_place_of_the_rollout(api, nodes):
    name = str(uuid.uuid4())
    answer = api("POST", "/v1/rollouts", {**CLEAN, "nodes": {}, "uuid": name})
    assert f"http://localhost/v1/rollouts/{name}" == answer.headers["Location"]
    rollout_waves.advance_all(api.runtime)  # a node does not accept the verb any more
    again = api("POST", "/v1/rollouts", {**CLEAN, "nodes": {"owner": "p"}, "uuid": name})
    assert 409 == again.status_code
    assert f"rollout with UUID {name} already exists" in fault(again)["faultstring"]
    assert 1 == len(api("GET", "/v1/rollouts").json["rollouts"])


def test_a_rollout_has_windows_and_an_earliest_time(api, nodes):
    other = {"cron": "30 1 * * *", "minutes": 60}
    strategy = {"not_before": "2099-01-31T23:00:00+01:00", "windows": [NIGHT, other]}
    created = create(api, strategy=strategy)
    assert ("2099-01-31T22:00:00", [NIGHT, {**other, "zone": "UTC"}]) == tuple(
        created["strategy"][name] for name in ("not_before", "windows")
    )
    assert "It starts no node before 2099-02-01T01:30:00Z. Wave 1 of 3 waits" in created["summary"]
    answer = api("GET", "/v1/nodes/n1/why").json
    assert "will request clean: it starts no node before 2099-02-01T01:30:00Z" in answer["summary"]
    assert created["strategy"] == api("GET", f"/v1/rollouts/{created['uuid']}").json["strategy"]


def test_filters_choose_the_nodes_as_those_of_the_list_do(api, nodes):
    api.node(name="other", provision_state="manageable", resource_class="gpu", retired=True)
    for filters, names in (
        ({}, [*nodes, "other"]), ({"resource_class": "gpu"}, ["other"]),
        ({"retired": False}, nodes), ({"retired": "false"}, nodes),
        ({"resource_class": "gpu", "retired": True}, ["other"]),
    ):  # fmt: skip
        rollout = create(api, nodes=filters)
        entries = api("GET", f"/v1/rollouts/{rollout['uuid']}/nodes").json["nodes"]
        assert sorted(names) == sorted(entry["node_name"] for entry in entries), filters


def test_named_nodes_take_part_also_children_and_each_once(api, nodes):
    parent = api("GET", "/v1/nodes/n0").json["uuid"]
    child = api.node(name="child", provision_state="manageable", parent_node=parent)["uuid"]
    for filters, names in (
        ({"names": ["n2", "n0"]}, ["n0", "n2"]),
        ({"names": ["n0", "n0", parent, parent.upper(), child]}, ["child", "n0"]),
        ({"names": nodes, "where": "extra.rack=r1"}, ["n2"]),
    ):
        rollout = create(api, nodes=filters)
        members = api("GET", f"/v1/rollouts/{rollout['uuid']}/nodes").json["nodes"]
        assert names == sorted(member["node_name"] for member in members), filters
        assert {**filters, "names": len(filters["names"])} == rollout["filters"]


def test_names_of_no_node_are_refused_all_together(api, nodes, monkeypatch):
    monkeypatch.setattr("app.rollouts.rollout_plan.NAMES", 2)  # three statements
    absent = str(uuid.uuid4())
    names = [*nodes, "n7", absent, "N0"]
    message = refusal(api, {**CLEAN, "nodes": {"names": names}, "dry_run": True})
    assert f"nodes.names: 3 of 6 could not be found: n7, {absent}, N0" in message
    many = [f"m{number}" for number in range(11)]
    message = refusal(api, {**CLEAN, "nodes": {"names": many}})
    assert f"11 of 11 could not be found: {', '.join(many[:10])}, ..." in message
    assert [] == api("GET", "/v1/rollouts").json["rollouts"]


def test_a_rollout_takes_as_many_names_as_it_says(api):
    node = api.node(name="n0", provision_state="manageable")["uuid"]
    names = ["n0", *(f"m{number}" for number in range(MOST_NAMES - 1))]
    message = refusal(api, {**CLEAN, "nodes": {"names": names}})
    assert f"{MOST_NAMES - 1} of {MOST_NAMES} could not be found" in message
    assert f"to {MOST_NAMES} names" in refusal(api, {**CLEAN, "nodes": {"names": [*names, node]}})


def test_a_dry_run_lists_nodes_and_exclusions_and_creates_nothing(api, nodes):
    api.node(name="busy", provision_state="active")
    api.node(name="broken", provision_state="manageable", maintenance=True)
    answer = api("POST", "/v1/rollouts", {**CLEAN, "nodes": {}, "dry_run": True})
    assert 200 == answer.status_code
    plan = answer.json
    assert (3, 2, 3, 1) == tuple(
        plan[name] for name in ("included", "excluded", "waves", "error_budget")
    )
    assert [("n0", 1), ("n1", 2), ("n2", 3)] == [
        (node["node_name"], node["wave"]) for node in plan["nodes"]
    ]
    reasons = {node["node_name"]: node["reason"] for node in plan["excluded_nodes"]}
    assert 'while it is in state "active"' in reasons["busy"]
    assert "because it's in maintenance mode" in reasons["broken"]
    assert [] == api("GET", "/v1/rollouts").json["rollouts"]


def test_a_dry_run_excludes_what_the_verb_refuses_with_its_reason(api, nodes):
    runbook = {
        "name": "CUSTOM_FW",
        "steps": [{"interface": "vendor", "step": "log_passthrough", "args": {}, "order": 1}],
    }
    assert 201 == api("POST", "/v1/runbooks", runbook).status_code
    fits = api("GET", "/v1/nodes/n1").json["uuid"]
    assert 204 == api("PUT", f"/v1/nodes/{fits}/traits/CUSTOM_FW").status_code
    plans = {
        "clean": {"runbook": "CUSTOM_FW"},
        "active": {"deploy_steps": [
            {"interface": "deploy", "step": "boot_instance", "args": {}, "priority": 0},
        ]},
        "power on": {},
    }  # fmt: skip
    for target, arguments in plans.items():
        body = {"target": target, **arguments, "nodes": {}, "dry_run": True}
        plan = api("POST", "/v1/rollouts", body).json
        included = [node["node_name"] for node in plan["nodes"]]
        assert included == {"clean": ["n1"], "active": [], "power on": nodes}[target]
        for node in plan["excluded_nodes"]:
            path = f"/v1/nodes/{node['node_uuid']}/states/provision"
            act = api("PUT", path, {"target": target, **arguments})
            assert 400 == act.status_code
            assert fault(act)["faultstring"] == node["reason"]
            assert target != "clean" or "CUSTOM_FW" in node["reason"]


def test_a_dry_run_keeps_nodes_that_are_locked_or_have_no_conductor(api, nodes):
    for name in nodes[:2]:
        uuid = api("GET", f"/v1/nodes/{name}").json["uuid"]
        change = {"reservation": "rack-1"} if name == "n0" else {"conductor_group": "far"}
        api.set(uuid, **change)
    plan = api("POST", "/v1/rollouts", {**CLEAN, "nodes": {}, "dry_run": True}).json
    assert 3 == plan["included"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "abort"}, "'abort' is not one of"),
        ({"target": "rescue"}, "'rescue' is not one of"),
        ({"target": None}, "target"),
        ({"nodes": None}, "nodes"),
        ({"nodes": {"colour": "red"}}, "colour"),
        ({"nodes": {"limit": 3}}, "limit"),
        ({"nodes": {"conductor": "c"}}, "conductor"),
        ({"nodes": {"retired": "perhaps"}}, "Unrecognized value 'perhaps'"),
        ({"nodes": []}, "nodes"),
        ({"nodes": {"names": []}}, "Expected 1 to 10000 names for names"),
        ({"nodes": {"names": "n0"}}, "names"),
        ({"nodes": {"names": None}}, "names"),
        ({"nodes": {"names": ["n0", 7]}}, "names"),
        ({"nodes": {"names": ["n0", "a b"]}}, "names"),
        ({"nodes": {"names": ["n0\0"]}}, "nodes: must not contain NUL"),
        ({"strategy": {"max_unavailable": 0}}, "max_unavailable: 0 is neither"),
        ({"strategy": {"max_unavailable": True}}, "max_unavailable: True is neither"),
        ({"strategy": {"max_unavailable": "101%"}}, "max_unavailable: '101%' is neither"),
        ({"strategy": {"max_unavailable": "5 %"}}, "'5 %' is neither"),
        ({"strategy": {"max_unavailable": 2.5}}, "2.5 is neither"),
        ({"strategy": {"max_unavailable": "١٢"}}, "is neither"),
        ({"strategy": {"error_budget": "0%"}}, "error_budget: '0%' is neither"),
        ({"strategy": {"error_budget": ["5%"]}}, "is neither"),
        ({"strategy": {"canary": -1}}, "-1 is less than the minimum of 0"),
        ({"strategy": {"max_groups": 1}}, "max_groups: needs group_by"),
        ({"strategy": {"group_by": "shard", "max_groups": 0}}, "0 is less than the minimum of 1"),
        ({"strategy": {"group_by": "driver_info.password"}}, "is none of chassis_uuid"),
        ({"strategy": {"group_by": "extra."}}, "group_by: 'extra.' is none of"),
        ({"strategy": {"group_by": 'extra.a"b'}}, "is none of"),
        ({"strategy": {"speed": 1}}, "speed"),
        ({"strategy": {"not_before": "tonight"}}, "Expected a time for not_before"),
        ({"strategy": {"not_before": 7}}, "Expected a time for not_before"),
        ({"strategy": {"windows": []}}, "Expected 1 to 10 windows for windows"),
        ({"strategy": {"windows": [NIGHT] * 11}}, "Expected 1 to 10 windows"),
        ({"strategy": {"windows": ["0 22 * * *"]}}, "windows"),
        (
            {"strategy": {"windows": [{**NIGHT, "zone": "Europe/Berlni"}]}},
            "the nearest is Europe/Berlin",
        ),
        ({"strategy": {"windows": [{**NIGHT, "zone": "../../etc/passwd"}]}}, "is no time zone"),
        ({"strategy": {"windows": [{**NIGHT, "zone": None}]}}, "zone"),
        ({"strategy": {"windows": [{**NIGHT, "cron": "0 25 * * *"}]}}, "'0 25 * * *': Bad hour"),
        ({"strategy": {"windows": [{**NIGHT, "cron": "0 0 31 2 *"}]}}, "Bad day-of-month"),
        ({"strategy": {"windows": [{**NIGHT, "cron": "0 0 */20 * 1L"}]}}, "is no day of any year"),
        ({"strategy": {"windows": [{**NIGHT, "cron": "0 0 22 * * *"}]}}, "it has 5 fields"),
        ({"strategy": {"windows": [{**NIGHT, "cron": "@daily"}]}}, "it has 5 fields"),
        ({"strategy": {"windows": [{**NIGHT, "cron": "\u0661 * * * *"}]}}, "Bad minute"),
        ({"strategy": {"windows": [{**NIGHT, "cron": ""}]}}, "it has 5 fields"),
        ({"strategy": {"windows": [{**NIGHT, "cron": "1," * 50 + " * * * *"}]}}, "cron"),
        ({"strategy": {"windows": [{**NIGHT, "minutes": 0}]}}, "0 is less than the minimum of 1"),
        ({"strategy": {"windows": [{**NIGHT, "minutes": 10081}]}}, "greater than the maximum"),
        ({"strategy": {"windows": [{**NIGHT, "minutes": "5"}]}}, "minutes"),
        ({"strategy": {"windows": [{"cron": "0 22 * * *"}]}}, "minutes"),
        ({"strategy": {"windows": [{**NIGHT, "hours": 5}]}}, "hours"),
        ({"service_steps": STEPS}, '"service_steps" is only valid'),
        ({"clean_steps": []}, '"clean_steps" is required'),
        ({"runbook": "CUSTOM_A"}, "not both"),
        ({"timeout": 5}, "timeout: only taken by power on"),
        ({"target": "power off"}, "clean_steps: not taken by power off"),
        ({"configdrive": "x"}, "configdrive"),
        ({"uuid": "1"}, "Expected UUID for uuid"),
        ({"dry_run": "perhaps"}, "Unrecognized value 'perhaps'"),
    ],
    ids=str,
)
def test_bad_fields_are_refused(api, nodes, change, message):
    body = {**CLEAN, "nodes": {}, **change}
    body = {name: value for name, value in body.items() if value is not None}
    assert message in refusal(api, body)
    assert [] == api("GET", "/v1/rollouts").json["rollouts"]


def test_no_nodes_are_refused(api):
    assert "nodes: no node matches" in refusal(api, {**CLEAN, "nodes": {}})


def test_filters_and_verbs_need_their_versions(api, nodes):
    old = api.at("1.14")
    answer = old("POST", "/v1/rollouts", {**CLEAN, "nodes": {}})
    assert 406 == answer.status_code
    assert "target clean" in fault(answer)["faultstring"]
    answer = api.at("1.30")("POST", "/v1/rollouts", {**CLEAN, "nodes": {"owner": "p"}})
    assert 406 == answer.status_code
    assert "parameter owner" in fault(answer)["faultstring"]


def test_requests_change_the_state(api, nodes):
    path = f"/v1/rollouts/{create(api)['uuid']}"
    for target, state in (("pause", "paused"), ("resume", "running"), ("abort", "aborting")):
        answer = api("PUT", f"{path}/states", {"target": target})
        assert (200, state) == (answer.status_code, answer.json["state"])
    again = api("PUT", f"{path}/states", {"target": "resume"})
    assert 409 == again.status_code
    assert 'is in state "aborting", and resume needs state "paused"' in fault(again)["faultstring"]
    assert 400 == api("PUT", f"{path}/states", {"target": "stop"}).status_code
    assert 400 == api("PUT", f"{path}/states", {}).status_code
    unknown = f"/v1/rollouts/{uuid.uuid4()}"
    for method, below, body in (
        ("GET", "", None), ("GET", "/nodes", None), ("PUT", "/states", {"target": "pause"})
    ):  # fmt: skip
        assert 404 == api(method, unknown + below, body).status_code


def test_only_an_ended_rollout_is_deleted_and_its_nodes_with_it(api, nodes):
    other_uuid, rollout_uuid = create(api)["uuid"], create(api)["uuid"]
    path = f"/v1/rollouts/{rollout_uuid}"
    for target, state in ((None, "running"), ("pause", "paused"), ("abort", "aborting")):
        if target:
            api("PUT", f"{path}/states", {"target": target})
        refused = api("DELETE", path)
        assert 409 == refused.status_code
        assert f'is in state "{state}": abort it' in fault(refused)["faultstring"]
    rollout_waves.advance_all(api.runtime)
    assert "aborted" == api("GET", path).json["state"]
    deleted = api("DELETE", f"/v1/rollouts/{rollout_uuid.upper()}")
    assert (204, b"") == (deleted.status_code, deleted.data)
    assert [404] * 3 == [
        api(method, path + below).status_code
        for method, below in (("GET", ""), ("GET", "/nodes"), ("DELETE", ""))
    ]
    assert [other_uuid] == [
        rollout["uuid"] for rollout in api("GET", "/v1/rollouts").json["rollouts"]
    ]
    assert 3 == len(api("GET", f"/v1/rollouts/{other_uuid}/nodes").json["nodes"])
    with api.runtime.reading() as session:
        assert 3 == session.query(RolloutNode).count()


def test_nodes_are_listed_in_pages_and_filtered(api, nodes):
    create(api, strategy={"max_unavailable": 2})
    rollout_waves.advance_all(api.runtime)
    (rollout,) = api("GET", "/v1/rollouts?state=running").json["rollouts"]
    assert [] == api("GET", "/v1/rollouts?state=paused").json["rollouts"]
    path = f"/v1/rollouts/{rollout['uuid']}/nodes"
    page = api("GET", f"{path}?limit=2").json
    assert ["n0", "n1"] == [node["node_name"] for node in page["nodes"]]
    assert ["running"] * 2 == [node["state"] for node in page["nodes"]]
    next_page = api("GET", page["next"].removeprefix("http://localhost")).json
    assert ["n2"] == [node["node_name"] for node in next_page["nodes"]]
    assert "next" not in next_page
    assert 1 == len(api("GET", f"{path}?state=pending").json["nodes"])
    assert 1 == len(api("GET", f"{path}?wave=2").json["nodes"])
    assert 0 == len(api("GET", f"{path}?code=timeout").json["nodes"])
    for query in ("state=lost", "wave=0", "marker=x", "limit=0", "sort_key=id", "colour=red"):
        assert 400 == api("GET", f"{path}?{query}").status_code, query
    operation = page["nodes"][0]["operation_uuid"]
    assert "clean" == api("GET", f"/v1/operations/{operation}").json["kind"]


def test_each_request_is_audited(api, nodes):
    rollout = create(api)
    api("PUT", f"/v1/rollouts/{rollout['uuid']}/states", {"target": "pause"})
    api("POST", "/v1/rollouts", {**CLEAN, "nodes": {}, "dry_run": True})
    records = api("GET", f"/v1/audit?target={rollout['uuid']}").json["audit"]
    assert ["update/rollout/state/pause", "create/rollout/clean"] == [
        record["action"] for record in records
    ]
    everything = api("GET", "/v1/audit?action=create/rollout").json["audit"]
    assert 1 == len(everything), "a dry run changes nothing"


MANY = 5000
_SCAN = re.compile(r"(SCAN|Seq Scan on) rollout_nodes")


@pytest.fixture
def large(api):
    """A running rollout over `MANY` nodes; UUID."""
    with api.runtime.transaction() as session:
        rows = [
            {"uuid": str(uuid.uuid4()), "driver": "fake-hardware", "provision_state": "manageable"}
            for _ in range(MANY)
        ]
        session.execute(insert(Node), rows)
    return create(api, strategy={"max_unavailable": "2%"})["uuid"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_advance_reads_by_index_and_its_statements_do_not_grow(api, large, kind, monkeypatch):
    monkeypatch.setattr(rollout_waves, "STARTED", 1)
    if kind == "postgresql":
        with api.runtime.transaction() as session:
            session.connection().exec_driver_sql("ANALYZE")
    statements = []

    def note(_connection, _cursor, statement, parameters, *_rest):
        if "rollout" in statement and statement.startswith("SELECT"):
            statements.append((statement, parameters))

    event.listen(api.runtime.engine, "before_cursor_execute", note)
    try:
        rollout_waves.advance_all(api.runtime)
    finally:
        event.remove(api.runtime.engine, "before_cursor_execute", note)
    assert 3 <= len(statements) <= 8
    with api.runtime.engine.connect() as connection:
        explain = "EXPLAIN QUERY PLAN " if kind == "sqlite" else "EXPLAIN "
        for statement, parameters in statements:
            if "rollout_nodes" not in statement:
                continue
            rows = connection.exec_driver_sql(explain + statement, parameters).all()
            plan = "\n".join(row[-1] for row in rows)
            assert not _SCAN.search(plan), (statement, plan)
    with api.runtime.reading() as session:
        assert 1 == session.scalar(select(Rollout.running))
        started = select(RolloutNode).where(RolloutNode.state == "running")
        assert 1 == len(session.scalars(started).all())
