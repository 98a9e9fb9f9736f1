"""Request slots: a bounded number of threads works, and a bounded number waits."""

import threading
from contextlib import ExitStack

import pytest

from app.errors import Unavailable
from app.requests.request_slots import (
    Busy,
    FairSlots,
    Places,
    RequestSlots,
    SharedPlaces,
    take_turn,
    yielding_slot,
)
from tests.support.fleet import until


def test_the_number_of_working_threads_is_bounded():
    turns, working, counts = RequestSlots(2, 4, 8), [], []
    gate = threading.Barrier(2, timeout=60)

    def work():
        with turns.hold():
            working.append(1)
            counts.append(len(working))
            gate.wait()
            working.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert 6 == len(counts)
    assert 2 == max(counts)


def test_a_waiting_thread_gives_its_slot_to_another():
    turns, completion = RequestSlots(1, 1, 8), threading.Event()

    def work():
        with turns.hold():
            completion.set()

    with turns.hold():
        thread = threading.Thread(target=work)
        thread.start()
        assert not completion.wait(0.05)
        with yielding_slot():
            assert completion.wait(60)
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
    assert not slots._slot_times


def test_a_slot_that_did_not_come_in_time_is_not_taken_later():
    slots = FairSlots(1)
    assert slots.acquire("a", 0)
    assert not slots.acquire("b", 0)
    assert not slots.acquire("b", 0.01)
    slots.release("a")
    assert slots.acquire("c", 0)
    assert ["c"] == list(slots._slot_times)


def test_a_client_takes_as_many_shared_slots_as_are_free_then():
    slots = FairSlots(6, leaves_free=True)
    assert [True] * 3 + [False] == [slots.acquire("a", 0) for _ in range(4)]
    assert [True, True, False] == [slots.acquire("b", 0) for _ in range(3)]
    assert slots.acquire("c", 0)
    slots.release("a")
    assert [False, True] == [slots.acquire(client, 0) for client in "bd"]


def test_a_caller_takes_as_many_shared_places_as_are_free_then():
    places = SharedPlaces(4)
    with ExitStack() as stack:
        for caller in "aab":
            stack.enter_context(places.hold(caller))
        for caller in "ab":
            with pytest.raises(Busy), places.hold(caller):
                pass
        stack.enter_context(places.hold("c"))
        with pytest.raises(Busy), places.hold("d"):
            pass
    for _ in range(2):
        with places.hold("a"):
            pass


class Watch:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def waiting(slots, clients):
    """Threads that wait for a slot, in this order; returns them, and the list of those served."""
    order, threads = [], []

    def wait(client):
        assert slots.acquire(client, 5)
        order.append(client)

    for client in clients:
        count = sum(map(len, slots._waiting.values()))
        threads.append(threading.Thread(target=wait, args=(client,)))
        threads[-1].start()
        while sum(map(len, slots._waiting.values())) == count:
            pass
    return threads, order


def test_turns_are_by_time_and_not_by_number():
    """A client with long requests waits until another one has used as much time."""
    clock = Watch()
    slots = FairSlots(1, clock=clock)
    seconds = {"long": 10, "short": 3}
    assert slots.acquire("long", 0)
    threads, order = waiting(slots, ["long"] * 3 + ["short"] * 6)
    holder = "long"
    for number in range(len(threads)):
        clock.now += seconds[holder]
        slots.release(holder)
        while len(order) == number:
            pass
        holder = order[-1]
    assert ["short"] * 4 + ["long"] + ["short"] * 2 + ["long"] * 2 == order
    slots.release(holder)
    for thread in threads:
        thread.join(5)
    assert not slots._used, "absent clients are forgotten"


def test_a_client_that_comes_has_no_credit_of_the_time_that_it_was_away():
    clock = Watch()
    slots = FairSlots(2, clock=clock)
    assert slots.acquire("steady", 0)
    for _ in range(3):  # it always holds a slot
        clock.now += 10
        assert slots.acquire("steady", 0)
        slots.release("steady")
    assert 30 == slots.used("steady")
    assert 20 == slots.used("new"), "as much as the last one at its turn"


def test_a_client_leaves_one_slot_to_others():
    slots = FairSlots(3, max_per_client=2)
    assert [True, True, False] == [slots.acquire("flood", 0) for _ in range(3)]
    assert slots.acquire("other", 0)
    assert not slots.acquire("third", 0)


def test_requests_wait_as_their_caller_once_it_is_known():
    """Two tenants have one address; one of them has more requests than slots."""
    turns, leave = RequestSlots(2, 4, 32), threading.Event()
    order, lock = [], threading.Lock()

    def work(tenant):
        with turns.hold("192.0.2.1"):
            take_turn(tenant)
            with lock:
                order.append(tenant)
            assert leave.wait(10)

    flood = [threading.Thread(target=work, args=("flood",)) for _ in range(12)]
    for thread in flood:
        thread.start()
    until(
        lambda: order == ["flood"] * 2 and len(turns._working._waiting.get("flood", ())) == 10,
        "the requests beyond the slots",
    )
    victim = threading.Thread(target=work, args=("victim",))
    victim.start()
    try:
        until(lambda: "victim" in order, "the slot of the other tenant")
        assert ["flood", "flood", "victim"] == order
    finally:
        leave.set()
        for thread in [*flood, victim]:
            thread.join(10)
    assert 13 == len(order)
    assert not turns._working._used
    assert not turns._entering._used


def test_a_request_that_finds_no_place_as_its_caller_is_refused_and_leaves_nothing():
    turns, leave = RequestSlots(1, 1, 2), threading.Event()
    inside = threading.Semaphore(0)

    def work():
        with turns.hold("192.0.2.1"):
            take_turn("flood")
            inside.release()
            assert leave.wait(10)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert inside.acquire(timeout=10)
    until(lambda: turns._working._waiting.get("flood"), "the second one waits")
    with pytest.raises(Busy), turns.hold("192.0.2.1"):
        take_turn("flood")
    with turns.hold("192.0.2.1"):
        take_turn("another")
    leave.set()
    for thread in threads:
        thread.join(10)
    assert not turns._entering._slot_times
    assert not turns._working._slot_times


def test_a_waiting_caller_gives_its_slot_to_another():
    turns, completion = RequestSlots(1, 1, 8), threading.Event()

    def work():
        with turns.hold("a"):
            take_turn("tenant")
            completion.set()

    with turns.hold("a"):
        take_turn("tenant")
        thread = threading.Thread(target=work)
        thread.start()
        with yielding_slot():
            assert completion.wait(5)
    thread.join(5)


def test_no_turn_is_taken_outside_of_a_request():
    take_turn("tenant")


def test_the_callers_of_a_group_leave_places_to_others():
    places = Places(8, 3)
    with ExitStack() as stack:
        for caller in ("a", "a", "b", "b"):
            stack.enter_context(places.hold(caller, "tenant"))
        with pytest.raises(Busy), places.hold("c", "tenant"):
            pass
        for _ in range(2):
            stack.enter_context(places.hold("d", "another"))
        stack.enter_context(places.hold("operator"))
    assert not places._taken_places
    assert not places._taken_by_groups
