"""Claims: conditions under which a step is claimed, and its outcome recorded."""

import time
import uuid

import pytest
from sqlalchemy import delete, update
from structlog.testing import capture_logs

from app.db.clock import now
from app.engine import operations
from app.models import Node, NodeHistory, Operation, OperationStep, Port
from app.process import release
from drivers.core.steps import Done, Failed
from workers.conductor import claims, recording
from workers.conductor.conductor import StaleWatermark


@pytest.fixture
def queued(inside):
    """UUID of a queued operation of three steps; `inside.claimant` may claim its first one."""
    inside.claimant = inside.conductor("c-1")
    inside.node_id = inside.node("manageable")
    return inside.request(inside.node_id, "provide")


@pytest.fixture
def attempt(inside, queued):
    return claims.claim(inside.claimant, queued, 1, 0)


def cursor(inside, name):
    operation = inside.operation(name)
    return operation.cursor, operation.state


def holds(inside, attempt):
    with inside.claimant.transaction() as session:
        operation = session.get_one(Operation, attempt.operation.id)
        return claims.holds(session, operation, attempt)


@pytest.mark.parametrize(
    "changed",
    [
        {"cursor": 1},
        {"fence": 2},
        {"claimed": 0},
        {"state": "waiting"},
        {"version": release.UNDERSTOOD + 1},
        {"queue": "clean", "admitted_at": None},
    ],
)
def test_a_step_is_claimed_only_as_its_message_describes_it(inside, queued, changed):
    inside.change(Operation, queued, **changed)
    assert claims.claim(inside.claimant, queued, 1, 0) is None
    assert [0] * 3 == [step.attempts for step in inside.steps(queued)]
    assert inside.operation(queued).claimed_by is None


def test_a_claim_marks_operation_and_step(inside, queued):
    inside.agent(inside.node_id, heartbeats=7)
    with inside.runtime.transaction() as session:
        session.add(
            Port(uuid=str(uuid.uuid4()), node_id=inside.node_id, address="52:54:00:00:00:01")
        )
    inside.change(Operation, queued, queue="clean", admitted_at=now())
    attempt = claims.claim(inside.claimant, queued, 1, 0)
    operation, (step, *_) = inside.operation(queued), inside.steps(queued)
    assert ("running", inside.claimant.incarnation, 0, 7) == (
        operation.state, operation.claimed_by, operation.claimed, operation.heartbeats
    )  # fmt: skip
    limit = inside.settings.conductor.step_timeout
    assert limit == pytest.approx(
        (operation.deadline_at - operation.started_at).total_seconds(), abs=1
    )
    assert ("running", "c-1", 1) == (step.state, step.conductor, step.attempts)
    assert (queued, inside.node_id, step.id) == (
        attempt.operation.uuid, attempt.node.id, attempt.step.id
    )  # fmt: skip
    assert ["52:54:00:00:00:01"] == [port.address for port in attempt.ports]
    assert (True, False, 7) == (attempt.has_next, attempt.resumed, attempt.agent.heartbeats)
    assert claims.claim(inside.claimant, queued, 1, 0) is None


def test_the_last_step_and_a_step_after_a_crash_are_recognized(inside, queued):
    inside.change(Operation, queued, cursor=2)
    inside.change_step(queued, 2, deaths=1)
    attempt = claims.claim(inside.claimant, queued, 1, 2)
    assert (False, True, None) == (attempt.has_next, attempt.resumed, attempt.agent)


def test_an_outcome_is_recorded_once(inside, queued, attempt):
    assert holds(inside, attempt)
    assert not claims.is_recorded(inside.operation(queued), attempt)
    assert claims.advance(inside.claimant, attempt, {"found": 1})
    assert (1, "queued") == cursor(inside, queued)
    step = inside.steps(queued)[0]
    assert ("done", {}, {"found": 1}) == (step.state, step.progress, step.result)
    assert claims.is_recorded(inside.operation(queued), attempt)
    assert not holds(inside, attempt)
    assert not claims.advance(inside.claimant, attempt, {})


@pytest.mark.parametrize(
    "changed", [{"fence": 2}, {"claim": "another"}, {"state": "waiting"}, {"mark": 1}]
)
def test_an_outcome_is_recorded_only_while_the_claim_holds(inside, queued, attempt, changed):
    if "mark" in changed:  # the conductor has seen a newer database
        inside.claimant.watermark = 1
    else:
        inside.change(Operation, queued, **changed)
    columns = cursor(inside, queued), inside.operation(queued).deadline_at
    assert not holds(inside, attempt)
    assert not claims.advance(inside.claimant, attempt, {})
    claims.expire(inside.claimant, attempt)
    assert columns == (cursor(inside, queued), inside.operation(queued).deadline_at)
    expected = changed == {"state": "waiting"}
    assert expected == claims.is_recorded(inside.operation(queued), attempt)


@pytest.mark.parametrize("lost", [Operation, Node])
@pytest.mark.parametrize("outcome", [Done(), Failed("no answer")])
def test_an_outcome_of_an_operation_that_the_database_has_lost_is_dropped(
    inside, attempt, outcome, lost
):
    with inside.runtime.transaction() as session:
        session.execute(update(Node).values(operation_id=None))
        for model in (OperationStep, Operation, NodeHistory, Node)[: 2 if lost is Operation else 4]:
            session.execute(delete(model))
    with capture_logs() as logs:
        assert recording.record(inside.claimant, attempt, outcome) is None
    assert ["step.operation_lost"] == [line["event"] for line in logs]


def test_an_abort_after_the_step_is_left_to_the_full_record(inside, queued, attempt):
    inside.change_step(queued, 0, abort_after=True)
    assert not claims.advance(inside.claimant, attempt, {})
    assert (0, "running") == cursor(inside, queued)
    assert "running" == inside.steps(queued)[0].state


def test_a_heartbeat_during_the_record_does_not_void_the_claim(inside, attempt):
    """The heartbeat raises the watermark, and the mark, after the record has read the watermark."""
    ids = attempt.node.id, attempt.operation.id
    with (
        inside.claimant.transaction() as session,
        operations.detached(session, *ids) as (_, operation),
    ):
        inside.claimant.watermark += 1
        assert claims.holds(session, operation, attempt)


def test_a_claim_and_a_plain_outcome_are_one_round_trip_each_on_postgresql(
    inside, queued, round_trips
):
    claims.advance(inside.claimant, claims.claim(inside.claimant, queued, 1, 0), {})  # connected
    round_trips.clear()
    attempt = claims.claim(inside.claimant, queued, 1, 1)
    of_claim = len(round_trips)
    assert claims.advance(inside.claimant, attempt, {})
    expected = 3 if inside.runtime.engine.dialect.name == "postgresql" else 0
    assert (expected, 2 * expected) == (of_claim, len(round_trips)), "with BEGIN and COMMIT"


def test_an_expired_claim_is_due_at_once(inside, queued, attempt):
    claims.expire(inside.claimant, attempt)
    operation = inside.operation(queued)
    assert abs((operation.deadline_at - operation.started_at).total_seconds()) < 30
    assert "running" == operation.state


def test_a_conductor_that_has_not_checked_its_watermark_writes_nothing(inside, queued, attempt):
    limit = inside.settings.conductor.heartbeat_timeout
    inside.claimant.set_watermark(0, time.monotonic() - limit)
    with pytest.raises(StaleWatermark, match="conductor c-1 must first check"):
        claims.advance(inside.claimant, attempt, {})
    with pytest.raises(StaleWatermark), inside.claimant.transaction() as session:
        session.get_one(Operation, attempt.operation.id).fence = 9
    assert (0, "running") == cursor(inside, queued)
    assert 1 == inside.operation(queued).fence
    inside.claimant.set_watermark(0, time.monotonic() - limit + 5)
    assert claims.advance(inside.claimant, attempt, {})
