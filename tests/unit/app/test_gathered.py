"""What threads bring within a moment is done in one go."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.services.gathered import Gathered

LONG = 60.0


class Work:
    """Doubles numbers; how many there were at a time."""

    def __init__(self):
        self.sizes = []

    def __call__(self, numbers):
        self.sizes.append(len(numbers))
        if 13 in numbers:
            raise ValueError("13")
        return [None if number == 0 else 2 * number for number in numbers]


@pytest.fixture
def work():
    return Work()


def bring(gathered, numbers):
    """What each gets, when they come at the same time."""
    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(gathered, numbers))


def test_who_comes_alone_does_not_wait(work):
    gathered = Gathered(work, LONG, 4)
    begun = time.monotonic()
    assert 2 == gathered(1)
    assert time.monotonic() - begun < LONG / 2


def test_each_gets_what_came_of_its_own(work):
    gathered = Gathered(work, LONG, 5)
    gathered(1)
    assert [2, 4, None, 8, 10] == bring(gathered, [1, 2, 0, 4, 5])
    assert [1, 5] == work.sizes


def test_those_who_come_within_a_moment_wait_for_its_end(work):
    gathered = Gathered(work, 1.0, 100)
    gathered(1)
    assert [2, 4, 6] == bring(gathered, [1, 2, 3])
    assert sum(work.sizes) == 4
    assert len(work.sizes) == 2


def test_the_next_batch_is_gathered_while_one_is_at_work():
    begun, go_on = threading.Event(), threading.Event()

    def work(numbers):
        if 1 in numbers:
            begun.set()
            assert go_on.wait(LONG)
        return numbers

    gathered = Gathered(work, LONG, 2)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gathered, 1)
        assert begun.wait(LONG)
        assert 2 == gathered(2)
        go_on.set()
        assert 1 == first.result()


def test_a_failure_is_told_to_all_and_is_over_then(work):
    gathered = Gathered(work, LONG, 3)
    gathered(1)
    assert [None, None, None] == bring(gathered, [1, 13, 2])
    assert [2, 4, 6] == bring(gathered, [1, 2, 3])
