"""What a ramdisk agent gets to hear: lookup and heartbeat."""

import pytest
from flask import request_started

from app.db.clock import after
from app.models import AgentRecord, Node, Operation, OperationState, OperationStep, StepState
from tests.support.certificates import OTHER_PEM, PEM

from .conftest import fault

MAC = "52:54:00:00:00:01"


@pytest.fixture
def node(api):
    """A node that waits for its agent."""
    node = api.node(name="n1", provision_state="clean wait", target_provision_state="available")
    api("POST", "/v1/ports", {"node_uuid": node["uuid"], "address": MAC})
    return node


def look_up(api, query=f"addresses={MAC}"):
    return api.at("1.62")("GET", f"/v1/lookup?{query}")


def token_for(api, address, **headers):
    """What one at this address is told that the token is."""
    answer = api.at("1.62").client.get(
        f"/v1/lookup?addresses={MAC}",
        headers={"X-OpenStack-Ironic-API-Version": "1.62", **headers},
        environ_overrides={"REMOTE_ADDR": address},
    )
    return answer.json["config"]["agent_token"]


def beat(api, node, version="1.72", **sign):
    body = {"callback_url": "https://192.0.2.1:9999", "agent_version": "13.0.0", **sign}
    body = {key: value for key, value in body.items() if value is not None}
    return api.at(version)("POST", f"/v1/heartbeat/{node['uuid']}", body)


@pytest.fixture
def token(api, node):
    return look_up(api).json["config"]["agent_token"]


def test_the_token_is_given_to_one(api, node):
    first = look_up(api, f"addresses=junk,{MAC.upper()},52:54:00:00:00:99").json

    assert node["uuid"] == first["node"]["uuid"]
    assert len(first["config"]["agent_token"]) >= 32
    assert "******" == token_for(api, "192.0.2.7")
    assert {"uuid", "properties", "instance_info", "driver_internal_info", "links"} == (
        first["node"].keys()
    )
    assert 300 == first["config"]["heartbeat_timeout"]


def test_an_agent_that_has_lost_the_answer_gets_its_token_again_until_it_has_shown_it(
    api, node, token
):
    """The API died before its answer went out: the machine must not be locked out for that."""
    assert token == look_up(api).json["config"]["agent_token"]
    beat(api, node, agent_token=token)
    assert "******" == look_up(api).json["config"]["agent_token"]


@pytest.mark.parametrize(("ago", "again"), [(599, True), (601, False)])
def test_it_gets_it_again_for_as_long_as_agents_ask(api, node, token, ago, again):
    with api.runtime.transaction() as session:
        session.query(AgentRecord).one().given_at = after(-ago)

    assert again == (token == look_up(api).json["config"]["agent_token"])


def test_behind_a_proxy_who_asks_is_told_by_what_that_has_seen(api, node):
    """All come from the proxy's address; it adds theirs to what they say themselves."""
    proxy = "192.0.2.1"
    token = token_for(api, proxy, **{"X-Forwarded-For": "192.0.2.5"})

    assert token == token_for(api, proxy, **{"X-Forwarded-For": "192.0.2.5"})
    for other in ("192.0.2.7", "192.0.2.5, 192.0.2.7", f"{'1, ' * 40}192.0.2.5"):
        assert "******" == token_for(api, proxy, **{"X-Forwarded-For": other})
    assert "******" == token_for(api, "192.0.2.7", **{"X-Forwarded-For": f"192.0.2.5,{proxy}"})


def test_an_agent_that_could_not_ask_for_versions_gets_its_token_all_the_same(api, node):
    """It speaks 1.31, and sends what it was given as soon as it knows of a version that can."""
    answer = api.at("1.31")("GET", f"/v1/lookup?addresses={MAC}")

    assert 200 == answer.status_code
    token = answer.json["config"]["agent_token"]
    assert 202 == beat(api, node, "1.68", agent_token=token).status_code


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("addresses=junk", 400),
        ("node_uuid=junk", 400),
        ("addresses=52:54:00:00:00:99", 404),
        ("node_uuid=00000000-0000-4000-8000-000000000000", 404),
        (f"addresses={MAC},52:54:00:00:00:02", 404),  # of two nodes
    ],
)
def test_a_lookup_that_finds_nothing(api, node, query, status):
    other = api.node(provision_state="clean wait")
    api("POST", "/v1/ports", {"node_uuid": other["uuid"], "address": "52:54:00:00:00:02"})

    assert status == look_up(api, query).status_code


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        ({"provision_state": "active"}, 404),
        ({"provision_state": "available"}, 404),
        ({"provision_state": "available", "driver_info": {"fast_track": True}}, 200),
        ({"provision_state": "inspect wait"}, 200),
        ({"provision_state": "service wait"}, 200),
        ({"reservation": "rack-1"}, 409),
    ],
)
def test_the_state_decides_whether_a_machine_is_known(api, node, columns, status):
    api.set(node["uuid"], **columns)

    assert status == look_up(api).status_code


def test_a_heartbeat_is_recorded_and_shown(api, node, token):
    answer = beat(api, node, agent_token=token)

    assert (202, b"") == (answer.status_code, answer.data)
    info = api("GET", "/v1/nodes/n1").json["driver_internal_info"]
    assert ("https://192.0.2.1:9999", "13.0.0", "******") == (
        info["agent_url"],
        info["agent_version"],
        info["agent_secret_token"],
    )
    assert info["agent_last_heartbeat"]
    assert 202 == beat(api, {"uuid": "n1"}, agent_token=token).status_code
    with api.runtime.reading() as session:
        assert 2 == session.query(AgentRecord).one().heartbeats


@pytest.mark.parametrize(
    ("sign", "status", "says"),
    [
        ({"agent_token": None}, 400, "Agent token is required"),
        ({"agent_token": "wrong"}, 400, "Invalid or missing agent token"),
        ({"agent_version": None}, 400, "version is required"),
        ({"agent_version": None, "agent_status": "start"}, 202, ""),
        ({"agent_status": "bored"}, 400, "agent_status"),
        ({"callback_url": "ftp://x"}, 400, "callback_url"),
        ({"callback_url": "http://192.0.2.1:9999"}, 400, "TLS"),
        ({"callback_url": None}, 400, "callback_url"),
        ({"colour": "red"}, 400, "colour"),
        ({"version": "1.71", "agent_status": "start"}, 400, "agent_status"),
        ({"version": "1.67", "agent_verify_ca": PEM}, 400, "agent_verify_ca"),
        ({"version": "1.35"}, 400, "agent_version"),
        ({"version": "1.21"}, 404, ""),
    ],
)
def test_heartbeats_are_checked(api, node, token, sign, status, says):
    answer = beat(api, node, **{"agent_token": token, **sign})

    assert status == answer.status_code
    if status == 400:
        assert says in fault(answer)["faultstring"]


@pytest.mark.parametrize("claimed", ["/proc/self/fd/2", "False", "true", "/etc/hostname", "",
                                     PEM[:200], PEM.replace("MII", "XII"), f"{PEM}é"])  # fmt: skip
@pytest.mark.parametrize("debugging", [False, True])  # with it, no heartbeat is taken before Flask
def test_an_agent_announces_certificates_and_never_a_path_or_a_word(
    api, node, token, claimed, debugging, monkeypatch
):
    monkeypatch.setattr("app.log.debugging", lambda: debugging)
    for known in (False, True):
        if known:
            assert 202 == beat(api, node, agent_token=token, agent_verify_ca=PEM).status_code
        answer = beat(api, node, agent_token=token, agent_verify_ca=claimed)
        assert 400 == answer.status_code
        assert "agent_verify_ca" in fault(answer)["faultstring"]
    with api.runtime.reading() as session:
        assert PEM == session.query(AgentRecord).one().verify_ca


def test_an_agent_does_not_change_its_address_or_certificate(api, node, token):
    assert 202 == beat(api, node, agent_token=token, agent_verify_ca=PEM).status_code
    moved = {"agent_token": token, "callback_url": "https://192.0.2.2:9999"}

    assert 400 == beat(api, node, **moved).status_code
    assert 400 == beat(api, node, agent_token=token, agent_verify_ca=OTHER_PEM).status_code


def test_a_locked_node_that_knows_no_agent_yet_answers_later(api, node, token):
    api.set(node["uuid"], reservation="rack-1")
    assert 409 == beat(api, node, agent_token=token).status_code

    api.set(node["uuid"], reservation=None)
    beat(api, node, agent_token=token)
    api.set(node["uuid"], reservation="rack-1")
    assert 202 == beat(api, node, agent_token=token).status_code


def test_a_node_that_waits_for_nobody_ignores_heartbeats(api, node, token):
    api.set(node["uuid"], provision_state="active")

    assert 202 == beat(api, node, agent_token=token).status_code
    with api.runtime.reading() as session:
        assert 0 == session.query(AgentRecord).one().heartbeats


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_heartbeat_wakes_what_waits_for_it(api, node, token):
    with api.runtime.transaction() as session:
        row = session.query(Node).one()
        operation = Operation(uuid="op", node_id=row.id, kind="clean",
                              state=OperationState.WAITING, created_at=row.created_at)  # fmt: skip
        session.add(operation)
        session.flush()
        step = OperationStep(operation_id=operation.id, position=0, interface="deploy",
                             name="erase", flow="clean", source="agent", args={"password": "x"},
                             state=StepState.WAITING)  # fmt: skip
        session.add(step)
    shown = api("GET", "/v1/nodes/n1").json
    assert {"password": "******"} == shown["clean_step"]["args"]
    assert 0 == shown["driver_internal_info"]["clean_step_index"]
    assert ["erase"] == [each["step"] for each in shown["driver_internal_info"]["clean_steps"]]

    assert 202 == beat(api, node, agent_token=token).status_code

    assert [("rack-1", "op")] == [(each.conductor, each.operation) for each in api.sent]
    operation = api("GET", "/v1/operations/op").json
    assert "queued" == operation["state"]
    assert {"password": "******"} == operation["steps"][0]["args"]


def test_a_heartbeat_that_is_in_order_does_without_flask_and_gets_the_same_answer(api, node, token):
    routed = []

    def note(app, **_):
        routed.append(app)

    assert 202 == beat(api, node, agent_token=token).status_code  # now it is known where it is
    with request_started.connected_to(note, api.client.application):
        usual = beat(api, node, agent_token=token)
        assert [] == routed
        path, version = f"/v1/heartbeat/{node['uuid']}", "1.72"
        sign = {"callback_url": "https://192.0.2.1:9999", "agent_version": "13.0.0"}
        unusual = api.at(version)(
            "POST", path, sign | {"agent_token": token}, Authorization="Basic bTpt"
        )
        assert 1 == len(routed)
        assert 400 == beat(api, node, agent_token="wrong").status_code
        assert 2 == len(routed)

    assert (202, b"") == (usual.status_code, usual.data)
    assert (usual.status, usual.data) == (unusual.status, unusual.data)
    assert said(usual) == said(unusual)
    assert usual.headers["Openstack-Request-Id"].startswith("req-")
    with api.runtime.reading() as session:
        assert 3 == session.query(AgentRecord).one().heartbeats


def said(answer):
    """The headers of an answer, but for what names the request."""
    return {name: value for name, value in answer.headers.items() if "Request-Id" not in name}
