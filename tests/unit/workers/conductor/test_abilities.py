"""Proofs that the processes of a conductor do their work."""

import os
from contextlib import ExitStack

import pytest

from workers.conductor import abilities
from workers.conductor.abilities import ControlSigns, Echoes, Pulse, SharedText, StepThreads

PATIENCE = 7.5
LIMIT = 600.0


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(abilities, "time", clock)
    return clock


@pytest.fixture
def thread(monkeypatch):
    """Return a function that makes this thread another one."""

    def become(number):
        monkeypatch.setattr(abilities.threading, "get_ident", lambda: number)

    return become


def test_an_echo_is_sent_again_when_it_is_answered_and_ever_later_while_it_is_not(clock):
    pulse, echo_times = Pulse(), []
    for second in range(120):
        clock.now = 1000.0 + second
        if pulse.is_due(5.0):
            echo_times.append(second)
            if second < 20:
                clock.now += 0.5
                pulse.answer()
    assert [0, 5, 10, 15, 20, 30, 50, 80, 110] == echo_times


def test_a_lost_echo_is_sent_again_before_it_is_an_impediment():
    assert 2 * abilities.INTERVAL < abilities.LEAST
    assert abilities.patience(1.0) == abilities.LEAST


@pytest.mark.parametrize("is_first", [True, False])
def test_an_echo_that_was_not_sent_is_none_that_stays_unanswered(clock, monkeypatch, is_first):
    pulse = Pulse()
    clock.now += 5
    if not is_first:
        assert pulse.is_due(2.5)
        clock.now += 5
    assert pulse.is_due(2.5)

    def unreachable(*_):
        raise ConnectionError("refused")

    monkeypatch.setattr(abilities, "send_task", unreachable)
    Echoes(None, {"queue": pulse})._send("queue", pulse)
    clock.now += 2.5
    assert (0 if is_first else 7.5) == pulse.silence()
    assert is_first == pulse.is_due(2.5)


def test_silence_counts_from_the_first_unanswered_echo(clock):
    pulse = Pulse()
    clock.now += 500
    assert 0 == pulse.silence(), "an idle process that was not asked is not silent"
    assert pulse.is_due(5.0)
    clock.now += 40
    assert pulse.is_due(5.0)
    clock.now += 1
    assert 41 == pulse.silence()
    pulse.answer()
    assert 0 == pulse.silence()


def test_an_answer_of_a_forked_process_counts(clock):
    pulse = Pulse()
    clock.now += 1
    assert pulse.is_due(5.0)
    clock.now += 1
    assert 1 == pulse.silence()
    child = os.fork()
    if not child:
        pulse.answer()
        os._exit(0)
    os.waitpid(child, 0)
    assert 0 == pulse.silence()


def test_threads_that_leave_an_echo_unanswered_are_an_impediment_until_they_answer(clock):
    threads = StepThreads(2, LIMIT)
    clock.now += 1
    threads.pulse.is_due(2.5)
    clock.now += PATIENCE
    assert threads.impediment(PATIENCE) is None
    clock.now += 1
    assert "no thread has taken a message for 8 s" == threads.impediment(PATIENCE)
    threads.pulse.answer()
    assert threads.impediment(PATIENCE) is None


def test_threads_that_are_all_at_work_answer_no_echo_and_are_no_impediment(clock, thread):
    threads = StepThreads(2, LIMIT)
    clock.now += 1
    with ExitStack() as steps:
        for number in (1, 2):
            thread(number)
            steps.enter_context(threads.at_work())
        clock.now += 1
        threads.pulse.is_due(2.5)
        clock.now += LIMIT / 2
        assert threads.impediment(PATIENCE) is None
        clock.now += LIMIT
        assert "all 2 threads are in steps that exceed [conductor]step_timeout (600 s)" == (
            threads.impediment(PATIENCE)
        )
    assert threads.impediment(PATIENCE) is None, "the end of a step is an answer"


def test_one_thread_within_its_time_is_enough(clock, thread):
    threads = StepThreads(2, LIMIT)
    thread(1)
    with threads.at_work():
        clock.now += LIMIT + 1
        thread(2)
        with threads.at_work():
            assert threads.impediment(PATIENCE) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [(None, None), ("", None), ("no path", "no path"), ("ä" * 200, "ä" * 120)],
)
def test_a_shared_text_is_that_of_the_forked_process(text, value):
    shared = SharedText()
    shared.set("former")
    child = os.fork()
    if not child:
        shared.set(text)
        os._exit(0)
    os.waitpid(child, 0)
    assert value == shared.get()


def test_a_silent_control_process_is_an_impediment_and_its_network_another(clock):
    """A start of another incarnation ends the first, and not the second."""
    signs = ControlSigns()
    assert signs.impediment(PATIENCE) is None
    signs.network.set("it reaches none of 9 BMCs")
    assert signs.impediment(PATIENCE) is None
    assert "it reaches none of 9 BMCs" == signs.network.get()
    clock.now += 1
    signs.pulse.is_due(2.5)
    clock.now += 8
    assert "its control process has taken no message for 8 s" == signs.impediment(PATIENCE)
