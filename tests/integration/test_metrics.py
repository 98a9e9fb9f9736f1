"""Metrics of conductors and periodic tasks, and the counts of the fleet."""

import re

import pytest
from sqlalchemy import event

from app.broker.backlog import InRedis
from app.broker.queue import Queues
from app.db.clock import after
from app.models import Conductor, Operation, Rollout
from app.reports import fleet_counts
from app.rows import row_changes
from drivers.core.errors import HardwareError, NotSupported
from drivers.fake.hardware import FakePower
from tests.support.recorded import recording_into
from workers.conductor import attempts, claims, recording
from workers.periodic import power_sync, reconciler

from .reconciler.conftest import TRUSTED

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def samples(tmp_path):
    with recording_into(tmp_path / "metrics") as read:
        yield read


@pytest.fixture
def conductor(inside):
    return inside.conductor("c-1")


def run(inside, conductor):
    while inside.messages:
        attempts.run(conductor, inside.messages.pop(0))


@SQLITE
def test_operations_steps_and_claims_are_measured(inside, conductor, samples):
    node = inside.node("manageable")
    inside.request(node, "provide")
    run(inside, conductor)
    values = samples()
    assert 1 == values['ingot_operation_seconds_count{kind="provide",outcome="succeeded"}']
    names = {name for name in values if 'outcome="done"' in name and "_count{" in name}
    assert 'ingot_step_seconds_count{outcome="done",step="deploy.prepare_cleaning"}' in names
    assert values["ingot_claims_total"] == sum(values[name] for name in names)
    assert not [name for name in values if "failures" in name or "refusals" in name]


class OfADriver(HardwareError):
    """An error of a driver, with a code of its own."""

    code = "rack_on_fire"


@SQLITE
@pytest.mark.parametrize(("error", "code"), [(NotSupported, "not_supported"), (OfADriver, "other")])
def test_a_failed_operation_is_counted_by_its_code(
    inside, conductor, samples, monkeypatch, error, code
):
    def fail(*_):
        raise error("no")

    monkeypatch.setattr(FakePower, "get_power_state", fail)
    inside.request(inside.node("enroll"), "manage")
    run(inside, conductor)
    values = samples()
    assert 1 == values['ingot_operation_seconds_count{kind="manage",outcome="failed"}']
    assert 1 == values[f'ingot_operation_failures_total{{code="{code}",kind="manage"}}']
    assert 1 == values['ingot_step_seconds_count{outcome="failed",step="power.read"}']


@SQLITE
def test_a_step_that_no_driver_has_is_counted_as_other(inside, conductor, samples):
    inside.request(inside.node("manageable"), "provide")
    message = inside.messages.pop(0)
    with inside.runtime.transaction() as session:
        for step in inside.steps(message.operation):
            session.merge(step).name = f"of_the_agent_{step.position}"
    attempts.run(conductor, message)
    names = [name for name in samples() if name.startswith("ingot_step_seconds_count")]
    assert ['ingot_step_seconds_count{outcome="failed",step="other"}'] == names


@SQLITE
def test_refusals_are_counted_by_their_cause(inside, conductor, samples, monkeypatch):
    name = inside.request(inside.node("manageable"), "provide")
    message = inside.messages.pop(0)
    attempt = claims.claim(conductor, name, message.fence, message.cursor)
    attempts.run(conductor, message)
    assert 1 == samples()['ingot_refusals_total{cause="outdated"}']
    inside.change(Operation, name, fence=message.fence + 1)
    assert recording.record(conductor, attempt, attempts.Done()) is None
    assert 1 == samples()['ingot_refusals_total{cause="fence"}']
    monkeypatch.setattr(conductor.leases, "take", lambda *_: None)
    attempts.run(conductor, message)
    assert 1 == samples()['ingot_refusals_total{cause="lease"}']


@SQLITE
@pytest.mark.parametrize("cause", ["died", "deadline"])
def test_takeovers_are_counted_by_their_cause(inside, conductor, samples, cause):
    name = inside.request(inside.node("manageable"), "provide")
    message = inside.messages.pop(0)
    claims.claim(conductor, name, message.fence, message.cursor)
    inside.conductor("c-2")
    if cause == "died":
        inside.change(Conductor, "c-1", heartbeat_at=after(-3600))
    else:
        inside.change(Operation, name, deadline_at=after(-1))
    assert 1 == reconciler.reconcile(inside.runtime, TRUSTED)["taken_over"]
    assert 1 == samples()[f'ingot_takeovers_total{{cause="{cause}"}}']
    assert 1 == samples()['ingot_reconciled_total{action="taken_over"}']
    assert not samples().get('ingot_reconciled_total{action="resent"}')


@SQLITE
def test_power_syncs_are_measured_with_their_results(inside, conductor, samples, monkeypatch):
    monkeypatch.setattr(FakePower, "get_power_state", lambda *_: "power off")
    inside.node("available", power_state="power on")
    inside.node("available", power_state="power off")
    power_sync.sync(inside.runtime, "c-1")
    values = samples()
    assert 1 == values["ingot_power_sync_seconds_count"]
    assert 2 == values['ingot_power_sync_nodes_total{result="read"}']
    assert 1 == values['ingot_power_sync_nodes_total{result="differ"}']


def counted(inside):
    with inside.runtime.reading() as session:
        return {
            (gauge.name.removeprefix("ingot_"), *labels): value
            for gauge, labels, value in fleet_counts.in_database(session, 15.0, 34.0)
        }


def test_the_fleet_is_counted(inside, conductor):
    for columns in ({}, {"maintenance": True}, {"maintenance": True, "fault": "power failure"}):
        inside.node("available", **columns)
    waiting = inside.request(inside.node("manageable"), "provide")
    queued = inside.request(inside.node("manageable"), "provide")
    grouped = inside.request(inside.node("manageable"), "provide")
    inside.change(Operation, waiting, state="waiting", created_at=after(-50))
    inside.change(Operation, queued, sent_at=after(-3), first_sent_at=after(-30))
    for name, queue in ((queued, "clean"), (grouped, "clean/rack-7")):
        inside.change(Operation, name, queue=queue, admitted_at=None, created_at=after(-70))
    inside.change(Operation, queued, admitted_at=after(-5))
    inside.conductor("gone", heartbeat_at=after(-100))
    counts = counted(inside)
    assert (3, 1, 1) == (
        counts["nodes", "available"],
        counts["nodes_in_maintenance", "none"],
        counts["nodes_in_maintenance", "power failure"],
    )
    assert (1, 2) == (
        counts["active_operations", "provide", "agent"],
        counts["active_operations", "provide", "queued"],
    )
    assert 49 < counts["oldest_operation_seconds", "provide", "agent"] < 60
    assert 1 == counts["admission_queue", "clean"]
    assert 69 < counts["oldest_admission_seconds", "clean"] < 80
    assert 29 < counts["oldest_message_seconds", "c-1"] < 40
    assert (1, 1, 0) == (counts["conductors", "alive"], counts["conductors", "lost"],
                         counts["beat_leads",])  # fmt: skip


@SQLITE
def test_an_operation_that_waits_for_a_poll_does_not_wait_for_an_agent(inside, conductor):
    name = inside.request(inside.node("manageable"), "provide")
    inside.change(Operation, name, state="waiting", wake_at=after(9))
    assert 1 == counted(inside)["active_operations", "provide", "waiting"]


def test_queues_are_as_long_as_the_broker_says(redis_client):
    redis_client.rpush(Queues("ingot").steps("c-1"), b"1", b"2")
    lengths = fleet_counts.in_queues(InRedis(redis_client, "ingot"), ["c-1", "c-2"])
    assert [(("c-1",), 2), (("c-2",), 0)] == [(labels, value) for _, labels, value in lengths]


def test_rollouts_and_their_nodes_are_counted(inside):
    def rollout(state, **numbers):
        fields = {"target": "clean", "state": state, "waves": 1, "error_budget": 1, **numbers}
        with inside.runtime.transaction() as session:
            row_changes.add(session, row_changes.make(Rollout, fields))

    assert 0 == counted(inside)["rollout_nodes", "pending"]
    rollout("running", nodes=9, running=2, succeeded=3, failed=1)
    rollout("paused", nodes=5, failed=1)
    for _ in range(2):
        rollout("completed", nodes=4, succeeded=4)
    counts = counted(inside)
    assert (1, 1, 2) == tuple(
        counts["rollouts", state] for state in ("running", "paused", "completed")
    )
    assert (7, 2, 3, 2) == tuple(
        counts["rollout_nodes", state] for state in ("pending", "running", "succeeded", "failed")
    )


@SQLITE
def test_no_count_reads_the_rows_of_all_nodes_or_operations(inside):
    """Whole rows of 100,000 nodes are hundreds of megabytes."""
    plans = []

    def explain(connection, _cursor, statement, parameters, *_):
        if statement.startswith("SELECT") and connection.info.get("explains") is None:
            connection.info["explains"] = True
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[-1] for row in rows)
            del connection.info["explains"]

    event.listen(inside.runtime.engine, "before_cursor_execute", explain)
    counted(inside)
    scans = [plan for plan in plans if re.match("SCAN (nodes|operations)", plan)]
    assert "SCAN nodes USING COVERING INDEX ix_nodes_provision_state" in scans
    assert [] == [plan for plan in scans if "INDEX" not in plan]
