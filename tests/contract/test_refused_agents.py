# ruff: noqa: F811 - the fixtures of another module
"""Agents that are refused are seen: in the log, a metric, the node's history, and why it waits."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from app.agents import heartbeats
from app.agents.heartbeats import AgentHeartbeat
from app.api.agent import heartbeat_fast_path as fast_path
from app.db.clock import utcnow
from app.engine.records import agent_refusals
from app.metrics.table import AGENT_REFUSALS, HEARTBEAT_DEFECTS
from app.models import (
    AgentRecord,
    Node,
    NodeHistory,
    Operation,
    OperationState,
    OperationStep,
    StepState,
)
from app.observe import log
from tests.support.certificates import OTHER_PEM, PEM

from .conftest import fault
from .test_agents import AGENT, MAC, beat, look_up, node, token  # noqa: F401

GOOD = {"callback_url": "https://192.0.2.1:9999", "agent_version": "13.0.0"}
CASES = [
    ("token", {"agent_token": "wrong"}, "Invalid or missing agent token"),
    ("token", {"agent_token": None}, "Agent token is required"),
    ("version", {"agent_version": None}, "a version is required"),
    ("tls", {"callback_url": "http://192.0.2.1:9999"}, "TLS is required"),
    ("address", {"callback_url": "ftp://192.0.2.1"}, "callback_url"),
    ("address", {"callback_url": "https://169.254.169.254"}, "[agent]denied_networks"),
    ("malformed", {"agent_status": "bored"}, "agent_status"),
    ("malformed", {"agent_verify_ca": "/etc/hostname"}, "agent_verify_ca"),
    ("malformed", {"colour": "red"}, "colour"),
    ("malformed", {"version": "1.35"}, "agent_version"),
]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Limits that nothing has used yet."""
    monkeypatch.setattr(agent_refusals, "_RECORDS", agent_refusals.RateLimit(6, clock=lambda: 0.0))
    monkeypatch.setattr(agent_refusals, "seldom", log.RateLimited(log.get(agent_refusals.__name__)))


@pytest.fixture
def waits(api, node):
    """The node's operation, which waits for the agent."""
    with api.runtime.transaction() as session:
        row = session.query(Node).filter_by(uuid=node["uuid"]).one()
        operation = Operation(
            uuid="6f1a2f2e-0f4b-4a40-8b9d-0a7f5b0f2a01", node_id=row.id, kind="provide",
            state=OperationState.WAITING, cursor=0, fence=1, created_at=utcnow(),
        )  # fmt: skip
        session.add(operation)
        session.flush()
        session.add(OperationStep(
            operation_id=operation.id, position=0, interface="deploy", name="await_clean_agent",
            source="driver", state=StepState.WAITING, collects=True,
        ))  # fmt: skip
    return operation


@pytest.fixture
def counted(monkeypatch):
    """Refusals that were counted, by request and cause."""
    counts = Counter()
    add = lambda _self, *labels: counts.update([labels])  # noqa: E731
    monkeypatch.setattr(type(AGENT_REFUSALS), "add", add)
    return counts


def entries(api):
    with api.runtime.reading() as session:
        rows = session.query(NodeHistory).filter(NodeHistory.event_type.in_(agent_refusals.EVENTS))
        return [(row.event_type, row.event) for row in rows.order_by(NodeHistory.id)]


def senders(api):
    with api.runtime.reading() as session:
        return list(session.scalars(select(NodeHistory.sender).order_by(NodeHistory.id)))


def why(api):
    return api("GET", "/v1/nodes/n1/why").json["summary"]


@pytest.mark.parametrize(("cause", "fields", "words"), CASES)
def test_a_refused_heartbeat_is_explained_with_its_remedy(
    api, node, token, waits, cause, fields, words, counted
):
    with capture_logs() as lines:
        answer = beat(api, node, **{"agent_token": token, **fields})
    assert 400 == answer.status_code
    assert words in fault(answer)["faultstring"]
    remedy = agent_refusals.REMEDIES[cause]
    [line] = [line for line in lines if line["event"] == "heartbeat.refused"]
    assert (node["uuid"], remedy) == (line["node"], line["remedy"])
    assert words in line["why"]
    [(event_type, event)] = entries(api)
    assert f"heartbeat_refused_{cause}" == event_type
    assert words in event
    assert event.endswith(remedy)
    explained = why(api)
    assert words in explained
    assert remedy in explained
    assert "No heartbeat of an agent of this node has been accepted." in explained
    assert 1 == counted["heartbeat", cause]


def test_a_changed_address_and_certificate_are_explained(api, node, token, waits):
    assert 202 == beat(api, node, agent_token=token, agent_verify_ca=PEM).status_code
    beat(api, node, agent_token=token, callback_url="https://192.0.2.2:9999")
    beat(api, node, agent_token=token, agent_verify_ca=OTHER_PEM)
    assert ["heartbeat_refused_address", "heartbeat_refused_certificate"] == [
        event_type for event_type, _ in entries(api)
    ]
    assert "Detected change in ramdisk provided certificate" in entries(api)[-1][1]


def test_a_flood_of_refused_heartbeats_writes_one_entry(
    api, node, token, waits, monkeypatch, counted
):
    opened = []
    record = agent_refusals._record
    monkeypatch.setattr(
        agent_refusals, "_record", lambda *facts: opened.append(1) or record(*facts)
    )
    with capture_logs() as lines:
        for number in range(200):
            url = f"https://192.0.2.1:{9000 + number}"
            assert 400 == beat(api, node, agent_token="x", callback_url=url).status_code
    assert 200 == counted["heartbeat", "token"]
    assert 1 == len(entries(api))
    assert len(opened) <= 6
    assert 1 == len([line for line in lines if line["event"] == "heartbeat.refused"])


def beat_from(api, node, address, **headers):
    """Send a heartbeat with a wrong token from an address."""
    answer = api.at("1.72").client.post(
        f"/v1/heartbeat/{node['uuid']}",
        json={**GOOD, "agent_token": "x"},
        headers={"X-OpenStack-Ironic-API-Version": "1.72", **headers},
        environ_overrides={"REMOTE_ADDR": address},
    )
    assert 400 == answer.status_code


def test_a_stranger_does_not_hide_the_refusals_of_the_agent(api, node, token, waits):
    """The token was given to `AGENT`; each sender has limits of its own."""
    for _ in range(50):
        beat_from(api, node, "198.51.100.7")
    assert 1 == len(entries(api))
    beat_from(api, node, AGENT)
    beat_from(api, node, AGENT)
    assert ["198.51.100.7", AGENT] == senders(api)
    assert f"from {AGENT} was refused" in why(api)


def test_many_strangers_get_few_entries_and_do_not_hide_the_agent(api, node, token, waits):
    for number in range(30):
        beat_from(api, node, f"198.51.100.{number}")
    assert agent_refusals.MOST_SENDERS + 1 == len(entries(api))
    assert entries(api)[-1][1].startswith(
        "after those of other addresses, a heartbeat of its agent"
    )
    assert "from 198.51.100.3 was refused" in entries(api)[-1][1]
    beat_from(api, node, AGENT)
    for number in range(30, 60):
        beat_from(api, node, f"198.51.100.{number}")
    assert agent_refusals.MOST_SENDERS + 2 == len(entries(api))
    assert f"from {AGENT} was refused" in why(api)


def test_an_entry_of_an_earlier_release_has_no_sender_and_hides_no_later_one(
    api, node, token, waits
):
    beat_from(api, node, "198.51.100.7")
    with api.runtime.transaction() as session:
        session.execute(update(NodeHistory).values(sender=None))
    for address in ("192.0.2.50", AGENT):
        beat_from(api, node, address)
    assert [None, "192.0.2.50", AGENT] == senders(api)
    for address in ("198.51.100.7", "192.0.2.50", AGENT):
        assert f"from {address} was refused" in why(api)


def test_a_further_sender_that_gets_the_token_is_explained_first(api, node, token, waits):
    for number in range(6):
        beat_from(api, node, f"198.51.100.{number}")
    with api.runtime.transaction() as session:
        session.execute(update(AgentRecord).values(given_to="198.51.100.3"))
    beat_from(api, node, "198.51.100.3")
    assert [f"198.51.100.{number}" for number in range(4)] == senders(api)
    assert why(api).index("from 198.51.100.3 was") < why(api).index("from 198.51.100.2 was")


def test_the_refusal_of_the_agent_is_explained_before_later_ones_of_strangers(
    api, node, token, waits
):
    beat_from(api, node, AGENT)
    for number in range(5):
        beat_from(api, node, f"198.51.100.{number}")
    assert f"from {AGENT} was refused" in why(api)


def test_many_refusals_of_one_stranger_do_not_push_those_of_another_sender_out(
    api, node, token, waits
):
    """As of an agent that the service does not know yet."""
    beat_from(api, node, "192.0.2.50")
    strange = {"environ_overrides": {"REMOTE_ADDR": "198.51.100.7"}}
    headers = {"X-OpenStack-Ironic-API-Version": "1.72"}
    for fields in [fields for cause, fields, _ in CASES if cause != "malformed"]:
        body = {**GOOD, "agent_token": token, **fields}
        body = {name: value for name, value in body.items() if value is not None}
        path = f"/v1/heartbeat/{node['uuid']}"
        api.client.post(path, json=body, headers=headers, **strange)
    assert len(entries(api)) > agent_refusals.MOST + 1
    assert "from 192.0.2.50 was refused" in why(api)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-Ip", "Forwarded"])
def test_the_sender_is_not_what_an_untrusted_peer_says(api, node, token, waits, header):
    beat_from(api, node, "198.51.100.7", **{header: AGENT})
    [(_, event)] = entries(api)
    assert "from 198.51.100.7 was refused" in event
    assert AGENT not in event
    assert AGENT not in why(api)


def test_the_sender_is_the_address_that_a_trusted_proxy_has_added(api, node, token, waits):
    beat_from(api, node, "127.0.0.1", **{"X-Forwarded-For": f"{AGENT}, 198.51.100.7"})
    [(_, event)] = entries(api)
    assert "from 198.51.100.7 was refused" in event
    assert AGENT not in event


def test_each_operation_gets_an_entry_of_its_own(api, node, token, waits, monkeypatch):
    beat(api, node, agent_token="x")
    with api.runtime.transaction() as session:
        row = session.query(Operation).one()
        row.created_at = utcnow()
        session.query(NodeHistory).update(
            {NodeHistory.created_at: row.created_at.replace(year=2020)}
        )
    assert "Invalid or missing agent token" not in why(api)
    beat(api, node, agent_token="x")
    assert 2 == len(entries(api))
    assert "Invalid or missing agent token" in why(api)


@pytest.mark.parametrize("state", ["active", "available", "enroll", "clean failed"])
def test_no_entry_is_written_for_a_node_that_waits_for_no_agent(api, node, token, state, counted):
    api.set(node["uuid"], provision_state=state, target_provision_state=None)
    assert 400 == beat(api, node, agent_token="x").status_code
    assert [] == entries(api)
    assert 1 == counted["heartbeat", "token"]


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({"agent_version": None}, {}),
        ({"agent_token": None}, {}),
        ({}, {"denied_networks": ("192.0.2.0/24",)}),
        ({}, {"allowed_networks": ("10.0.0.0/8",)}),
    ],
)
def test_repeated_heartbeats_are_accepted_by_the_rule_of_the_first(
    api, node, token, fields, settings
):
    assert 202 == beat(api, node, agent_token=token).status_code
    body = {**GOOD, "agent_token": token}
    agent_heartbeats = [
        AgentHeartbeat(node["uuid"], body),
        AgentHeartbeat(node["uuid"], {**body, **fields}),
    ]
    recorded, _ = heartbeats.record_batch(api.runtime, agent_heartbeats)
    assert recorded is not None
    agent = replace(api.runtime.settings.agent, **settings)
    changed = replace(api.runtime.settings, agent=agent)
    runtime = SimpleNamespace(settings=changed, write_connection=api.runtime.write_connection)
    assert heartbeats.record_batch(runtime, agent_heartbeats[1:]) == [None]


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({}, {}),
        *((fields, {}) for _, fields, _ in CASES),
        ({}, {"denied_networks": ("192.0.2.0/24",)}),
        ({}, {"allowed_networks": ("10.0.0.0/8",)}),
    ],
)
def test_the_fast_path_and_the_route_give_the_same_answer(
    api, node, token, monkeypatch, fields, settings
):
    assert 202 == beat(api, node, agent_token=token).status_code  # the fast path knows the agent
    agent = replace(api.runtime.settings.agent, **settings)
    monkeypatch.setattr(api.runtime, "settings", replace(api.runtime.settings, agent=agent))
    version, body = fields.get("version", "1.72"), {**GOOD, "agent_token": token, **fields}
    body = {name: value for name, value in body.items() if name != "version" and value is not None}
    path = f"/v1/heartbeat/{node['uuid']}"

    fast = api.at(version)("POST", path, body)
    routed = api.at(version)("POST", path, body, Authorization="Basic bTpt")

    assert (202 if not fields and not settings else 400) == routed.status_code
    assert (fast.status_code, fast.data) == (routed.status_code, routed.data)


def test_an_accepted_heartbeat_and_a_locked_node_are_no_refusals(api, node, token, waits):
    api.set(node["uuid"], reservation="rack-1")
    assert 409 == beat(api, node, agent_token=token).status_code
    api.set(node["uuid"], reservation=None)
    assert 202 == beat(api, node, agent_token=token).status_code
    assert [] == entries(api)


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        ("addresses=52:54:00:00:00:99", "node"),
        ("node_uuid=6f1a2f2e-0f4b-4a40-8b9d-0a7f5b0f2a09", "node"),
        ("addresses=junk", "malformed"),
    ],
)
def test_refused_lookups_are_counted(api, node, query, cause, counted):
    assert look_up(api, query).status_code in (400, 404)
    assert 1 == counted["lookup", cause]


def test_an_agent_whose_repeated_lookup_gets_no_token_is_explained(
    api, node, token, waits, counted
):
    query = f"/v1/lookup?node_uuid={node['uuid']}"
    answer = api("GET", query, **{"X-Forwarded-For": "192.0.2.77"})
    assert "******" == answer.json["config"]["agent_token"]
    assert 1 == counted["lookup", "repeated"]
    assert "its token was given to an earlier lookup" in why(api)
    assert "[api]trusted_proxies" in why(api)


def test_a_lookup_of_a_node_that_waits_for_no_agent_is_counted(api, node, counted):
    api.set(node["uuid"], provision_state="active")
    assert 404 == look_up(api).status_code
    assert 1 == counted["lookup", "state"]


@pytest.mark.parametrize(
    ("interfaces", "cause"),
    [([{"mac_address": MAC, "name": "eth0"}], "node"), ("many", "malformed")],
)
def test_refused_reports_are_counted(api, node, interfaces, cause, counted):
    inventory = {"interfaces": interfaces, "bmc_address": "192.0.2.8"}
    answer = api("POST", "/v1/continue_inspection", {"inventory": inventory})
    assert answer.status_code in (400, 404)
    assert 1 == counted["report", cause]


@pytest.mark.parametrize("name", ["\x1b[2J", "a" * 5000])
def test_the_text_of_an_agent_is_limited_and_has_no_control_characters(
    api,
    node,
    token,
    waits,
    name,
):
    beat(api, node, agent_token=token, **{name: "x"})
    [(_, event)] = entries(api)
    assert event.isprintable()
    assert len(event) < 800


@pytest.fixture
def defects(monkeypatch):
    """Defects of the fast path that were counted."""
    counts = []

    def add(metric, *_labels):
        if metric is HEARTBEAT_DEFECTS:
            counts.append(1)

    monkeypatch.setattr(type(HEARTBEAT_DEFECTS), "add", add)
    monkeypatch.setattr(fast_path, "seldom", log.RateLimited(log.get("test")))
    return counts


@pytest.mark.parametrize("part", ["check", "record_batch", "resume_waiting"])
def test_a_defect_of_the_fast_path_is_logged_and_counted_and_costs_no_heartbeat(
    api, node, token, defects, monkeypatch, part
):
    assert 202 == beat(api, node, agent_token=token).status_code  # the first one is the route's
    assert [] == defects

    def broken(*_args):
        raise KeyError("a defect")

    module = fast_path if part == "check" else fast_path.heartbeats
    real = getattr(module, part)
    # the route calls it, too, by another name or after the fast path
    calls = iter([broken])
    monkeypatch.setattr(module, part, lambda *args: next(calls, real)(*args))  # noqa: PLW0108
    earlier_count = heartbeats_of(api)
    with capture_logs() as lines:
        assert 202 == beat(api, node, agent_token=token).status_code
    assert heartbeats_of(api) > earlier_count
    assert [1] == defects
    assert ["heartbeat.defect"] == [line["event"] for line in lines if line.get("exc_info")]


def test_heartbeats_that_are_wrong_or_meet_no_database_are_no_defects(
    api, node, token, defects, monkeypatch
):
    beat(api, node, agent_token=token)
    for fields in (
        {"agent_status": "bored"},
        {"colour": "red"},
        {"agent_token": "wrong"},
        {"version": "1.35"},
    ):
        assert 400 == beat(api, node, **{"agent_token": token, **fields}).status_code

    def unreachable(*_args):
        raise OperationalError("UPDATE", {}, Exception("gone"))

    monkeypatch.setattr(fast_path.heartbeats, "record_batch", unreachable)
    assert 202 == beat(api, node, agent_token=token).status_code
    assert [] == defects


def heartbeats_of(api):
    with api.runtime.reading() as session:
        return session.query(AgentRecord).one().heartbeats


UNROUTED = [
    ("heartbeat", "POST", "/v1/heartbeat/{node}", "9.1", 406),
    ("heartbeat", "POST", "/v1/heartbeat/{node}", "1.5", 404),
    ("heartbeat", "GET", "/v1/heartbeat/{node}", "1.115", 405),
    ("heartbeat", "POST", "/v1/heartbeat/{node}?a=1&a=2", "1.115", 400),
    ("lookup", "GET", "/v1/lookup?addresses=x", "junk", 406),
    ("report", "POST", "/v1/continue_inspection", "9.9", 406),
]


@pytest.mark.parametrize(("request_", "method", "path", "version", "status"), UNROUTED)
def test_requests_that_no_route_gets_are_noted_too(
    api, node, waits, counted, request_, method, path, version, status
):
    with capture_logs() as lines:
        body = {} if method == "POST" else None
        answer = api.at(version)(method, path.format(node=node["uuid"]), body)
    assert status == answer.status_code
    assert 1 == counted[request_, "malformed"]
    event = "inspection.report_refused" if request_ == "report" else f"{request_}.refused"
    [line] = [line for line in lines if line["event"] == event]
    assert f"{status} " in line["why"]
    if request_ == "heartbeat":
        assert node["uuid"] == line["node"]
        assert f"{status} " in why(api)


def test_a_refusal_is_noted_once(api, node, token, waits, counted):
    beat(api, node, agent_token="wrong")
    assert {("heartbeat", "token"): 1} == counted


@pytest.mark.parametrize(
    "path", ["/v1/heartbeat/n$", "/v1/heartbeat/%00", "/v1/heartbeat/" + "a" * 3000]
)
def test_a_path_that_names_no_node_is_counted(api, path, counted):
    assert api("POST", path, GOOD).status_code in (400, 404)
    assert 1 == sum(counted.values())
