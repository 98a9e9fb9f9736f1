"""Batching: items of several threads are processed together, occasional ones at once."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.requests.batching import Batcher

LONG = 60.0


class Work:
    """Double numbers, and record the sizes of batches."""

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


def at_once(batcher, numbers):
    """Results of numbers that are submitted at the same time."""
    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(batcher, numbers))


def slow(work, max_size, burst=1):
    """One batch a minute, and `burst` at once."""
    return Batcher(work, rate=1 / LONG, burst=burst, max_size=max_size)


def test_occasional_items_do_not_wait(work):
    batcher = slow(work, 4, burst=3)
    begun = time.monotonic()
    assert [2, 4, 6] == [batcher(1), batcher(2), batcher(3)]
    assert time.monotonic() - begun < LONG / 2
    assert [1, 1, 1] == work.sizes


def test_each_item_gets_its_own_result(work):
    batcher = slow(work, 5)
    batcher(1)
    assert [2, 4, None, 8, 10] == at_once(batcher, [1, 2, 0, 4, 5])
    assert [1, 5] == work.sizes


def test_beyond_the_rate_a_batch_waits_and_grows(work):
    batcher = Batcher(work, rate=1.0, burst=1, max_size=100)
    batcher(1)
    begun = time.monotonic()
    assert [2, 4, 6] == at_once(batcher, [1, 2, 3])
    assert 0.5 < time.monotonic() - begun
    assert [1, 3] == work.sizes


def test_the_number_of_batches_is_bounded_for_any_number_of_items(work):
    batcher = Batcher(work, rate=20.0, burst=2, max_size=1000)
    begun = time.monotonic()
    end = begun + 1.0

    def come(number):
        while time.monotonic() < end:
            batcher(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(come, range(1, 9)))
    assert len(work.sizes) <= 20 * (time.monotonic() - begun) + 2 + 2


def test_full_batches_do_not_delay_those_after_them(work):
    batcher = Batcher(work, rate=2.0, burst=1, max_size=2)
    for _ in range(20):
        at_once(batcher, [1, 2])
    begun = time.monotonic()
    assert 6 == batcher(3)
    assert time.monotonic() - begun < 8.0  # 20 batches take ten seconds


def test_the_next_batch_forms_while_one_is_processed():
    begun, go_on, sizes = threading.Event(), threading.Event(), []

    def work(numbers):
        sizes.append(len(numbers))
        if 1 in numbers:
            begun.set()
            assert go_on.wait(LONG)
        return numbers

    batcher = Batcher(work, rate=1000.0, burst=1000, max_size=100)
    with ThreadPoolExecutor(4) as pool:
        first_future = pool.submit(batcher, 1)
        assert begun.wait(LONG)
        other_futures = [pool.submit(batcher, number) for number in (2, 3, 4)]
        while sum(len(batch.items) for batch in [batcher._open] if batch) < 3:
            time.sleep(0.01)
        go_on.set()
        assert [1, 2, 3, 4] == [future.result() for future in (first_future, *other_futures)]
    assert [1, 3] == sizes


def test_a_failure_affects_only_its_batch(work):
    batcher = slow(work, 3)
    batcher(1)
    assert [None, None, None] == at_once(batcher, [1, 13, 2])
    assert [2, 4, 6] == at_once(batcher, [1, 2, 3])
