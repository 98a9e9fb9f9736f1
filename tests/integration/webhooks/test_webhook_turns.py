"""Leases and turns of webhooks: slow receivers leave threads to the others."""

import threading
from datetime import datetime

from app.events import change_events
from app.models import Webhook
from tests.support.fleet import until
from tests.support.receiver import receiving
from workers.periodic import delivery
from workers.periodic.webhooks import Webhooks

from .conftest import changed, configure, create, due, read, sequences


def test_a_lease_keeps_a_second_deliverer_away_and_expires(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    change_events.number(inside.runtime)
    receiver.gate.clear()
    first_thread = threading.Thread(target=deliverer.deliver, args=(hook,))
    first_thread.start()
    assert receiver.arrived.wait(60)
    assert not deliverer.deliver(hook)
    assert 1 == receiver.requests, "the first attempt holds the webhook"
    due(inside, hook)  # as if its process were dead
    second_thread = threading.Thread(target=deliverer.deliver, args=(hook,))
    second_thread.start()
    until(lambda: receiver.requests == 2, "the second attempt")
    receiver.gate.set()
    first_thread.join()
    second_thread.join()
    assert [1] * 2 == [len(document["events"]) for document in receiver.documents]
    assert sequences(inside)[-1:] == receiver.numbers
    assert sequences(inside)[-1] == read(inside, hook).position


def test_an_attempt_without_its_lease_records_nothing(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node)
    change_events.number(inside.runtime)
    for status in (200, 500):
        receiver.status = status
        receiver.gate.clear()
        receiver.arrived.clear()
        due(inside, hook)
        late = threading.Thread(target=deliverer.deliver, args=(hook,))
        late.start()
        assert receiver.arrived.wait(60)
        inside.change(Webhook, hook, holder="another attempt")
        receiver.gate.set()
        late.join()
        row = read(inside, hook)
        assert (start, "another attempt", None) == (row.position, row.holder, row.last_error)


def test_webhooks_beyond_the_free_threads_are_left_to_others(inside, receiver, monkeypatch):
    monkeypatch.setattr("workers.periodic.delivery.AT_ONCE", 1)
    configure(inside, timeout=60.0)
    deliverer = Webhooks(inside.runtime)
    node = inside.node()
    with receiving() as slow:
        slow.gate.clear()
        slow_hook, _ = create(inside, slow), create(inside, receiver)
        due(inside, slow_hook)
        changed(inside, node)
        for _ in range(3):
            deliverer.start_due()
            assert slow.arrived.wait(60)
        assert 1 == slow.requests
        slow.gate.set()
        deliverer.close()
        assert 0 == receiver.requests


def test_slow_receivers_of_some_projects_leave_threads_to_the_others(inside, deliverer, receiver):
    with receiving() as slow:
        slow.gate.clear()
        nodes = []
        for project in range(4):
            nodes.append(inside.node(owner=f"p-{project}"))
            for number in range(delivery.AT_ONCE // 4):
                name = f"slow-{project}-{number}"
                due(inside, create(inside, slow, name=name, owner=f"p-{project}"))
        for node in nodes:
            changed(inside, node)
        deliverer.start_due()
        create(inside, receiver, owner="honest")
        changed(inside, inside.node(owner="honest"))
        deliverer.start_due()
        try:
            until(lambda: receiver.numbers, "the delivery beside slow ones")
            until(lambda: slow.requests > delivery.AT_ONCE // 2, "the slow ones")
            assert slow.requests < delivery.AT_ONCE
        finally:
            slow.gate.set()
            deliverer.close()


def test_a_slow_receiver_has_a_turn_by_time_and_then_the_next_one(inside, receiver, monkeypatch):
    """One thread; the slow one has events for many attempts, and was due first."""
    monkeypatch.setattr("workers.periodic.delivery.AT_ONCE", 1)
    monkeypatch.setattr("workers.periodic.delivery.BATCH", 1)
    monkeypatch.setattr("workers.periodic.delivery.TURN", 0)
    configure(inside, timeout=60.0)
    deliverer = Webhooks(inside.runtime)
    # before the webhooks: their creation would be one more event for each, and one more turn
    nodes = [inside.node(owner=owner) for owner in ("p-slow", "honest")]
    with receiving() as slow:
        slow.gate.clear()
        due(inside, create(inside, slow, owner="p-slow"))
        create(inside, receiver, owner="honest")
        changed(inside, nodes[0], 5)
        changed(inside, nodes[1])
        deliverer.start_due()
        assert slow.arrived.wait(60)
        deliverer.start_due()  # the other one finds no thread
        assert not receiver.numbers
        take, counts = receiver.take, []

        def taken(*delivery):
            counts.append(slow.requests)
            return take(*delivery)

        receiver.take = taken
        slow.gate.set()
        until(lambda: receiver.numbers, "the turn of the other one")
        deliverer.close()
        assert [1] == counts, "after one attempt of the slow one, not after all of them"


def test_of_many_due_webhooks_each_project_has_the_first(inside, deliverer, receiver, monkeypatch):
    monkeypatch.setattr("workers.periodic.delivery.FOUND", 4)
    hooks = {}
    for number in range(9):
        owner = "p-many" if number < 7 else f"p-{number}"
        hook = create(inside, receiver, name=f"h-{number}", owner=owner)
        hooks[hook] = owner
        inside.change(Webhook, hook, due_at=datetime(2000, 1, 1 + number))
    changed(inside, inside.node())
    pairs = deliverer._due()
    assert ["p-many", "p-7", "p-8", "p-many"] == [project for _, project in pairs]
    assert [(hook, hooks[hook]) for hook, _ in pairs] == pairs


def test_many_events_are_posted_in_batches_and_turns(inside, deliverer, receiver, monkeypatch):
    monkeypatch.setattr("workers.periodic.delivery.BATCH", 3)
    monkeypatch.setattr("workers.periodic.delivery.TURN", 0)
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node, 8)
    for end in (3, 6):
        deliverer.start_due()
        until(lambda end=end: read(inside, hook).position == start + end, "a turn of a batch")
        until(lambda: not deliverer._served, "its end")
    deliverer.close()
    again = Webhooks(inside.runtime)
    again.start_due()
    again.close()
    assert [3, 3, 2] == [len(document["events"]) for document in receiver.documents]
    assert [*range(start + 1, start + 9)] == receiver.numbers
    assert [(start, start + 3), (start + 3, start + 6), (start + 6, start + 8)] == [
        (document["after"], document["last"]) for document in receiver.documents
    ]
