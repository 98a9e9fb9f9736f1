"""Restarts of the supervisor's children."""

import time

import pytest

from workers.supervisor import children
from workers.supervisor.children import FIRST_DELAY, LONGEST_DELAY, Child


@pytest.fixture
def child():
    return Child("api", "api", work=lambda: None, pid=1, delay=LONGEST_DELAY)


def wait_of(child, ran, monkeypatch):
    """Return the seconds that a child waits, which ended after `ran` seconds."""
    now = time.monotonic()
    monkeypatch.setattr(children.time, "monotonic", lambda: now)
    child.started = now - ran
    child.ended()
    return child.restart_at - now


def test_a_child_that_ends_soon_after_each_start_waits_longer_each_time(child, monkeypatch):
    child.delay = FIRST_DELAY
    waits = [wait_of(child, 0.5, monkeypatch) for _ in range(10)]
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])


def test_a_child_that_has_worked_for_some_seconds_restarts_at_once(child, monkeypatch):
    assert wait_of(child, 10, monkeypatch) == pytest.approx(FIRST_DELAY)
