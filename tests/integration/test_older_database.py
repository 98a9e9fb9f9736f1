"""A process with work from before a restoration writes nothing into the restored database."""

import os
import signal
import uuid
from types import SimpleNamespace

import pytest
from redis import RedisError
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from app.lifecycle.operation_states import Actor
from app.models import Conductor, Operation, PeriodicPass
from app.process import vital_signs
from drivers.core.steps import Done
from workers.conductor import claims, recording
from workers.conductor.conductor import StaleWatermark
from workers.conductor.life import Life
from workers.restoration import restore

TIMEOUT = 15.0


class Clock:
    """Monotonic clock of a process; it advances while the process is suspended."""

    def __init__(self):
        self.moment = 1000.0

    def monotonic(self):
        return self.moment


class Redis:
    """Redis record of the watermark; unreachable while that is None."""

    def __init__(self, clock):
        self.clock, self.watermark, self.takes = clock, 0, 0.0

    def recall(self):
        self.clock.moment += self.takes
        if self.watermark is None:
            raise RedisError("out of reach")
        return self.watermark

    def note(self, _node):
        return True

    def touched(self, _level):
        return None

    def declare_restored(self, runtime, rewind):
        with runtime.transaction(Actor.CONDUCTOR) as session:
            restore.quarantine_once(session, rewind, None)


@pytest.fixture
def life(inside, monkeypatch):
    """A conductor, its clock and its Redis; an operation of two steps was sent to it."""
    clock = Clock()
    for module in ("workers.conductor.conductor", "workers.conductor.life"):
        monkeypatch.setattr(f"{module}.time", clock)
    monkeypatch.setattr("app.broker.outages.PATIENCE", -1.0)
    conductor = inside.conductor("c-1")
    conductor.incarnation, conductor.witness = str(uuid.uuid4()), Redis(clock)
    conductor.leases = SimpleNamespace()
    life = Life(conductor, 0)
    life._register()
    life.clock, life.redis, life.inside = clock, conductor.witness, inside
    life.node = inside.node("manageable")
    life.operation = inside.request(life.node, "provide")
    return life


def claim(life):
    return claims.claim(life.conductor, life.operation, 1, 0)


def lose(life, signs=1):
    """Restore the database from before the last heartbeats."""
    with life.inside.runtime.transaction() as session:
        session.get_one(restore.Watermark, 1).level -= signs


def state(life):
    operation = life.inside.operation(life.operation)
    return operation.state, operation.cursor


@pytest.mark.parametrize("plain", [True, False])
def test_the_outcome_of_an_attempt_is_not_recorded_in_an_older_database(life, plain):
    """The rows contain its claim again, although another conductor had taken it over."""
    attempt = claim(life)
    lose(life)
    if plain:
        assert not claims.advance(life.conductor, attempt, {})
    else:
        assert recording._record(life.conductor, attempt, Done()) is None
        assert 1 == life.inside.operation(life.operation).refused
    assert ("running", 0) == state(life)


def test_a_suspended_process_writes_nothing_before_it_has_checked_the_watermark(life):
    attempt = claim(life)
    life.clock.moment += TIMEOUT
    with pytest.raises(StaleWatermark, match="c-1 must first check"):
        recording._record(life.conductor, attempt, Done())
    with pytest.raises(StaleWatermark):
        claims.advance(life.conductor, attempt, {})
    assert ("running", 0) == state(life)
    life.inside.change(Operation, life.operation, state="queued", claimed=-1)
    with pytest.raises(StaleWatermark):
        claim(life)
    assert life._heartbeat()
    assert claim(life)


def test_a_conductor_learns_the_watermark_of_stopped_conductors(life):
    """It was suspended before the backup: its own watermark is no higher than the restored one."""
    life.redis.watermark = life.conductor.watermark + 1
    assert life._heartbeat()
    assert ("failed", 0) == state(life)
    assert "restored" == life.inside.read(life.node).fault


def test_an_old_answer_does_not_prove_which_database_it_is(life):
    """It is suspended after its query; the database may have been restored since."""
    life.clock.moment += TIMEOUT
    life.redis.takes = TIMEOUT
    assert life._heartbeat()
    with pytest.raises(StaleWatermark):
        claim(life)
    life.redis.takes = 0.0
    assert life._heartbeat()
    assert claim(life)


def test_without_redis_a_conductor_in_constant_contact_continues(life):
    life.redis.watermark = None
    for _ in range(3):
        life.clock.moment += TIMEOUT - 1
        assert life._heartbeat()
    assert claim(life)


def test_without_redis_a_suspended_conductor_waits(life):
    life.redis.watermark = None
    life.clock.moment += TIMEOUT
    assert life._heartbeat(), "it is alive"
    with pytest.raises(StaleWatermark):
        claim(life)
    life.redis.watermark = 0
    assert life._heartbeat()
    assert claim(life)


def test_a_conductor_whose_heartbeats_fail_by_a_defect_stops(life, monkeypatch):
    """Without heartbeats it would run for ever, and its nodes belong to others."""
    signals = []

    def fail():
        raise KeyError("a defect")

    monkeypatch.setattr(life, "_heartbeat", fail)
    monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
    monkeypatch.setattr(os, "kill", lambda *arguments: signals.append(arguments))
    life._run()
    assert [(os.getpid(), signal.SIGTERM)] == signals


def test_a_heartbeat_has_the_first_impediment_and_its_end_begins_the_work_anew(life):
    """The passes of a conductor whose nodes others had are expected from its return on."""
    reasons = [None, None]
    life._impediments = [(lambda: reasons[0], False), (lambda: reasons[1], True)]

    def row():
        with life.inside.runtime.reading() as session:
            impediment = session.scalar(select(Conductor.impediment))
            expected = session.scalar(select(PeriodicPass.expected_at).limit(1))
        return impediment, expected

    assert life._heartbeat()
    none, begun = row()
    assert none is None
    reasons[:] = ["it has no broker", "its threads hang"]
    with capture_logs() as logged:
        assert life._heartbeat()
        assert life._heartbeat()
        assert ("it has no broker", begun) == row()
        reasons[:] = [None, None]
        assert life._heartbeat()
    assert ["conductor.impeded", "conductor.able"] == [entry["event"] for entry in logged]
    none, again = row()
    assert none is None
    assert begun < again
    assert life._heartbeat()
    assert again == row()[1]


class Signs:
    """Notes the vital signs of a conductor."""

    def __init__(self):
        self.noted = []

    def work(self, status):
        self.noted.append(("work", status))

    def report(self, status):
        self.noted.append(("report", status))

    def stop(self, status):
        self.noted.append(("stop", status))


@pytest.fixture
def signs(monkeypatch):
    signs = Signs()
    monkeypatch.setattr(vital_signs, "_current", signs)
    return signs


def test_a_heartbeat_is_a_vital_sign_unless_another_incarnation_would_work_better(
    life, signs, monkeypatch
):
    reasons = [None, None, None]
    life._impediments = [
        (lambda: reasons[0], False), (lambda: reasons[1], True), (lambda: reasons[2], False),
    ]  # fmt: skip
    life.conductor.attempts.add("a token")
    for reasons[:], sign in (
        ([None, None, None], ("work", "1 step in progress")),
        (["it has no broker", None, None], ("work", "impeded: it has no broker")),
        ([None, "its threads hang", "no BMCs"], ("report", "impeded: its threads hang")),
        ([None, None, "no BMCs"], ("work", "impeded: no BMCs")),
    ):
        assert life._heartbeat()
        assert [sign] == signs.noted
        signs.noted.clear()
    monkeypatch.setattr(life, "_redispatch", lambda: None)
    life.drain()
    assert ("stop", "drains, 1 step in progress") == signs.noted[0]


@pytest.mark.parametrize(("registered", "sign"), [(True, "work"), (False, "report")])
def test_a_database_that_is_away_is_no_reason_for_another_incarnation(
    life, signs, monkeypatch, registered, sign
):
    def fail():
        life._ended.set()
        raise OperationalError("", None, Exception("connection refused"))

    monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
    monkeypatch.setattr(life, "_heartbeat", fail)
    monkeypatch.setattr(life, "_register", fail)
    if not registered:
        life.registered.clear()
    life._run()
    assert [(sign, "the database does not answer: connection refused")] == signs.noted
