"""Explanations of node states: the last failure, missing conductors, the agent's activity."""

from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from app.broker import redis_broker, refused_lookups
from app.broker.refused_lookups import Refusals
from app.db.clock import after
from app.engine import operations
from app.engine import power as power_service
from app.identity.caller import Caller
from app.models import AgentRecord, Conductor, Node, NodeHistory, Operation, Port
from app.reports import why
from app.server.application import create_app
from drivers.core.errors import Unreachable
from drivers.fake.hardware import FakeConsole, FakePower
from tests.integration.harness import AcmeBoot, Harness, requested
from tests.support.redis import breakers
from tests.unit.drivers.machines import scripted_agent
from workers.conductor import claims
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

BURN = requested("deploy", "burn")
SILENT = "BMC did not answer"


@pytest.fixture
def harness(inside):
    return Harness(inside)


def explained(harness, node):
    with harness.inside.runtime.reading() as session:
        return why.explain(session, session.get_one(Node, node))


def fail_to_manage(harness, monkeypatch, node):
    def silent(*_):
        raise Unreachable(SILENT)

    with monkeypatch.context() as patch:
        patch.setattr(FakePower, "validate", silent)
        patch.setattr(FakePower, "get_power_state", silent)
        harness.do(node, "manage")
        for _ in range(5):
            if "enroll" == harness.state(node):
                return
            harness.poll(node)
    raise AssertionError("it succeeded")


def test_a_failed_verification_is_explained_until_the_next_operation_begins(harness, monkeypatch):
    node = harness.node("enroll", name="rack1-u04")
    fail_to_manage(harness, monkeypatch, node)
    answer = explained(harness, node)
    assert ("unreachable", None) == (answer.error["code"], answer.waiting_for)
    assert answer.summary.startswith(
        "Node rack1-u04 is enroll; nothing is under way. Its last operation, manage, failed:"
    )
    assert 1 == answer.summary.count(SILENT)
    assert harness.inside.read(node).uuid not in answer.summary
    with (
        harness.inside.runtime.transaction() as session
    ):  # it stays the last operation that changed the node's state
        row = operations.lock(session, node)
        power_service.request(session, row, "power on", None, Caller())
    harness.run()
    assert "unreachable" == explained(harness, node).error["code"]
    assert "manageable" == harness.do(node, "manage")
    assert (None, False) == (
        explained(harness, node).error, SILENT in explained(harness, node).summary
    )  # fmt: skip


def test_the_output_of_a_console_is_named_only_where_it_is_kept(harness, monkeypatch):
    node = harness.node("enroll", name="rack1-u05")
    fail_to_manage(harness, monkeypatch, node)
    phrase = "`ingot node console history"
    for enabled, is_kept in ((True, False), (False, True), (True, True)):
        monkeypatch.setattr(FakeConsole, "keeps_history", is_kept)
        harness.inside.change(Node, node, console_enabled=enabled)
        answer = explained(harness, node)
        assert (phrase in answer.summary) == (answer.console_history is not None)
        assert (answer.console_history is not None) == (enabled and is_kept)


def test_a_reason_that_is_also_that_of_the_maintenance_is_shown_once(harness):
    node = harness.node()
    harness.do(
        node, "clean", clean_steps=[requested("management", "scrub", args={"level": "wrong"})]
    )
    answer = explained(harness, node)
    assert 1 == answer.summary.count("level 'wrong' is none")
    assert "is none. Correct it and ask again. It is in maintenance because of that." in (
        answer.summary
    )
    harness.inside.change(Node, node, maintenance_reason="a new fan")
    assert "It is in maintenance: a new fan." in explained(harness, node).summary


def test_every_answer_reports_the_lack_of_a_live_conductor(harness):
    idle, busy = harness.node(), harness.node()
    harness.ask(busy, "clean", clean_steps=[requested("management", "polish")])
    operation = harness.last(busy)
    assert claims.claim(harness.conductor, operation.uuid, operation.fence, 0)
    assert "No conductor is alive" not in explained(harness, idle).summary
    harness.inside.change(Conductor, "c-1", heartbeat_at=after(-60))
    for node in (idle, busy):
        assert "No conductor is alive: all work stops until one is started." in (
            explained(harness, node).summary
        )
    assert "conductor c-1, which ran it, sends no heartbeats" in explained(harness, busy).summary
    harness.inside.conductor("c-2")
    answer = explained(harness, busy)
    assert "sends no heartbeats; another live conductor takes it over" in answer.summary
    assert "No conductor is alive" not in answer.summary


@pytest.fixture
def waiting(inside):
    """A harness with a node that waits for its agent."""
    inside.environ["INGOT_AGENT_REQUIRE_TLS"] = "false"
    view = inside.another()
    with scripted_agent() as agent:
        harness = Harness(view, agent)
        node = harness.with_agent("manageable", power_state="power on")
        assert "clean wait" == harness.do(node, "clean", clean_steps=[BURN])
        yield harness, node
    view.close()


def test_the_last_heartbeat_of_an_awaited_agent_is_shown(waiting):
    harness, node = waiting
    assert "No agent of this node has ever sent a heartbeat." in explained(harness, node).summary
    harness.inside.agent(node, heartbeats=0)
    harness.inside.change(Operation, harness.last(node).uuid, started_at=after(-60))
    assert "The agent's last heartbeat was at " in explained(harness, node).summary
    with harness.inside.runtime.transaction() as session:
        session.get_one(AgentRecord, node).last_heartbeat_at = after(-7200)
    assert "No agent heartbeat since " in explained(harness, node).summary
    assert "; the last one was at " in explained(harness, node).summary
    harness.inside.change(
        Node, node, driver_internal_info={"boot_warning": "the boot medium http://a is far away"}
    )
    harness.inside.change(Operation, harness.last(node).uuid, deadline_at=after(-1))
    reconciler.reconcile(harness.inside.runtime, Contact(timeout=0))
    harness.run()
    row = harness.inside.read(node)
    assert row.last_error.startswith("Timeout reached while waiting for the agent of node ")
    for part in (
        "; no agent heartbeat since ", "; the last known power state is power on",
        "; the boot medium http://a is far away",
    ):  # fmt: skip
        assert part in row.last_error


def test_a_boot_warning_is_in_the_history_and_is_cleared_by_the_next_boot(harness, monkeypatch):
    warnings = ["the boot medium http://a is far away", None]

    def prepare_ramdisk(_boot, target):
        target.report(boot_warning=warnings.pop(0))

    monkeypatch.setattr(AcmeBoot, "prepare_ramdisk", prepare_ramdisk)
    node = harness.with_agent("manageable")
    harness.do(node, "clean", clean_steps=[BURN])
    assert {"boot_warning": "the boot medium http://a is far away"} == (
        harness.inside.read(node).driver_internal_info
    )
    with harness.inside.runtime.reading() as session:
        rows = session.query(NodeHistory).filter_by(node_id=node, severity="WARNING").all()
    assert [("boot", "the boot medium http://a is far away")] == [
        (row.event_type, row.event) for row in rows
    ]
    harness.do(node, "abort")
    harness.do(node, "manage")
    harness.do(node, "clean", clean_steps=[BURN])
    assert {} == harness.inside.read(node).driver_internal_info


@contextmanager
def asking(harness, url):
    """Return the API of a harness, which records refused lookups in Redis."""
    with redis_broker.client(url, 2) as client:
        harness.inside.runtime.refusals = Refusals(client, "test", breakers(url).of_writes())
        yield create_app(harness.inside.runtime).test_client()


def get(api, path):
    return api.get(path, headers={"X-OpenStack-Ironic-API-Version": "1.115"})


def test_a_refused_lookup_is_logged_and_shown_at_nodes_that_wait_for_their_agent(
    waiting, redis_client, redis_url
):
    harness, node = waiting
    row = harness.inside.read(node)
    with asking(harness, redis_url) as api:
        with capture_logs() as logged:
            for _ in range(3):
                assert 404 == get(api, "/v1/lookup?addresses=52:54:00:AA:BB:CC").status_code
        (line,) = (entry for entry in logged if entry["event"] == "lookup.refused")
        assert ("warning", ["52:54:00:aa:bb:cc"], "no port has any of these addresses") == (
            line["log_level"], line["macs"], line["why"]
        )  # fmt: skip
        summary = get(api, f"/v1/nodes/{row.uuid}/why").json["summary"]
        assert 1 == summary.count("52:54:00:aa:bb:cc")
        assert "was refused: no port has any of these addresses." in summary
        assert 1 == redis_client.zcard("test:refused-lookups")


def test_a_refused_lookup_of_another_node_is_shown_only_there(waiting, redis_url):
    harness, node = waiting
    row, other = harness.inside.read(node), harness.node("active")
    with harness.inside.runtime.transaction() as session:
        session.add(Port(uuid="p" * 36, node_id=other, address="52:54:00:00:00:07"))
    with asking(harness, redis_url) as api:
        assert 404 == get(api, "/v1/lookup?addresses=52:54:00:00:00:07").status_code
        assert "52:54:00:00:00:07" not in get(api, f"/v1/nodes/{row.uuid}/why").json["summary"]
        (entry,) = harness.inside.runtime.refusals.since(row.created_at)
    assert (harness.inside.read(other).uuid, True) == (
        entry.node, entry.reason.endswith("is active, where no agent is expected")
    )  # fmt: skip


def test_many_refused_lookups_are_few_short_entries(harness, redis_client, redis_url, monkeypatch):
    monkeypatch.setattr(refused_lookups, "MOST", 10)
    with asking(harness, redis_url) as api:
        for number in range(30):
            macs = ",".join(f"52:54:00:00:{byte:02x}:{number:02x}" for byte in range(40))
            answer = api.get(
                f"/v1/lookup?addresses={macs}",
                headers={
                    "X-OpenStack-Ironic-API-Version": "1.115",
                    "X-Forwarded-For": "\x1b[31m<script>" * 100,
                },
            )
            assert 404 == answer.status_code
    entries = redis_client.zrange("test:refused-lookups", 0, -1)
    assert 10 == len(entries)
    assert max(map(len, entries)) < 400
    assert not any(b"script" in entry or b"\x1b" in entry for entry in entries)
    assert 0 < redis_client.ttl("test:refused-lookups") <= refused_lookups.LIFETIME


def look_up_from(api, address, mac, **headers):
    answer = api.get(
        f"/v1/lookup?addresses={mac}",
        headers={"X-OpenStack-Ironic-API-Version": "1.115", **headers},
        environ_overrides={"REMOTE_ADDR": address},
    )
    assert 404 == answer.status_code


def test_a_refused_lookup_shows_the_sender_that_the_service_trusts(waiting, redis_url):
    harness, node = waiting
    uuid = harness.inside.read(node).uuid
    with asking(harness, redis_url) as api:
        look_up_from(api, "198.51.100.7", "52:54:00:aa:bb:cc", **{"X-Forwarded-For": "192.0.2.1"})
        look_up_from(
            api, "127.0.0.1", "52:54:00:aa:bb:cd", **{"X-Forwarded-For": "192.0.2.2, 198.51.100.8"}
        )
        summary = get(api, f"/v1/nodes/{uuid}/why").json["summary"]
    assert "from 198.51.100.7, was refused" in summary
    assert "from 198.51.100.8, was refused" in summary
    assert "192.0.2." not in summary


def test_a_lookup_is_answered_while_redis_is_unreachable(harness, tmp_path):
    with asking(harness, f"redis+socket://{tmp_path}/nobody") as api:
        assert 404 == get(api, "/v1/lookup?addresses=52:54:00:00:00:07").status_code
        node = harness.node()
        harness.do(node, "clean", clean_steps=[requested("management", "none")])
        uuid = harness.inside.read(node).uuid
        assert 200 == get(api, f"/v1/nodes/{uuid}/why").status_code
