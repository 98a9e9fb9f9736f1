"""Lookup and heartbeat of ramdisk agents."""

import pytest
from flask import request_started

from app.db.clock import after
from app.models import AgentRecord, Node, Operation, OperationState, OperationStep, StepState
from tests.support.certificates import OTHER_PEM, PEM

from .conftest import fault

MAC = "52:54:00:00:00:01"
#: Address of the agent, without a proxy; and of the proxy in front, which the service trusts.
AGENT, PROXY = "192.0.2.5", "127.0.0.1"


@pytest.fixture
def node(api):
    """A node that waits for its agent."""
    node = api.node(name="n1", provision_state="clean wait", target_provision_state="available")
    api("POST", "/v1/ports", {"node_uuid": node["uuid"], "address": MAC})
    return node


def look_up(api, query=f"addresses={MAC}"):
    return api.at("1.62")("GET", f"/v1/lookup?{query}")


def token_for(api, address=AGENT, **headers):
    """Return the token in the answer to a lookup from this address."""
    answer = api.at("1.62").client.get(
        f"/v1/lookup?addresses={MAC}",
        headers={"X-OpenStack-Ironic-API-Version": "1.62", **headers},
        environ_overrides={"REMOTE_ADDR": address},
    )
    return answer.json["config"]["agent_token"]


def beat(api, node, version="1.72", **fields):
    body = {"callback_url": "https://192.0.2.1:9999", "agent_version": "13.0.0", **fields}
    body = {key: value for key, value in body.items() if value is not None}
    return api.at(version)("POST", f"/v1/heartbeat/{node['uuid']}", body)


@pytest.fixture
def token(api, node):
    return token_for(api)


def test_the_token_is_sent_to_one_agent(api, node):
    answer = look_up(api, f"addresses=junk,{MAC.upper()},52:54:00:00:00:99").json

    assert node["uuid"] == answer["node"]["uuid"]
    assert len(answer["config"]["agent_token"]) >= 32
    assert "******" == token_for(api, "192.0.2.7")
    assert {"uuid", "properties", "instance_info", "driver_internal_info", "links"} == (
        answer["node"].keys()
    )
    assert 300 == answer["config"]["heartbeat_timeout"]


def test_an_agent_that_lost_the_answer_gets_its_token_again_until_it_has_used_it(api, node, token):
    """A crash of the API before its answer must not lock the machine out."""
    assert token == token_for(api)
    beat(api, node, agent_token=token)
    assert "******" == token_for(api)


@pytest.mark.parametrize(("ago", "again"), [(599, True), (601, False)])
def test_the_token_is_repeated_for_a_limited_time(api, node, token, ago, again):
    with api.runtime.transaction() as session:
        session.query(AgentRecord).one().given_at = after(-ago)

    assert again == (token == token_for(api))


def test_behind_a_proxy_agents_are_distinguished_by_the_address_that_it_adds(api, node):
    """The proxy appends the agent's address to the header that the agent sent."""
    token = token_for(api, PROXY, **{"X-Forwarded-For": AGENT})

    assert token == token_for(api, PROXY, **{"X-Forwarded-For": f"192.0.2.9, {AGENT}"})
    for other in ("192.0.2.7", f"{AGENT}, 192.0.2.7", f"{AGENT}, unknown", "1, " * 40):
        assert "******" == token_for(api, PROXY, **{"X-Forwarded-For": other})
    assert "******" == token_for(api, "192.0.2.7", **{"X-Forwarded-For": f"{AGENT},{PROXY}"})


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        (PROXY, {}),  # it names no client
        ("192.0.2.1", {"X-Forwarded-For": AGENT}),  # it is not listed
        ("192.0.2.1", {"Via": "1.1 front"}),
    ],
)
def test_behind_a_proxy_that_does_not_tell_the_client_no_token_is_repeated(
    api, node, peer, headers
):
    assert "******" != token_for(api, peer, **headers)
    for forged in (headers, {"X-Forwarded-For": AGENT}, {"X-Forwarded-For": peer}):
        assert "******" == token_for(api, peer, **forged)


def test_a_lookup_shows_neither_the_image_nor_credentials_in_urls(api, node):
    api.set(
        node["uuid"],
        driver_internal_info={"image": {"urls": ["http://h/k?sig=SIGNED"]}, "a": 1},
        instance_info={"image_source": "http://h/k?sig=SIGNED"},
    )

    shown_node = look_up(api).json["node"]

    assert {"a": 1} == shown_node["driver_internal_info"]
    assert {"image_source": "http://h/k?sig=******"} == shown_node["instance_info"]


def test_an_agent_that_could_not_read_the_versions_gets_its_token(api, node):
    """It uses 1.31, and sends the token as soon as it has found a version that supports it."""
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
        (f"addresses={MAC},52:54:00:00:00:02", 404),  # addresses of two nodes
    ],
)
def test_a_lookup_without_a_matching_node_is_refused(api, node, query, status):
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
def test_the_state_decides_whether_a_lookup_finds_the_node(api, node, columns, status):
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
    ("fields", "status", "message"),
    [
        ({"agent_token": None}, 400, "Agent token is required"),
        ({"agent_token": "wrong"}, 400, "Invalid or missing agent token"),
        ({"agent_version": None}, 400, "version is required"),
        ({"agent_version": None, "agent_status": "start"}, 202, ""),
        ({"agent_status": "bored"}, 400, "agent_status"),
        ({"callback_url": "ftp://x"}, 400, "callback_url"),
        (
            {"callback_url": "https://169.254.169.254"},
            400,
            "callback_url: it leads to an address that [agent]denied_networks refuses",
        ),
        ({"callback_url": "https://192.0.2.1:9999/v1/nodes?x="}, 400, "must not have a query"),
        ({"callback_url": "https://192.0.2.1:9999/?"}, 400, "must not have a query"),
        ({"callback_url": "https://192.0.2.1:9999/v1/nodes#"}, 400, "must not have a fragment"),
        ({"callback_url": "https://u:p@192.0.2.1:9999"}, 400, "must not have a user"),
        ({"callback_url": "https://192.0.2.2:9999\\@192.0.2.1/"}, 400, "must not have a"),
        ({"callback_url": "https://192.0.2.1:9999/\r\nX: y"}, 400, "must not have a"),
        ({"callback_url": "https://:9999"}, 400, "must not have a wrong host"),
        ({"callback_url": "https://192.0.2.1:x"}, 400, "malformed host or port"),
        ({"callback_url": "http://192.0.2.1:9999"}, 400, "TLS"),
        ({"callback_url": None}, 400, "callback_url"),
        ({"colour": "red"}, 400, "colour"),
        ({"version": "1.71", "agent_status": "start"}, 400, "agent_status"),
        ({"version": "1.67", "agent_verify_ca": PEM}, 400, "agent_verify_ca"),
        ({"version": "1.35"}, 400, "agent_version"),
        ({"version": "1.21"}, 404, ""),
    ],
)
def test_heartbeats_are_checked(api, node, token, fields, status, message):
    answer = beat(api, node, **{"agent_token": token, **fields})

    assert status == answer.status_code
    if status == 400:
        assert message in fault(answer)["faultstring"]


@pytest.mark.parametrize("claimed", ["/proc/self/fd/2", "False", "true", "/etc/hostname", "",
                                     PEM[:200], PEM.replace("MII", "XII"), f"{PEM}é"])  # fmt: skip
@pytest.mark.parametrize("debugging", [False, True])  # in debug mode Flask handles all heartbeats
def test_an_agent_announces_certificates_and_never_a_path_or_a_boolean(
    api, node, token, claimed, debugging, monkeypatch
):
    monkeypatch.setattr("app.observe.log.debugging", lambda: debugging)
    for has_record in (False, True):
        if has_record:
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


def test_the_first_heartbeat_to_a_locked_node_is_a_conflict(api, node, token):
    api.set(node["uuid"], reservation="rack-1")
    assert 409 == beat(api, node, agent_token=token).status_code

    api.set(node["uuid"], reservation=None)
    beat(api, node, agent_token=token)
    api.set(node["uuid"], reservation="rack-1")
    assert 202 == beat(api, node, agent_token=token).status_code


def test_a_node_that_waits_for_no_agent_ignores_heartbeats(api, node, token):
    api.set(node["uuid"], provision_state="active")

    assert 202 == beat(api, node, agent_token=token).status_code
    with api.runtime.reading() as session:
        assert 0 == session.query(AgentRecord).one().heartbeats


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_heartbeat_resumes_the_operation_that_waits_for_it(api, node, token):
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
    answer = api("GET", "/v1/nodes/n1").json
    assert {"password": "******"} == answer["clean_step"]["args"]
    assert 0 == answer["driver_internal_info"]["clean_step_index"]
    assert ["erase"] == [
        clean_step["step"] for clean_step in answer["driver_internal_info"]["clean_steps"]
    ]

    assert 202 == beat(api, node, agent_token=token).status_code

    assert [("rack-1", "op")] == [
        (message.conductor, message.operation) for message in api.messages
    ]
    operation = api("GET", "/v1/operations/op").json
    assert "queued" == operation["state"]
    assert {"password": "******"} == operation["steps"][0]["args"]


def test_a_regular_heartbeat_bypasses_flask_and_gets_an_equal_answer(api, node, token):
    routed = []

    def note(app, **_):
        routed.append(app)

    assert 202 == beat(api, node, agent_token=token).status_code  # the agent's address is recorded
    with request_started.connected_to(note, api.client.application):
        usual = beat(api, node, agent_token=token)
        assert [] == routed
        path, version = f"/v1/heartbeat/{node['uuid']}", "1.72"
        fields = {"callback_url": "https://192.0.2.1:9999", "agent_version": "13.0.0"}
        unusual = api.at(version)(
            "POST", path, fields | {"agent_token": token}, Authorization="Basic bTpt"
        )
        assert 1 == len(routed)
        assert 400 == beat(api, node, agent_token="wrong").status_code
        assert 2 == len(routed)

    assert (202, b"") == (usual.status_code, usual.data)
    assert (usual.status, usual.data) == (unusual.status, unusual.data)
    assert headers_of(usual) == headers_of(unusual)
    assert usual.headers["Openstack-Request-Id"].startswith("req-")
    with api.runtime.reading() as session:
        assert 3 == session.query(AgentRecord).one().heartbeats


def headers_of(answer):
    """Return the headers of an answer without the request ID."""
    return {name: value for name, value in answer.headers.items() if "Request-Id" not in name}
