"""Requests for rollouts, their deletion, and their events."""

import itertools
import os
import signal
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from app.errors import Conflict, NotFound
from app.lifecycle.operation_states import Actor, IllegalTransition
from app.lifecycle.rollout_states import ROLLOUTS, RolloutEvent, transition
from app.models import Rollout
from app.rollouts import rollouts
from app.runtime import Runtime
from workers.periodic import pruning

from .conftest import die_in


@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("running", "resume"), ("paused", "pause"), ("aborting", "abort"), ("aborting", "pause"),
        ("aborted", "resume"), ("completed", "abort"),
    ],
)  # fmt: skip
def test_a_request_in_the_wrong_state_is_refused(fleet, state, event):
    fleet.node()
    rollout = fleet.create()
    fleet.inside.change(Rollout, rollout, state=state)
    with pytest.raises(Conflict, match=f'is in state "{state}", and {event} needs state'):
        fleet.request(rollout, RolloutEvent(event))


def test_an_unknown_rollout_is_not_found(fleet):
    with fleet.inside.runtime.transaction() as session, pytest.raises(NotFound):
        rollouts.request(session, str(uuid.uuid4()), RolloutEvent.PAUSE)


def test_rollouts_are_deleted_a_while_after_their_end(fleet, monkeypatch):
    monkeypatch.setattr(pruning, "ROLLOUT_NODES_BATCH", 2)
    for _ in range(3):
        fleet.node()
    old, young, paused = (fleet.create(max_unavailable="3") for _ in range(3))
    for ended in (old, young):
        fleet.inside.change(Rollout, ended, state="completed", finished_at=None)
    fleet.inside.change(Rollout, paused, state="paused", created_at=datetime(2020, 1, 1))
    day = timedelta(days=1)
    lifetime = timedelta(seconds=fleet.inside.runtime.settings.conductor.rollouts_lifetime)
    assert 90 * day == lifetime
    now = datetime.now(UTC).replace(tzinfo=None)
    fleet.inside.change(Rollout, old, finished_at=now - lifetime - day)
    fleet.inside.change(Rollout, young, finished_at=now - lifetime + day)
    assert 1 == pruning.prune_rollouts(fleet.inside.runtime)
    assert [0, 3, 3] == [len(fleet.members(rollout)) for rollout in (old, young, paused)]
    with fleet.inside.runtime.reading() as session:
        assert [young, paused] == list(session.scalars(select(Rollout.id).order_by(Rollout.id)))
    assert 0 == pruning.prune_rollouts(fleet.inside.runtime)


def test_the_deletion_of_a_large_rollout_goes_on_after_a_death(fleet, monkeypatch):
    for _ in range(3):
        fleet.node()
    rollout = fleet.create()
    ended = {"state": "aborted", "finished_at": datetime(2020, 1, 1)}
    fleet.inside.change(Rollout, rollout, **ended)
    monkeypatch.setattr(pruning, "ROLLOUT_NODES_BATCH", 1)

    def prune(another):
        transaction, count = Runtime.transaction, itertools.count()

        def dying(runtime, *arguments):
            if next(count) == 2:  # two of three nodes are deleted
                os.kill(os.getpid(), signal.SIGKILL)
            return transaction(runtime, *arguments)

        monkeypatch.setattr(Runtime, "transaction", dying)
        pruning.prune_rollouts(another.inside.runtime)

    assert die_in(fleet.inside, "acted:rollout", prune)
    assert 1 == len(fleet.members(rollout))
    assert "aborted" in fleet.summary(rollout)
    assert 1 == pruning.prune_rollouts(fleet.inside.runtime)
    assert [] == fleet.members(rollout)


@pytest.mark.parametrize("event", [event for event in RolloutEvent if event != "create"])
def test_an_actor_fires_its_own_events_only(fleet, event):
    fleet.node()
    rollout = fleet.create()
    origins = ROLLOUTS[event].origins
    origin = next(iter(origins))
    other_actors = set(Actor).difference(*origins.values())
    fleet.inside.change(Rollout, rollout, state=origin)
    for actor in other_actors:
        with fleet.inside.runtime.transaction(actor) as session, pytest.raises(IllegalTransition):
            transition(session, session.get_one(Rollout, rollout), event)
