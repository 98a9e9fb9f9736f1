"""A conductor that an operator drains: it claims no step, and redispatches what it has not begun."""

import threading
from types import SimpleNamespace
from uuid import uuid4

import pytest

from app.cluster import conductors
from tests.integration.test_older_database import Clock, Redis
from workers.conductor.life import Life


@pytest.fixture
def life(inside, monkeypatch):
    """A conductor, c-1, beside another one, c-2, which is alive."""
    clock = Clock()
    for module in ("workers.conductor.conductor", "workers.conductor.life"):
        monkeypatch.setattr(f"{module}.time", clock)
    conductor = inside.conductor("c-1")
    conductor.incarnation, conductor.witness = str(uuid4()), Redis(clock)
    conductor.wait_monitor = SimpleNamespace(resume_all=lambda: None)
    life = Life(conductor, 0)
    life.inside = inside
    life._register()
    with inside.runtime.transaction() as session:
        conductors.register(session, "c-2", "2", "", inside.drivers())
    inside.runtime.cache.clear()
    return life


def change(life, function, *arguments):
    with life.inside.runtime.transaction() as session:
        function(session, "c-1", *arguments)
    life.inside.runtime.cache.clear()


def owned(life):
    """An operation that was sent to c-1 and is not claimed."""
    while True:
        node = life.inside.node("manageable")
        operation = life.inside.request(node, "provide")
        if life.inside.operation(operation).sent_to == life.conductor.incarnation:
            return operation


def test_it_redispatches_what_it_has_not_begun_and_begins_nothing(life):
    operation = owned(life)
    change(life, conductors.drain, "a new fan")
    assert life._heartbeat()
    assert life.conductor.draining.is_set()
    life._hand_over(100)
    assert "2" == life.inside.operation(operation).sent_to


def test_it_claims_steps_again_after_the_end_of_the_drain(life):
    change(life, conductors.drain, None)
    assert life._heartbeat()
    change(life, conductors.undrain)
    assert life._heartbeat()
    assert not life.conductor.draining.is_set()
    assert owned(life)


def test_it_is_drained_before_its_first_step_after_a_restart(life):
    change(life, conductors.drain, None)
    life.conductor.draining.clear()
    again = Life(life.conductor, 0)
    states = []
    again.registered = SimpleNamespace(
        set=lambda: states.append(life.conductor.draining.is_set()), is_set=lambda: bool(states)
    )
    again._register()
    assert [True] == states


def test_a_stop_during_the_end_of_a_drain_leaves_it_draining(life):
    change(life, conductors.drain, None)
    assert life._heartbeat()
    change(life, conductors.undrain)
    life._redispatching = threading.Thread()
    life._stopping = True
    assert life._heartbeat()
    assert life.conductor.draining.is_set()


def test_few_operations_are_redispatched_between_two_heartbeats(life):
    operations = [owned(life) for _ in range(3)]
    change(life, conductors.drain, None)
    life._hand_over(2)
    assert ["2", "2", life.conductor.incarnation] == [
        life.inside.operation(operation).sent_to for operation in operations
    ]
