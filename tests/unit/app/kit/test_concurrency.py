"""Turns: who works and who waits."""

import threading

import pytest

from app.errors import Unavailable
from app.kit.concurrency import RequestSlots, yielding_slot


def test_only_so_many_work_at_once():
    turns, working, most = RequestSlots(2, 4), [], []
    gate = threading.Barrier(2, timeout=5)

    def work():
        with turns.taken():
            working.append(1)
            most.append(len(working))
            gate.wait()
            working.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)

    assert 6 == len(most)
    assert 2 == max(most)


def test_one_that_waits_lets_another_work():
    turns, done = RequestSlots(1, 1), threading.Event()

    def work():
        with turns.taken():
            done.set()

    with turns.taken():
        thread = threading.Thread(target=work)
        thread.start()
        assert not done.wait(0.05)
        with yielding_slot():
            assert done.wait(5)
    thread.join(5)


def test_too_many_that_wait_are_told_so():
    turns, waits, leave = RequestSlots(2, 1), threading.Event(), threading.Event()

    def wait():
        with turns.taken(), yielding_slot():
            waits.set()
            leave.wait(5)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(5)
    with turns.taken(), pytest.raises(Unavailable), yielding_slot():
        pass
    leave.set()
    thread.join(5)


def test_outside_of_a_request_there_are_no_turns():
    with yielding_slot():
        pass
