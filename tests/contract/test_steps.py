"""Steps of nodes, dry runs of verbs, and explanations of states (`why`)."""

from datetime import datetime

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
    return [(f"{step['interface']}.{step['step']}", step["priority"]) for step in answer.json]


def row_id(api, uuid):
    with api.runtime.reading() as session:
        return session.query(Node).filter_by(uuid=uuid).one().id


def test_all_clean_steps_are_listed_by_decreasing_priority(api):
    uuid = api.node()["uuid"]
    answer = api("GET", f"/v1/nodes/{uuid}/cleaning/steps")

    assert 200 == answer.status_code
    steps = {f"{step['interface']}.{step['step']}": step for step in answer.json}
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
    ("flow", "first_step"), [("deploy", ("deploy.deploy", 100)), ("service", ("vendor.", 0))]
)
def test_the_other_flows_have_their_own_lists(api, flow, first_step):
    uuid = api.node()["uuid"]
    label, priority = listed(api("GET", f"/v1/nodes/{uuid}/{flow}/steps"))[0]
    assert label.startswith(first_step[0])
    assert first_step[1] == priority


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
    (burn,) = [step for step in answer.json if step["step"] == "burnin_cpu"]
    assert [{"name": "seconds", "description": "how long", "required": True}] == burn["args"]


def test_steps_of_an_unknown_node_are_404(api):
    uuid = api.node()["uuid"]
    assert 404 == api("GET", "/v1/nodes/nobody/cleaning/steps").status_code
    assert 404 == api("GET", f"/v1/nodes/{uuid}/dancing/steps").status_code


def rehearse(api, uuid, verb, **body):
    path = f"/v1/nodes/{uuid}/states/provision?dry_run=true"
    answer = api("PUT", path, {"target": verb, **body})
    assert 200 == answer.status_code, answer.text
    assert [] == api.messages
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
    ] == [(step["step"], step["source"], step["priority"]) for step in answer["steps"]]  # fmt: skip
    assert "manageable" == api("GET", f"/v1/nodes/{uuid}").json["provision_state"]


def test_a_dry_run_shows_arguments_and_sources_of_requested_steps(api):
    uuid = api.node(provision_state="available")["uuid"]
    answer = rehearse(api, uuid, "active", deploy_steps=[
        {"interface": "power", "step": "reboot", "args": {}, "priority": 120},
    ])  # fmt: skip
    assert [("prepare", "frame"), ("reboot", "caller"), ("deploy", "driver")] == [
        (step["step"], step["source"]) for step in answer["steps"]
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


def reported(api, steps, time=datetime(2026, 1, 2, 3, 4, 5)):
    """Create a manageable node whose agent has reported its steps."""
    uuid = api.node(deploy_interface="direct", provision_state="manageable")["uuid"]
    with api.runtime.transaction() as session:
        session.add(AgentRecord(node_id=row_id(api, uuid), steps=steps, steps_refreshed_at=time))
    return uuid


def test_a_dry_run_tells_what_the_agent_would_do_by_its_last_report(api):
    uuid = reported(api, {"clean": [
        {"interface": "deploy", "step": "erase_devices_metadata", "priority": 99},
        {"interface": "deploy", "step": "erase_devices", "priority": 10},
        {"interface": "deploy", "step": "burnin_cpu", "priority": 0},
    ]})  # fmt: skip
    answer = rehearse(api, uuid, "provide")
    assert not [step for step in answer["steps"] if step["in_band"]]
    agent = answer["agent"]
    assert ("deploy.await_clean_agent", []) == (agent["after"], agent["problems"])
    assert agent["reported_at"].startswith("2026-01-02T03:04:05")
    assert ["erase_devices_metadata", "erase_devices", "log_passthrough"] == [
        step["step"] for step in agent["steps"] if step["source"] != "frame"
    ]
    assert agent["steps"][-1]["step"] == answer["steps"][-1]["step"]
    assert agent["summary"] == (
        "After that, the agent's own list decides; at its last report (2026-01-02T03:04:05Z), it"
        " runs in this clean: deploy.erase_devices_metadata (99), deploy.erase_devices (10)."
        " deploy.erase_devices_metadata erases disks: partition tables and file system signatures."
        " deploy.erase_devices erases disks: all data on all disks."
    )
    assert [sentence.partition(" ")[0] for sentence in answer["destroys"]] == [
        "deploy.erase_devices_metadata", "deploy.erase_devices",
    ]  # fmt: skip


def test_a_dry_run_tells_that_the_agent_has_never_reported(api):
    uuid = api.node(deploy_interface="direct", provision_state="manageable")["uuid"]
    agent = rehearse(api, uuid, "provide")["agent"]
    assert None is agent["reported_at"]
    assert agent["summary"] == (
        "The agent of this node has never reported its clean steps; its own list decides which of"
        " them run. The list of a usual agent erases disks."
    )


def test_a_dry_run_of_a_tear_down_tells_what_its_cleaning_erases(api):
    uuid = reported(api, {"clean": [
        {"interface": "deploy", "step": "erase_devices", "priority": 10},
    ]})  # fmt: skip
    api.set(uuid, provision_state="active")
    answer = rehearse(api, uuid, "deleted")
    assert ["deploy.erase_devices erases disks: all data on all disks"] == answer["destroys"]


def test_a_dry_run_of_a_deployment_tells_that_a_disk_is_overwritten(api):
    uuid = reported(api, {"deploy": [{"interface": "deploy", "step": "tune", "priority": 50}]})
    image = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}
    api.set(uuid, provision_state="available", instance_info=image)
    answer = rehearse(api, uuid, "active")
    assert ["deploy.write_image overwrites a disk with the image"] == answer["destroys"]
    assert "it runs in this deploy: deploy.tune (50)." in answer["agent"]["summary"]
    hold = {"interface": "power", "step": "power_off", "args": {}, "priority": 55}
    answer = rehearse(api, uuid, "active", deploy_steps=[hold])
    (problem,) = answer["agent"]["problems"]
    assert "deploy.tune (priority 50) needs the agent running" in problem
    assert f"It would fail then: {problem}" in answer["agent"]["summary"]


def test_a_dry_run_without_an_agent_tells_nothing_of_one(api):
    answer = rehearse(api, api.node(provision_state="manageable")["uuid"], "provide")
    assert (None, []) == (answer["agent"], answer["destroys"])


def why(api, uuid):
    answer = api("GET", f"/v1/nodes/{uuid}/why")
    assert 200 == answer.status_code, answer.text
    return answer.json


@pytest.mark.parametrize(
    ("columns", "accepted", "refused", "reason"),
    [
        ({"provision_state": "available", "maintenance": True}, {"manage"}, "active", "maintenance"),
        ({"provision_state": "available", "retired": True}, {"manage"}, "active", "is retired"),
        ({"provision_state": "active", "protected": True}, {"rescue", "service"}, "rebuild", "protected"),
        ({"provision_state": "service failed", "maintenance": True}, {"deleted"}, "abort", "in maintenance"),
    ],
)  # fmt: skip
def test_why_offers_no_verb_that_the_node_refuses(api, columns, accepted, refused, reason):
    uuid = api.node(**columns)["uuid"]
    answer = why(api, uuid)
    assert accepted <= set(answer["verbs"])
    assert refused not in answer["verbs"]
    assert reason in answer["refused_verbs"][refused]
    (act,) = rehearse(api, uuid, refused)["refused"]
    assert act["reason"] == answer["refused_verbs"][refused]


def test_why_offers_no_verb_that_a_hold_refuses(api):
    uuid = api.node(provision_state="available")["uuid"]
    hold = {"node_uuid": uuid, "kind": "scheduling", "reason": "a new fan"}
    assert 201 == api("POST", "/v1/holds", hold).status_code
    answer = why(api, uuid)
    assert (["manage"], "manage, on request") == (answer["verbs"], answer["next"])
    assert "a new fan" in answer["refused_verbs"]["active"]


def test_why_offers_clean_after_a_failed_clean_and_manage(api):
    failed = {"maintenance": True, "fault": "clean failure", "provision_state": "manageable"}
    uuid = api.node(**failed)["uuid"]
    assert {"clean", "provide"} <= set(why(api, uuid)["verbs"])
    steps = [{"interface": "vendor", "step": "log_passthrough"}]
    answer = api(
        "PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "clean", "clean_steps": steps}
    )
    assert 202 == answer.status_code
    for columns in ({"fault": None}, {"fault": "power failure"}):
        api.set(uuid, provision_state="manageable", reservation=None, **columns)
        assert "clean" not in why(api, uuid)["verbs"]
    api.set(uuid, provision_state="active", fault="clean failure")  # adopted
    assert "rebuild" not in why(api, uuid)["verbs"]


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
        for record, values in ((operation, columns), (row, step)):
            for name, value in values.items():
                setattr(record, name, value)
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
    shown_node = api("GET", f"/v1/nodes/{uuid}").json
    (listed,) = api("GET", "/v1/nodes/detail").json["nodes"]
    for document in (shown_node, listed):
        internal = document["driver_internal_info"]
        assert "second" == document[f"{flow}_step"]["step"]
        assert ["first", "second"] == [step["step"] for step in internal[f"{flow}_steps"]]
        assert 1 == internal[f"{flow}_step_index"]
    with api.runtime.transaction() as session:
        session.query(Operation).one().state = "succeeded"
    final_node = api("GET", f"/v1/nodes/{uuid}").json
    assert ({}, {}) == (final_node[f"{flow}_step"], final_node["driver_internal_info"])
