"""Who began to work before the database was restored writes nothing into the restored one."""

import uuid
from types import SimpleNamespace

import pytest
from redis import RedisError

from app.engine import restore
from app.models import Operation
from app.operation_states import Actor
from drivers.core.steps import Done
from workers.conductor import attempts, claims
from workers.conductor.process import _Life

TIMEOUT = 15.0


class Clock:
    """The monotonic clock of a process; it runs on while that is stopped."""

    def __init__(self):
        self.moment = 1000.0

    def monotonic(self):
        return self.moment


class Redis:
    """What it knows of the water mark; out of reach while that is None."""

    def __init__(self, clock):
        self.clock, self.seen, self.takes = clock, 0, 0.0

    def recall(self):
        self.clock.moment += self.takes
        if self.seen is None:
            raise RedisError("out of reach")
        return self.seen

    def note(self, _node):
        return True

    def touched(self, _level):
        return None

    def declare_restored(self, runtime, found):
        with runtime.transaction(Actor.CONDUCTOR) as session:
            restore.quarantine_once(session, found, None)


@pytest.fixture
def life(inside, monkeypatch):
    """A conductor of ours, its clock and its Redis; an operation of two steps was sent to it."""
    clock = Clock()
    for module in ("workers.conductor.claims", "workers.conductor.process"):
        monkeypatch.setattr(f"{module}.time", clock)
    monkeypatch.setattr("workers.retry.PATIENCE", -1.0)
    conductor = inside.conductor("c-1")
    conductor.incarnation, conductor.witness = str(uuid.uuid4()), Redis(clock)
    conductor.leases = SimpleNamespace()
    life = _Life(conductor, 0)
    life._register()
    life.clock, life.redis, life.inside = clock, conductor.witness, inside
    life.node = inside.node("manageable")
    life.operation = inside.request(life.node, "provide")
    return life


def claim(life):
    return claims.claim(life.conductor, life.operation, 1, 0)


def lose(life, signs=1):
    """The database is that of before the last signs of life."""
    with life.inside.runtime.transaction() as session:
        session.get_one(restore.Watermark, 1).level -= signs


def state(life):
    found = life.inside.operation(life.operation)
    return found.state, found.cursor


@pytest.mark.parametrize("plain", [True, False])
def test_what_came_of_an_attempt_is_not_recorded_in_an_older_database(life, plain):
    """Its claim is in the rows again, though it was taken over since, and what followed is lost."""
    attempt = claim(life)
    lose(life)
    if plain:
        assert not claims.advance(life.conductor, attempt, {})
    else:
        assert attempts._record(life.conductor, attempt, Done()) is None
        assert 1 == life.inside.operation(life.operation).refused
    assert ("running", 0) == state(life)


def test_a_process_that_was_stopped_writes_nothing_before_it_has_asked_what_has_happened(life):
    attempt = claim(life)
    life.clock.moment += TIMEOUT
    with pytest.raises(claims.StaleWatermark, match="c-1 must first check"):
        attempts._record(life.conductor, attempt, Done())
    with pytest.raises(claims.StaleWatermark):
        claims.advance(life.conductor, attempt, {})
    assert ("running", 0) == state(life)
    life.inside.change(Operation, life.operation, state="queued", claimed=-1)
    with pytest.raises(claims.StaleWatermark):
        claim(life)
    assert life._heartbeat()
    assert claim(life)


def test_it_learns_of_others_that_are_gone_what_they_had_seen(life):
    """It was stopped before the backup was made: its own mark is no higher than the restored one."""
    life.redis.seen = life.conductor.mark + 1
    assert life._heartbeat()
    assert ("failed", 0) == state(life)
    assert "restored" == life.inside.read(life.node).fault


def test_an_answer_of_long_ago_does_not_tell_which_database_it_is(life):
    """It is stopped after its question; what the answer lacks may have happened since."""
    life.clock.moment += TIMEOUT
    life.redis.takes = TIMEOUT
    assert life._heartbeat()
    with pytest.raises(claims.StaleWatermark):
        claim(life)
    life.redis.takes = 0.0
    assert life._heartbeat()
    assert claim(life)


def test_without_redis_goes_on_who_has_been_in_touch_all_the_time(life):
    life.redis.seen = None
    for _ in range(3):
        life.clock.moment += TIMEOUT - 1
        assert life._heartbeat()
    assert claim(life)


def test_without_redis_waits_who_was_stopped(life):
    life.redis.seen = None
    life.clock.moment += TIMEOUT
    assert life._heartbeat(), "it is alive"
    with pytest.raises(claims.StaleWatermark):
        claim(life)
    life.redis.seen = 0
    assert life._heartbeat()
    assert claim(life)
