"""Steps of nodes, dry runs of verbs, and explanations of states (`why`)."""

import pytest

from app.db.clock import utcnow
from app.models import AgentRecord, Node, Operation, OperationStep

from .conftest import fault

AGENT_STEPS = {
    "clean": [
        {"interface": "deploy", "step": "erase_devices", "priority": 10, "abortable": True},
        {"interface": "deploy", "step": "burnin_cpu", "priority": 0,
         "argsinfo": {"seconds": {"description": "how long", "required": True}}},
    ],
    "deploy": [], "service": [],
}  # fmt: skip


def listed(answer):
    return [(f"{each['interface']}.{each['step']}", each["priority"]) for each in answer.json]


def row_id(api, uuid):
    with api.runtime.reading() as session:
        return session.query(Node).filter_by(uuid=uuid).one().id


def test_all_clean_steps_are_listed_by_decreasing_priority(api):
    uuid = api.node()["uuid"]
    answer = api("GET", f"/v1/nodes/{uuid}/cleaning/steps")

    assert 200 == answer.status_code
    steps = {f"{each['interface']}.{each['step']}": each for each in answer.json}
    assert ("vendor.log_passthrough", 1) == listed(answer)[0]
    assert 0 == steps["bios.factory_reset"]["priority"]
    assert {
        "interface": "bios", "step": "apply_configuration", "priority": 0, "abortable": False,
    }.items() <= steps["bios.apply_configuration"].items()  # fmt: skip
    (argument,) = steps["bios.apply_configuration"]["args"]
    assert ("settings", True) == (argument["name"], argument["required"])
    assert "description" in argument


def test_steps_are_filtered_by_their_least_priority(api):
    uuid = api.node(name="n1")["uuid"]
    for ident, least in ((uuid, 0.5), ("n1", 1)):
        answer = api("GET", f"/v1/nodes/{ident}/cleaning/steps?min_priority={least}")
        assert [("vendor.log_passthrough", 1)] == listed(answer)
    assert 400 == api("GET", f"/v1/nodes/{uuid}/cleaning/steps?min_priority=high").status_code


@pytest.mark.parametrize(
    ("flow", "first"), [("deploy", ("deploy.deploy", 100)), ("service", ("vendor.", 0))]
)
def test_the_other_flows_have_their_own_lists(api, flow, first):
    uuid = api.node()["uuid"]
    label, priority = listed(api("GET", f"/v1/nodes/{uuid}/{flow}/steps"))[0]
    assert label.startswith(first[0])
    assert first[1] == priority


def test_verify_steps_need_no_agent(api):
    uuid = api.node(deploy_interface="direct")["uuid"]
    assert 200 == api("GET", f"/v1/nodes/{uuid}/verify/steps").status_code


def test_steps_that_no_agent_has_listed_yet_are_202_with_retry_after(api):
    uuid = api.node(deploy_interface="direct")["uuid"]
    answer = api("GET", f"/v1/nodes/{uuid}/cleaning/steps")

    assert (202, "-1") == (answer.status_code, answer.headers["Retry-Request-After"])
    assert "not listed its steps yet" in answer.json["message"]
    api.set(uuid, provision_state="manageable")
    api("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "provide"})
    answer = api("GET", f"/v1/nodes/{uuid}/cleaning/steps")
    assert (202, "30") == (answer.status_code, answer.headers["Retry-Request-After"])


def test_the_last_steps_of_an_agent_are_listed_without_the_agent(api):
    uuid = api.node(deploy_interface="direct")["uuid"]
    with api.runtime.transaction() as session:
        session.add(AgentRecord(node_id=row_id(api, uuid), steps=AGENT_STEPS))
    answer = api("GET", f"/v1/nodes/{uuid}/cleaning/steps")

    assert ("deploy.erase_devices", 10) == listed(answer)[0]
    (burn,) = [each for each in answer.json if each["step"] == "burnin_cpu"]
    assert [{"name": "seconds", "description": "how long", "required": True}] == burn["args"]


def test_steps_of_an_unknown_node_are_404(api):
    uuid = api.node()["uuid"]
    assert 404 == api("GET", "/v1/nodes/nobody/cleaning/steps").status_code
    assert 404 == api("GET", f"/v1/nodes/{uuid}/dancing/steps").status_code


def rehearse(api, uuid, verb, **body):
    path = f"/v1/nodes/{uuid}/states/provision?dry_run=true"
    answer = api("PUT", path, {"target": verb, **body})
    assert 200 == answer.status_code, answer.text
    assert [] == api.sent
    with api.runtime.reading() as session:
        assert 0 == session.query(Operation).count()
    return answer.json


def test_a_dry_run_shows_the_steps_and_writes_nothing(api):
    uuid = api.node(provision_state="manageable")["uuid"]
    answer = rehearse(api, uuid, "provide")

    assert (True, "manageable", "cleaning") == (answer["accepted"], answer["from"], answer["to"])
    assert [
        ("prepare_cleaning", "frame", 0), ("log_passthrough", "driver", 1),
        ("tear_down_cleaning", "frame", 0),
    ] == [(each["step"], each["source"], each["priority"]) for each in answer["steps"]]  # fmt: skip
    assert "manageable" == api("GET", f"/v1/nodes/{uuid}").json["provision_state"]


def test_a_dry_run_shows_arguments_and_sources_of_requested_steps(api):
    uuid = api.node(provision_state="available")["uuid"]
    answer = rehearse(api, uuid, "active", deploy_steps=[
        {"interface": "power", "step": "reboot", "args": {}, "priority": 120},
    ])  # fmt: skip
    assert [("prepare", "frame"), ("reboot", "caller"), ("deploy", "driver")] == [
        (each["step"], each["source"]) for each in answer["steps"]
    ]


@pytest.mark.parametrize(
    ("state", "body", "status", "reason"),
    [
        ("active", {"target": "provide"}, 400, "can not be performed"),
        ("available", {"target": "active", "deploy_steps": [
            {"interface": "bios", "step": "x", "args": {}, "priority": 50}]}, 400, "bios.x"),
        ("manageable", {"target": "clean"}, 400, "clean_steps"),
        ("manageable", {"target": "clean", "clean_steps": [
            {"interface": "bios", "step": "apply_configuration"}]}, None, "required and missing"),
    ],
)  # fmt: skip
def test_a_dry_run_shows_the_refusal(api, state, body, status, reason):
    uuid = api.node(provision_state=state)["uuid"]
    answer = rehearse(api, uuid, body.pop("target"), **body)
    assert (status is None) == answer["accepted"]
    (refused,) = answer["refused"]
    assert status == refused["status"]
    assert reason in refused["reason"]


def why(api, uuid):
    answer = api("GET", f"/v1/nodes/{uuid}/why")
    assert 200 == answer.status_code, answer.text
    return answer.json


def test_why_of_a_stable_node_lists_the_accepted_verbs(api):
    answer = why(api, api.node()["uuid"])
    assert (None, None, ["manage"]) == (answer["waiting_for"], answer["held_by"], answer["verbs"])


@pytest.mark.parametrize(
    ("columns", "step", "waiting_for"),
    [
        ({"state": "queued", "sent_to": "1"}, {}, "conductor"),
        ({"state": "queued"}, {}, "conductor"),
        ({"state": "running"}, {"conductor": "rack-1"}, "conductor"),
        ({"state": "waiting"}, {}, "agent"),
        ({"state": "held"}, {}, "operator"),
    ],
)
def test_why_names_the_awaited_actor_and_the_next_step(api, columns, step, waiting_for):
    uuid = api.node(provision_state="manageable")["uuid"]
    api("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "provide"})
    with api.runtime.transaction() as session:
        operation = session.query(Operation).one()
        operation.sent_to = None
        row = session.query(OperationStep).filter_by(position=0).one()
        for each, values in ((operation, columns), (row, step)):
            for name, value in values.items():
                setattr(each, name, value)
    answer = why(api, uuid)
    assert (waiting_for, "deploy.prepare_cleaning", "step vendor.log_passthrough") == (
        answer["waiting_for"], answer["step"], answer["next"]
    )  # fmt: skip
    assert "on its way to available" in answer["summary"]


def test_why_shows_the_error_of_a_failed_node(api):
    uuid = api.node(provision_state="manageable")["uuid"]
    step = {"interface": "bios", "step": "nonsense"}
    body = {"target": "clean", "clean_steps": [step]}
    assert 202 == api("PUT", f"/v1/nodes/{uuid}/states/provision", body).status_code
    answer = why(api, uuid)
    assert ("clean failed", "operator", "invalid_steps") == (
        answer["provision_state"], answer["waiting_for"], answer["error"]["code"]
    )  # fmt: skip
    assert answer["error"]["hint"]
    assert "maintenance" in answer["summary"]


def test_why_of_an_unknown_node_is_404(api):
    answer = api("GET", "/v1/nodes/nobody/why")
    assert (404, "nobody" in fault(answer)["faultstring"]) == (answer.status_code, True)


@pytest.mark.parametrize(("flow", "state"), [("clean", "clean wait"), ("deploy", "wait call-back")])
def test_steps_of_a_flow_are_shown_until_it_ends(api, flow, state):
    uuid = api.node(provision_state=state)["uuid"]
    with api.runtime.transaction() as session:
        node = session.query(Node).filter_by(uuid=uuid).one()
        operation = Operation(
            uuid="op", node_id=node.id, kind="any", created_at=utcnow(), state="waiting", cursor=1
        )
        session.add(operation)
        session.flush()
        for position, name in enumerate(("first", "second")):
            session.add(OperationStep(
                operation_id=operation.id, position=position, interface="deploy", name=name,
                flow=flow, source="agent", state=("done", "waiting")[position],
            ))  # fmt: skip
    shown = api("GET", f"/v1/nodes/{uuid}").json
    (listed,) = api("GET", "/v1/nodes/detail").json["nodes"]
    for each in (shown, listed):
        internal = each["driver_internal_info"]
        assert "second" == each[f"{flow}_step"]["step"]
        assert ["first", "second"] == [step["step"] for step in internal[f"{flow}_steps"]]
        assert 1 == internal[f"{flow}_step_index"]
    with api.runtime.transaction() as session:
        session.query(Operation).one().state = "succeeded"
    after = api("GET", f"/v1/nodes/{uuid}").json
    assert ({}, {}) == (after[f"{flow}_step"], after["driver_internal_info"])
