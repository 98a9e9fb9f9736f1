"""The steps of nodes, what a verb would do, and why a node is where it is."""

import pytest

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


def test_only_steps_of_a_least_priority_are_listed_if_so_wished(api):
    uuid = api.node(name="n1")["uuid"]
    for ident in (uuid, "n1"):
        answer = api("GET", f"/v1/nodes/{ident}/cleaning/steps?min_priority=0.5")
        assert [("vendor.log_passthrough", 1)] == listed(answer)
    assert 400 == api("GET", f"/v1/nodes/{uuid}/cleaning/steps?min_priority=high").status_code


@pytest.mark.parametrize(
    ("flow", "first"), [("deploy", ("deploy.deploy", 100)), ("service", ("vendor.", 0))]
)
def test_the_other_flows_have_lists_of_their_own(api, flow, first):
    uuid = api.node()["uuid"]
    label, priority = listed(api("GET", f"/v1/nodes/{uuid}/{flow}/steps"))[0]
    assert label.startswith(first[0])
    assert first[1] == priority


def test_verify_steps_need_no_agent(api):
    uuid = api.node(deploy_interface="direct")["uuid"]
    assert 200 == api("GET", f"/v1/nodes/{uuid}/verify/steps").status_code


def test_what_an_agent_has_not_told_yet_is_202_and_when_to_ask_again(api):
    uuid = api.node(deploy_interface="direct")["uuid"]
    answer = api("GET", f"/v1/nodes/{uuid}/cleaning/steps")

    assert (202, "-1") == (answer.status_code, answer.headers["Retry-Request-After"])
    assert "not listed its steps yet" in answer.json["message"]
    api.set(uuid, provision_state="manageable")
    api("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "provide"})
    answer = api("GET", f"/v1/nodes/{uuid}/cleaning/steps")
    assert (202, "30") == (answer.status_code, answer.headers["Retry-Request-After"])


def test_what_an_agent_told_last_is_listed_whatever_became_of_it(api):
    uuid = api.node(deploy_interface="direct")["uuid"]
    with api.runtime.transaction() as session:
        session.add(AgentRecord(node_id=row_id(api, uuid), steps=AGENT_STEPS))
    answer = api("GET", f"/v1/nodes/{uuid}/cleaning/steps")

    assert ("deploy.erase_devices", 10) == listed(answer)[0]
    (burn,) = [each for each in answer.json if each["step"] == "burnin_cpu"]
    assert [{"name": "seconds", "description": "how long", "required": True}] == burn["args"]


def test_steps_of_what_does_not_exist_are_404(api):
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


def test_a_dry_run_tells_the_steps_and_writes_nothing(api):
    uuid = api.node(provision_state="manageable")["uuid"]
    told = rehearse(api, uuid, "provide")

    assert (True, "manageable", "cleaning") == (told["accepted"], told["from"], told["to"])
    assert [
        ("prepare_cleaning", "frame", 0), ("log_passthrough", "driver", 1),
        ("tear_down_cleaning", "frame", 0),
    ] == [(each["step"], each["source"], each["priority"]) for each in told["steps"]]  # fmt: skip
    assert "manageable" == api("GET", f"/v1/nodes/{uuid}").json["provision_state"]


def test_a_dry_run_shows_arguments_and_sources_of_what_is_asked_for(api):
    uuid = api.node(provision_state="available")["uuid"]
    told = rehearse(api, uuid, "active", deploy_steps=[
        {"interface": "power", "step": "reboot", "args": {}, "priority": 120},
    ])  # fmt: skip
    assert [("prepare", "frame"), ("reboot", "caller"), ("deploy", "driver")] == [
        (each["step"], each["source"]) for each in told["steps"]
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
def test_a_dry_run_tells_what_would_be_refused(api, state, body, status, reason):
    uuid = api.node(provision_state=state)["uuid"]
    told = rehearse(api, uuid, body.pop("target"), **body)
    assert (status is None) == told["accepted"]
    (refused,) = told["refused"]
    assert status == refused["status"]
    assert reason in refused["reason"]


def why(api, uuid):
    answer = api("GET", f"/v1/nodes/{uuid}/why")
    assert 200 == answer.status_code, answer.text
    return answer.json


def test_why_of_a_node_at_rest_says_what_may_be_asked_for(api):
    told = why(api, api.node()["uuid"])
    assert (None, None, ["manage"]) == (told["waiting_for"], told["held_by"], told["verbs"])


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
def test_why_says_whom_a_node_waits_for_and_what_comes_next(api, columns, step, waiting_for):
    uuid = api.node(provision_state="manageable")["uuid"]
    api("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "provide"})
    with api.runtime.transaction() as session:
        operation = session.query(Operation).one()
        operation.sent_to = None
        row = session.query(OperationStep).filter_by(position=0).one()
        for each, values in ((operation, columns), (row, step)):
            for name, value in values.items():
                setattr(each, name, value)
    told = why(api, uuid)
    assert (waiting_for, "deploy.prepare_cleaning", "step vendor.log_passthrough") == (
        told["waiting_for"], told["step"], told["next"]
    )  # fmt: skip
    assert "on its way to available" in told["summary"]


def test_why_tells_the_error_that_a_failed_node_waits_with(api):
    uuid = api.node(provision_state="manageable")["uuid"]
    step = {"interface": "bios", "step": "nonsense"}
    body = {"target": "clean", "clean_steps": [step]}
    assert 202 == api("PUT", f"/v1/nodes/{uuid}/states/provision", body).status_code
    told = why(api, uuid)
    assert ("clean failed", "operator", "invalid_steps") == (
        told["provision_state"], told["waiting_for"], told["error"]["code"]
    )  # fmt: skip
    assert told["error"]["hint"]
    assert "maintenance" in told["summary"]


def test_why_of_nobody_is_404(api):
    answer = api("GET", "/v1/nodes/nobody/why")
    assert (404, "nobody" in fault(answer)["faultstring"]) == (answer.status_code, True)
