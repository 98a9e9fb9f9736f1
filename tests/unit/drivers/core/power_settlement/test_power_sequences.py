"""Power steps: sequences of readings and answers, lost answers, and deaths."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies

from drivers.core.errors import (
    Busy,
    FailureCode,
    HardwareError,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT, SOFT_OFF
from drivers.core.kinds.power_pursuit import PENDING
from drivers.core.kinds.power_settlement import LASTING, Order
from drivers.core.steps import Done, Failed, Wait
from tests.unit.drivers.machines import target

from .conftest import OPPOSITE, WANTED, ScriptedPower, applied, call

#: Seconds that a step may poll.
BUDGET = 60.0


def run(power, order, node, attempts=40):
    """Run the step to its end; return its outcome: TIMEOUT after the budget."""
    seconds = BUDGET
    for _ in range(attempts):
        try:
            outcome = call(power, order, node)
        except HardwareError as error:
            return error, node
        node = applied(node, outcome)
        if not isinstance(outcome, Wait):
            return outcome, node
        if seconds <= 0:
            break
        assert outcome.poll_after <= 10
        seconds -= outcome.poll_after
    return Failed(outcome.reason or "", FailureCode.TIMEOUT), node


class Machine:
    """A machine that carries orders out after some readings, and a BMC that does not tell."""

    def __init__(self, state, script):
        self.state, self.script = state, script
        self.pending = []  # [readings until the effect, state]

    def draw(self):
        return self.script.pop(0) if self.script else ("honest", "taken", 0)

    def read(self):
        kind, _, _ = self.draw()
        for entry in self.pending:
            entry[0] -= 1
        for _, state in [entry for entry in self.pending if entry[0] < 0]:
            self.state = state
        self.pending = [entry for entry in self.pending if entry[0] >= 0]
        return {
            "honest": self.state, "null": None,
            "silent": Unreachable("cut"), "malformed": Unexpected("no JSON"),
        }[kind]  # fmt: skip

    def respond(self, state):
        _, kind, delay = self.draw()
        if kind in ("taken", "lost, carried out"):
            self.pending.append([delay, state])
        return {
            "taken": None, "taken, ignored": None,
            "lost, carried out": Unconfirmed("cut"), "lost, ignored": Unconfirmed("cut"),
            "busy": Busy("409"), "forbidden": Refused("403"), "unsupported": NotSupported("no"),
            "not sent": Unreachable("no route"), "error": Unexpected("no JSON"),
        }[kind]  # fmt: skip


EVENTS = strategies.tuples(
    strategies.sampled_from(["honest", "honest", "honest", "null", "silent", "malformed"]),
    strategies.sampled_from(
        ["taken", "taken, ignored", "lost, carried out", "lost, ignored", "busy", "busy",
         "forbidden", "unsupported", "not sent", "error"]
    ),
    strategies.integers(0, 8),
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    order=strategies.sampled_from([Order.ON, Order.OFF, Order.SOFT_OFF]),
    state=strategies.sampled_from([POWER_ON, POWER_OFF]),
    script=strategies.lists(EVENTS, max_size=60),
    pending=strategies.sampled_from([None, POWER_ON, POWER_OFF, "unknown"]),
    crashes=strategies.lists(strategies.integers(0, 12), max_size=2),
)
def test_any_sequence_of_readings_and_answers_ends_typed_and_never_repeats_blindly(
    order, state, script, pending, crashes
):
    machine, goal = Machine(state, script), WANTED[order]
    power = ScriptedPower(machine.read, lambda: machine.respond(goal))
    internal = {}
    if pending:
        noted = None if pending == "unknown" else pending
        internal = {PENDING: {"state": noted, "sweeps": 0}}
    node, seconds, deaths = target(driver_internal_info=internal), BUDGET, set()
    for attempt in range(60):
        try:
            outcome = call(power, order, node)
        except HardwareError as error:
            outcome = error
        if attempt in crashes:
            node = replace(node, resumed=True, crashes=node.crashes + 1, reports={})
            deaths.add(len(power.events))
            continue
        node = applied(node, outcome)
        if not isinstance(outcome, Wait) or seconds <= 0:
            break
        seconds -= outcome.poll_after
    assert isinstance(outcome, Done | Wait | Failed | HardwareError)
    if isinstance(outcome, Done):
        assert ("read", goal) == power.events[-1]
        assert PENDING not in node.driver_internal_info
        if pending == OPPOSITE[goal] and not deaths:
            # a failed request may be followed by a second one at once
            readings = [state for kind, state in power.events if kind == "read"]
            readings = [state for state in readings if not isinstance(state, HardwareError)]
            assert power.orders
            assert [goal] * (LASTING + 1) == readings[-LASTING - 1 :]
    elif power.orders and not deaths and isinstance(outcome, Wait):
        assert goal == node.driver_internal_info.get(PENDING, {}).get("state", goal)
    _check_repetitions(power.events, goal, deaths)


def _check_repetitions(events, goal, deaths):
    """Each repeated order was refused, not sent, or shown by lasting readings to have no effect."""
    previous_order = None
    for at, (kind, _) in enumerate(events):
        if kind != "order":
            continue
        if previous_order is not None and not any(previous_order < death <= at for death in deaths):
            error = events[previous_order][1]
            between = [state for _, state in events[previous_order + 1 : at]]
            between = [state for state in between if not isinstance(state, HardwareError)]
            settled = isinstance(error, Busy) or (
                isinstance(error, Unreachable) and not isinstance(error, Unconfirmed)
            )
            if not settled and goal in between:  # refused in the ordered state
                settled = isinstance(error, Refused | NotSupported)
            tail = between[-LASTING - 1 :]
            assert settled or tail == [OPPOSITE[goal]] * (LASTING + 1), (error, between)
        previous_order = at


@settings(max_examples=200, deadline=None)
@given(script=strategies.lists(EVENTS, max_size=40), has_mark=strategies.booleans())
def test_a_reset_is_repeated_only_with_proof_and_succeeds_only_by_an_answer_or_a_proof(
    script, has_mark
):
    machine, resets = Machine(POWER_ON, script), []

    def respond():
        error = machine.respond(POWER_ON)
        carried_out = bool(machine.pending)
        machine.pending.clear()
        resets.append((error, carried_out))
        return error

    def mark():
        return str(sum(carried_out for _, carried_out in resets)) if has_mark else None

    power = ScriptedPower(machine.read, respond, mark)
    outcome, _ = run(power, Order.RESET, target(disable_power_off=True))
    for error, carried_out in resets[:-1]:
        unsent = isinstance(error, Unreachable) and not isinstance(error, Unconfirmed)
        assert isinstance(error, Busy) or unsent or (has_mark and not carried_out)
    if isinstance(outcome, Done):
        error, carried_out = resets[-1]
        assert error is None or (has_mark and carried_out)


def script_of(*readings):
    """Return a function that reads the states in turn, the last one for ever."""
    states = list(readings)
    return lambda: states.pop(0) if len(states) > 1 else states[0]


def test_five_null_states_are_waited_through_without_an_order():
    power = ScriptedPower(script_of(*[None] * 5, POWER_ON))
    outcome, node = run(power, Order.ON, target())
    assert (Done(), 0) == (outcome, power.orders)
    assert PENDING not in node.driver_internal_info


def test_a_lost_read_after_a_taken_order_does_not_fail_the_step():
    cut = Unreachable("cut")
    power = ScriptedPower(script_of(POWER_ON, cut, cut, cut, cut, POWER_OFF))
    outcome, _ = run(power, Order.OFF, target())
    assert (Done(), 1) == (outcome, power.orders)


def test_a_machine_that_is_unreachable_before_an_order_fails_at_once():
    power = ScriptedPower(script_of(Unreachable("cut")))
    outcome, _ = run(power, Order.OFF, target())
    assert (True, 1) == (isinstance(outcome, Unreachable), len(power.events))


def test_the_end_of_the_time_names_the_last_refusal_of_the_bmc():
    power = ScriptedPower(script_of(POWER_OFF), lambda: Busy("409: it cools down"))
    outcome, node = run(power, Order.ON, target())
    assert FailureCode.TIMEOUT == outcome.code
    assert "409: it cools down; the BMC shows 'power off'" == outcome.reason
    assert 5 < power.orders < 15
    assert PENDING not in node.driver_internal_info  # a refused order is not pending


def test_the_last_order_counts_while_an_earlier_one_is_pending():
    """A power off that could not be sent replaces the pending power on."""
    power = ScriptedPower(script_of(Unreachable("cut")))
    pending = {PENDING: {"state": POWER_ON, "sweeps": 1}}
    node = target(driver_internal_info=pending)
    with pytest.raises(Unreachable):
        power.power_off(node)
    assert {PENDING: {"state": POWER_OFF, "sweeps": 0}} == node.reports["driver_internal_info"]


def test_a_verification_waits_for_a_settled_power_state():
    power, node = ScriptedPower(script_of(None, None, POWER_ON)), target()
    wait = power.read(node)
    assert (0.5, 60) == (wait.poll_after, wait.timeout)
    node = replace(node, progress=wait.progress)
    node = replace(node, progress=power.read(node).progress)
    assert (Done(), POWER_ON) == (power.read(node), node.reports["power_state"])


def test_an_off_state_after_a_pending_power_on_is_not_believed():
    """Abort right after `On`: the BMC shows off until the machine starts."""
    states = script_of(*[POWER_OFF] * 4, POWER_ON, POWER_ON, POWER_OFF)
    power = ScriptedPower(states)
    node = target(driver_internal_info={PENDING: {"state": POWER_ON, "sweeps": 0}})
    outcome, node = run(power, Order.OFF, node)
    assert Done() == outcome
    assert PENDING not in node.driver_internal_info
    reads = [state for kind, state in power.events if kind == "read"]
    assert [POWER_OFF] * (LASTING + 1) == reads[-LASTING - 1 :]


def test_a_machine_that_starts_despite_the_first_order_is_switched_off_again():
    def read():
        orders = power.orders
        reads = sum(kind == "read" for kind, _ in power.events)
        return POWER_ON if orders == 1 and reads > 3 else POWER_OFF

    power = ScriptedPower(read)
    node = target(driver_internal_info={PENDING: {"state": None, "sweeps": 0}})
    outcome, _ = run(power, Order.OFF, node)
    assert (Done(), 2) == (outcome, power.orders)


def test_an_order_of_a_conductor_that_died_is_looked_for_before_another_one():
    machine = Machine(POWER_OFF, [])
    machine.pending.append([4, POWER_ON])  # ordered before the death
    power = ScriptedPower(machine.read, lambda: machine.respond(POWER_ON))
    assert (Done(), 0) == (run(power, Order.ON, target(resumed=True))[0], power.orders)


def test_an_order_of_the_previous_release_is_not_repeated_at_once():
    power = ScriptedPower(script_of(*[POWER_OFF] * 3, POWER_ON))
    node = target(progress={"ordered": True, "looks": 2})
    assert (Done(), 0) == (run(power, Order.ON, node)[0], power.orders)


class TestReset:
    """ForceRestart of machines that must not be powered off."""

    def run(self, answers, marks=lambda: None, **fields):
        power = ScriptedPower(script_of(POWER_ON), lambda: answers.pop(0), marks)
        return *run(power, Order.RESET, target(disable_power_off=True, **fields)), power

    def test_a_lost_answer_without_a_proof_is_not_confirmed_and_not_repeated(self):
        outcome, _, power = self.run([Unconfirmed("cut")])
        assert (FailureCode.UNCONFIRMED, 1) == (outcome.code, power.orders)
        assert "not confirmed" in outcome.reason

    def test_a_later_time_of_the_last_reset_proves_it(self):
        times = ["12:00", "12:00", "12:05"]
        outcome, _, power = self.run(
            [Unconfirmed("cut")], lambda: times.pop(0) if len(times) > 1 else times[0]
        )
        assert (Done(), 1) == (outcome, power.orders)

    def test_an_unchanged_time_of_the_last_reset_allows_another_one(self):
        answers = [Unconfirmed("cut"), None]
        outcome, _, power = self.run(answers, lambda: "12:00")
        assert (Done(), 2) == (outcome, power.orders)

    def test_a_death_after_the_intent_counts_as_a_lost_answer(self):
        intent = {"last_reset": None, "after_death": False}
        outcome, _, power = self.run([], progress=intent, resumed=True)
        assert (FailureCode.UNCONFIRMED, 0) == (outcome.code, power.orders)

    def test_a_machine_that_is_found_off_is_switched_on(self):
        power = ScriptedPower(lambda: POWER_ON if power.orders else POWER_OFF)
        outcome, _ = run(power, Order.RESET, target(disable_power_off=True))
        assert (Done(), 1) == (outcome, power.orders)


def test_a_reboot_goes_on_after_a_conflict():
    answers = [None, Busy("409"), Busy("409"), None]
    power = ScriptedPower(
        lambda: POWER_ON if power.orders in (0, 4) else POWER_OFF, lambda: answers.pop(0)
    )
    node = target()
    for _ in range(20):
        outcome = power.change(node, REBOOT)
        node = applied(node, outcome)
        if isinstance(outcome, Done):
            break
    assert (Done(), 4) == (outcome, power.orders)


def test_a_soft_power_off_is_not_repeated_after_a_lost_answer():
    power = ScriptedPower(script_of(POWER_ON), lambda: Unconfirmed("cut"))
    outcome, _ = run(power, Order(SOFT_OFF), target())
    assert (FailureCode.TIMEOUT, 1) == (outcome.code, power.orders)


@pytest.mark.parametrize(("crashes", "orders"), [(1, 1), (2, 0)])
def test_only_a_death_after_the_power_off_of_a_reboot_puts_its_power_on_in_doubt(crashes, orders):
    """One death was while it was switched off; another one may have lost the power on."""
    power = ScriptedPower(lambda: POWER_OFF)
    node = target(progress={"phase": "on", "crashes": 1}, crashes=crashes, resumed=True)
    power.change(node, "rebooting")
    assert orders == power.orders
