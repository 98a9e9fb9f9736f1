"""Webhooks after long outages: failures, gaps and replays."""

import threading
from datetime import datetime

import pytest
from sqlalchemy import select, update

from app.errors import Invalid
from app.events import change_events, webhooks
from app.models import ChangeEvent, Webhook, WebhookFailure
from workers.periodic import pruning

from .conftest import changed, configure, create, drain, due, read, sequences


def failures(inside):
    with inside.runtime.reading() as session:
        rows = session.scalars(select(WebhookFailure).order_by(WebhookFailure.id)).all()
    return [(row.after, row.last) for row in rows]


def test_a_late_answer_does_not_undo_a_replay(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node, 2)
    drain(inside, deliverer, hook)
    changed(inside, node)
    change_events.number(inside.runtime)
    receiver.gate.clear()
    receiver.arrived.clear()
    late = threading.Thread(target=deliverer.deliver, args=(hook,))
    late.start()
    assert receiver.arrived.wait(60)
    replay(inside, hook, start)
    receiver.gate.set()
    late.join()
    assert start == read(inside, hook).position
    drain(inside, deliverer, hook)
    assert [start, sequences(inside)[-1]] == [
        receiver.documents[-1][name] for name in ("after", "last")
    ]


def replay(inside, hook, position=None):
    with inside.runtime.transaction() as session:
        row = session.scalars(select(Webhook).where(Webhook.id == hook).with_for_update()).one()
        webhooks.replay(session, row, position)


@pytest.fixture
def impatient(inside):
    """Settings with which the second failed attempt gives up."""
    configure(inside, give_up_after=0.0)
    return inside


def test_events_of_a_long_outage_are_a_failure_and_can_be_replayed(impatient, deliverer, receiver):
    inside = impatient
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node, 3)
    receiver.status = 503
    drain(inside, deliverer, hook)
    assert [] == failures(inside), "the first failures are only repeated"
    due(inside, hook)
    drain(inside, deliverer, hook)
    given_up = sequences(inside)[-1]
    assert [(start, given_up)] == failures(inside)
    assert given_up == read(inside, hook).position
    changed(inside, node, 2)
    due(inside, hook)
    drain(inside, deliverer, hook)
    assert [(start, given_up + 2)] == failures(inside), "one failure for one outage"
    receiver.status = 200
    changed(inside, node)
    due(inside, hook)
    drain(inside, deliverer, hook)
    assert [given_up + 3] == receiver.numbers
    assert given_up + 2 == receiver.documents[0]["after"], "the receiver sees the gap"
    replay(inside, hook)
    assert [] == failures(inside)
    drain(inside, deliverer, hook)
    assert [*range(start + 1, given_up + 4)] == sorted(receiver.numbers)
    repeated = receiver.documents[1]
    assert [*range(start + 1, given_up + 4)] == [event["sequence"] for event in repeated["events"]]


def test_a_second_outage_is_a_second_failure_and_a_replay_may_begin_inside_one(
    impatient, deliverer, receiver
):
    inside = impatient
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    ends = []
    for _ in range(2):
        changed(inside, node, 4)
        receiver.status = 500
        due(inside, hook)
        drain(inside, deliverer, hook)
        due(inside, hook)
        drain(inside, deliverer, hook)
        ends.append(sequences(inside)[-1])
        receiver.status = 200
        changed(inside, node)
        due(inside, hook)
        drain(inside, deliverer, hook)
    assert [(start, ends[0]), (ends[0] + 1, ends[1])] == failures(inside)
    replay(inside, hook, start + 2)
    assert [(start, start + 2)] == failures(inside)
    replay(inside, hook)
    drain(inside, deliverer, hook)
    assert [*range(start + 1, ends[1] + 2)] == sorted(receiver.numbers)


def test_a_replay_of_events_that_are_not_kept_is_refused(inside, deliverer, receiver):
    node = inside.node()
    changed(inside, node, 3)
    hook = create(inside, receiver)
    with pytest.raises(Invalid, match="after: required, because the webhook has no failures"):
        replay(inside, hook)
    newest = sequences(inside)[-1]
    with pytest.raises(Invalid, match=rf"after: {newest + 1} must be .* at most {newest}"):
        replay(inside, hook, newest + 1)
    forget(inside, newest - 1)
    with pytest.raises(Invalid, match=rf"after: 0 must be at least {newest - 1}"):
        replay(inside, hook, 0)
    replay(inside, hook, newest - 1)
    drain(inside, deliverer, hook)
    assert [newest] == receiver.numbers


def forget(inside, position):
    """Let the events up to a number be past their lifetime, and prune."""
    with inside.runtime.transaction() as session:
        old = update(ChangeEvent).where(ChangeEvent.sequence <= position)
        session.execute(old.values(created_at=datetime(2000, 1, 1)))
    pruning.prune_change_events(inside.runtime)


def test_events_deleted_meanwhile_are_a_visible_gap(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node, 5)
    with inside.runtime.transaction() as session:
        for begin in (start, start + 2):
            session.add(WebhookFailure(webhook_id=hook, after=begin, last=begin + 2, error="e"))
    sequences(inside)
    forget(inside, start + 3)
    assert [(start + 2, start + 4)] == failures(inside), "failures without events are deleted"
    drain(inside, deliverer, hook)
    assert start + 3 == receiver.documents[0]["after"]
    assert [start + 4, start + 5] == receiver.numbers
