import asyncio
import threading
import time
from contextlib import suppress

import pytest

from drivers.core.bmc import Bmcs, Urgency
from drivers.core.errors import Refused, Unreachable
from tests.support.fleet import until


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def fail(bmcs, error=Unreachable):
    with suppress(error), bmcs.turn("b") as bmc:
        bmc.connection = "kept"
        raise error("no")


def test_a_silent_bmc_is_retried_at_growing_intervals():
    clock = Clock()
    bmcs = Bmcs(trip_after=2, cool_down=5, cool_down_max=8, clock=clock)
    fail(bmcs)
    fail(bmcs)
    assert bmcs.get("b").connection is None
    with pytest.raises(Unreachable, match="not asked again for 5 s"), bmcs.turn("b"):
        pass
    clock.now += 5
    fail(bmcs)
    assert 8 == bmcs.get("b").open_until - clock.now
    assert 3 == bmcs.get("b").failures
    clock.now += 8
    with bmcs.turn("b"):
        pass
    assert 0 == bmcs.get("b").failures


def test_the_interval_between_two_commands_is_the_default_unless_a_bmc_needs_more():
    bmcs = Bmcs(gap=0.05)
    began = []
    for gap in (None, None, 0.2):
        with bmcs.turn("a", gap=gap):
            began.append(time.monotonic())
    assert began[1] - began[0] >= 0.05
    assert began[2] - began[1] >= 0.2


def test_a_refusal_is_an_answer():
    bmcs = Bmcs()
    fail(bmcs)
    fail(bmcs, Refused)
    assert (0, "kept") == (bmcs.get("b").failures, bmcs.get("b").connection)


def test_threads_and_coroutines_get_turns_one_at_a_time_by_urgency():
    bmcs, order = Bmcs(), []
    with bmcs.turn("b"):
        waiting = [
            threading.Thread(target=lambda: asyncio.run(sweep())),
            threading.Thread(target=lambda: command("read", Urgency.SYNC)),
            threading.Thread(target=lambda: command("order", Urgency.ORDER)),
        ]

        async def sweep():
            async with bmcs.async_turn("b", Urgency.SYNC):
                order.append("sweep")

        def command(name, urgency):
            with bmcs.turn("b", urgency):
                order.append(name)

        for count, thread in enumerate(waiting, 1):
            thread.start()
            until(lambda count=count: len(bmcs.get("b")._queue) == count)
    for thread in waiting:
        thread.join(60)
    assert ["order", "sweep", "read"] == order


def test_callers_that_wait_for_a_failed_bmc_do_not_try_it_as_well():
    bmcs, refused = Bmcs(trip_after=1), []

    def late():
        try:
            with bmcs.turn("b"):
                refused.append("tried it")
        except Unreachable as error:
            refused.append(str(error))

    thread = threading.Thread(target=late)
    with suppress(Unreachable), bmcs.turn("b"):
        thread.start()
        until(lambda: bmcs.get("b")._queue)
        raise Unreachable("dead")
    thread.join(60)
    assert 1 == bmcs.get("b").failures
    assert "not asked again" in refused[0]


def test_a_request_for_a_turn_that_times_out_leaves_the_queue():
    bmcs = Bmcs()

    async def timed_out():
        async with bmcs.async_turn("b", max_wait=0.01):
            pass

    with bmcs.turn("b"):
        with pytest.raises(Unreachable, match="busy"), bmcs.turn("b", max_wait=0.01):
            pass
        with pytest.raises(Unreachable, match="busy"):
            asyncio.run(timed_out())
    with bmcs.turn("b", max_wait=0.01):
        pass
    assert 0 == bmcs.get("b").failures


def test_each_command_is_observed_with_its_result_and_its_time():
    clock, observations = Clock(), []
    bmcs = Bmcs(trip_after=1, clock=clock, observe=lambda *facts: observations.append(facts))
    with bmcs.turn("b"):
        clock.now += 2
        with pytest.raises(Unreachable, match="busy"), bmcs.turn("b", max_wait=0):
            pass
    fail(bmcs, Refused)
    fail(bmcs)
    with pytest.raises(Unreachable), bmcs.turn("b", Urgency.SYNC):
        pass
    assert [
        ("b", "order", "busy", 0.0),
        ("b", "order", "answered", 2.0),
        ("b", "order", "error", 0.0),
        ("b", "order", "unanswered", 0.0),
        ("b", "sync", "breaker", 0.0),
    ] == observations


def test_the_pause_before_a_command_is_not_a_part_of_its_time():
    observations = []
    bmcs = Bmcs(gap=1.0, observe=lambda *facts: observations.append(facts))
    for _ in range(2):
        with bmcs.turn("b"):
            pass
    assert [True, True] == [seconds < 0.9 for *_, seconds in observations]
