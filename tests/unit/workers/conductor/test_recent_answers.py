"""Answers of slow reads that are given again."""

from itertools import count

import pytest

from workers.conductor import recent_answers
from workers.conductor.recent_answers import MOST, RecentAnswers


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(recent_answers.time, "monotonic", lambda: now[0])
    return now


def test_an_answer_is_given_again_until_it_is_too_old(clock):
    recent, read = RecentAnswers(), count().__next__
    assert [0, 0, 1] == [recent.answer(key, 10, read) for key in ("a", "a", "b")]
    clock[0] += 9.9
    assert 0 == recent.answer("a", 10, read)
    clock[0] += 0.1
    assert 2 == recent.answer("a", 10, read)


@pytest.mark.usefixtures("clock")
def test_the_oldest_answers_are_forgotten():
    recent, read = RecentAnswers(), count().__next__
    for key in range(MOST + 1):
        recent.answer(key, 10, read)
    assert MOST == recent.answer(MOST, 10, read)
    assert MOST + 1 == recent.answer(0, 10, read)
    assert MOST == len(recent._answers)


@pytest.mark.usefixtures("clock")
def test_an_error_is_not_kept():
    recent = RecentAnswers()
    with pytest.raises(ZeroDivisionError):
        recent.answer("a", 10, lambda: 1 / 0)
    assert 7 == recent.answer("a", 10, lambda: 7)
