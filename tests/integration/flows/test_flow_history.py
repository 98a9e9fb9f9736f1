"""The history of flows: states, starts, ends, and its pruning."""

from uuid import uuid4

import pytest

from app.db.clock import after
from app.models import NodeHistory
from tests.integration.harness import requested
from workers.periodic import pruning

from .conftest import POLISH

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def test_transient_states_are_in_the_history(harness):
    node = harness.node("enroll")
    life = ["manage", "inspect", "provide", "active", "rescue", "unrescue", "deleted"]
    for verb in life:
        harness.do(node, verb, **({"rescue_password": "x"} if verb == "rescue" else {}))
    assert "available" == harness.state(node)
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node, event_type="transition")
        events = [entry.event for entry in entries.order_by(NodeHistory.id)]
    passed = [
        "verified", "inspected", "cleaned", "deployed", "rescued", "unrescued", "deleted",
        "cleaned",
    ]  # fmt: skip
    assert [f"The node was {participle}." for participle in passed] == events


def test_the_end_of_a_service_is_in_the_history(harness):
    node = harness.node("active")
    assert "active" == harness.do(node, "service", service_steps=[POLISH])
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node).order_by(NodeHistory.id).all()
    assert [
        ("servicing_start", "Servicing begins; steps: management.polish."),
        ("servicing_end", "Servicing is done; steps: management.polish."),
    ] == [(entry.event_type, entry.event) for entry in entries]


def test_the_start_and_end_of_flows_with_steps_are_in_the_history(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[POLISH])
    harness.do(
        node, "clean", clean_steps=[requested("management", "scrub", args={"level": "wrong"})]
    )
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node).order_by(NodeHistory.id).all()
    events = [(entry.event_type, entry.severity) for entry in entries]

    assert [
        ("manual_cleaning_start", "INFO"),
        ("transition", "INFO"),
        ("manual_cleaning_end", "INFO"),
        ("manual_cleaning_start", "INFO"),
        ("manual_cleaning_end", "ERROR"),
        ("cleaning", "ERROR"),
    ] == events
    assert ("cleaning", "manageable") == (entries[0].state, entries[0].target_provision_state)
    assert 0 <= entries[2].duration_seconds < 60
    assert "management.polish" in entries[0].event


def test_the_history_says_that_the_agents_steps_are_not_known_yet(harness):
    harness.offer("clean", ("deploy", "erase_devices", 10))
    node = harness.with_agent()
    assert "clean wait" == harness.do(node, "provide")
    harness.call(node)
    assert "available" == harness.finish(node)
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node)
        logged = {entry.event_type: entry.event for entry in entries}
    begun, ended = logged["automated_cleaning_start"], logged["automated_cleaning_end"]
    assert begun.endswith("log_passthrough. The agent has not reported its steps yet.")
    assert ended.endswith("is done; steps: deploy.erase_devices, vendor.log_passthrough.")


def test_old_history_entries_are_pruned_except_those_of_the_last_days(inside):
    inside.environ |= {
        "INGOT_CONDUCTOR_NODE_HISTORY_MAX_ENTRIES": "2",
        "INGOT_CONDUCTOR_NODE_HISTORY_CLEANUP_BATCH_COUNT": "1",
        "INGOT_CONDUCTOR_NODE_HISTORY_MINIMUM_DAYS": "3",
    }
    view = inside.another()
    node = view.node()
    with view.runtime.transaction() as session:
        for day in (5, 4, 2, 1, 0):
            entry = {"event_type": "x", "event": str(day), "created_at": after(-86400 * day - 60)}
            session.add(NodeHistory(uuid=str(uuid4()), node_id=node, severity="INFO", **entry))
    assert 2 == pruning.prune_history(view.runtime)
    assert 0 == pruning.prune_history(view.runtime)
    with view.runtime.reading() as session:
        rows = session.query(NodeHistory).filter_by(node_id=node).order_by(NodeHistory.id)
        assert ["2", "1", "0"] == [row.event for row in rows]
    view.close()
