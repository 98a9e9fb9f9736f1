"""A process that lost contact with the database itself declares no conductor dead."""

import pytest

from workers.periodic.database_contact import Contact

TIMEOUT = 15.0


class Clock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def contact(clock):
    return Contact(TIMEOUT, clock)


def made_after(contact, clock, seconds):
    clock.time += seconds
    return contact.record()


def test_a_new_process_waits_for_a_whole_timeout(contact, clock):
    assert [False] * 7 + [True] * 3 == [made_after(contact, clock, 2) for _ in range(10)]


def test_short_gaps_do_not_matter(contact, clock):
    made_after(contact, clock, TIMEOUT)
    assert made_after(contact, clock, TIMEOUT)


def test_after_a_gap_longer_than_the_timeout_the_wait_starts_again(contact, clock):
    made_after(contact, clock, TIMEOUT)
    assert contact.record()
    assert not made_after(contact, clock, TIMEOUT + 0.1)
    assert not made_after(contact, clock, TIMEOUT - 0.1)
    assert made_after(contact, clock, 0.1)


def test_while_no_conductor_can_write_heartbeats_the_wait_starts_again(contact, clock):
    clock.time += TIMEOUT
    assert contact.record(silence=TIMEOUT / 2)
    assert not contact.record(silence=TIMEOUT / 2 + 0.1)
