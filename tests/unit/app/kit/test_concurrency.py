"""Request slots: a bounded number of threads works, and a bounded number waits."""

import threading
from contextlib import ExitStack

import pytest

from app.errors import Unavailable
from app.kit.concurrency import Busy, FairSlots, RequestSlots, SharedPlaces, yielding_slot


def test_the_number_of_working_threads_is_bounded():
    turns, working, most = RequestSlots(2, 4, 8), [], []
    gate = threading.Barrier(2, timeout=60)

    def work():
        with turns.hold():
            working.append(1)
            most.append(len(working))
            gate.wait()
            working.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert 6 == len(most)
    assert 2 == max(most)


def test_a_waiting_thread_gives_its_slot_to_another():
    turns, done = RequestSlots(1, 1, 8), threading.Event()

    def work():
        with turns.hold():
            done.set()

    with turns.hold():
        thread = threading.Thread(target=work)
        thread.start()
        assert not done.wait(0.05)
        with yielding_slot():
            assert done.wait(60)
    thread.join(60)


def test_a_thread_beyond_the_limit_of_waiting_ones_is_refused():
    turns, waits, leave = RequestSlots(2, 1, 8), threading.Event(), threading.Event()

    def wait():
        with turns.hold(), yielding_slot():
            waits.set()
            leave.wait(60)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(60)
    with turns.hold(), pytest.raises(Unavailable), yielding_slot():
        pass
    leave.set()
    thread.join(60)


def test_no_slot_is_used_outside_of_a_request():
    with yielding_slot():
        pass


def test_waiting_clients_get_slots_in_rotation():
    slots, order = FairSlots(1), []
    assert slots.acquire("busy", 0)

    def wait(client):
        assert slots.acquire(client, 60)
        order.append(client)
        slots.release(client)

    threads = []
    for client in ("flood", "flood", "flood", "other", "third"):
        threads.append(threading.Thread(target=wait, args=(client,)))
        threads[-1].start()
        while sum(map(len, slots._waiting.values())) < len(threads):
            pass
    slots.release("busy")
    for thread in threads:
        thread.join(60)
    assert ["flood", "other", "third", "flood", "flood"] == order
    assert not slots._waiting
    assert not slots._held


def test_a_slot_that_did_not_come_in_time_is_not_taken_later():
    slots = FairSlots(1)
    assert slots.acquire("a", 0)
    assert not slots.acquire("b", 0)
    assert not slots.acquire("b", 0.01)
    slots.release("a")
    assert slots.acquire("c", 0)
    assert ["c"] == list(slots._held)


def test_a_client_takes_as_many_shared_slots_as_are_free_then():
    slots = FairSlots(6, shared=True)
    assert [True] * 3 + [False] == [slots.acquire("a", 0) for _ in range(4)]
    assert [True, True, False] == [slots.acquire("b", 0) for _ in range(3)]
    assert slots.acquire("c", 0)
    slots.release("a")
    assert [False, True] == [slots.acquire(client, 0) for client in "bd"]


def test_a_caller_takes_as_many_shared_places_as_are_free_then():
    places = SharedPlaces(4)
    with ExitStack() as held:
        for caller in "aab":
            held.enter_context(places.hold(caller))
        for caller in "ab":
            with pytest.raises(Busy), places.hold(caller):
                pass
        held.enter_context(places.hold("c"))
        with pytest.raises(Busy), places.hold("d"):
            pass
    for _ in range(2):
        with places.hold("a"):
            pass
