"""The power table: its principles, and each of its cells against a scripted BMC."""

import pytest

from drivers.core.errors import Busy, HardwareError, Refused, Unconfirmed, Unreachable
from drivers.core.interface_kinds import POWER_ON
from drivers.core.kinds.power_pursuit import PENDING
from drivers.core.kinds.power_settlement import (
    LASTING,
    Action,
    Answer,
    Order,
    Reading,
    decide,
    rows,
)
from drivers.core.steps import Done, Wait
from tests.unit.drivers.machines import target

from .conftest import OPPOSITE, WANTED, ScriptedPower, applied, call

ERRORS = {
    Answer.REFUSED: Busy("409: in transition"),
    Answer.FINAL: Refused("403: no right"),
    Answer.LOST: Unconfirmed("the connection was cut"),
}
CELLS = list(rows())


def test_the_table_has_each_cell_once():
    cells = [row[:4] for row in CELLS]
    assert len(set(cells)) == len(cells) == 3 * 2 * 5 * 4 + 5 * 5


@pytest.mark.parametrize("row", CELLS, ids=lambda row: "-".join(map(str, row[:4])))
def test_a_cell_follows_the_principles(row):
    order, doubted, answer, reading, rule = row
    both = {rule.first, rule.lasting}
    if Action.DONE in both:  # a success is what the BMC shows, or its word about a reset
        assert reading is Reading.REACHED or (order is Order.RESET and answer is Answer.TAKEN)
    if Action.SEND in both:
        assert answer is not Answer.FINAL
        assert reading is not Reading.SILENT
    if rule.first is Action.SEND:  # at once only what has had no effect for certain
        assert answer in (Answer.NONE, Answer.REFUSED)
    if answer in (Answer.TAKEN, Answer.LOST) and Action.SEND in both:
        assert (reading, rule.first) == (Reading.OTHER, Action.LOOK)
        assert doubted or answer is Answer.LOST
    if doubted and reading is Reading.REACHED:
        assert rule.first is not Action.DONE
    if Action.FAIL in both:
        assert answer in (Answer.NONE, Answer.FINAL) or reading is Reading.UNPROVEN
    assert rule.first is decide(order, answer, reading, LASTING, doubted=doubted)
    assert rule.lasting is decide(order, answer, reading, LASTING + 1, doubted=doubted)


#: All cells but those of a reset that is not sent: its readings precede the intent, see TestReset.
PLAYED = [row for row in CELLS if row[0] is not Order.RESET or row[2] is not Answer.NONE]


@pytest.mark.parametrize("row", PLAYED, ids=lambda row: "-".join(map(str, row[:4])))
def test_a_step_acts_as_its_cell_says(row):
    order, doubted, answer, reading, rule = row
    power = _showing(order, answer, reading)
    internal = {PENDING: {"state": OPPOSITE[WANTED[order]], "sweeps": 0}} if doubted else {}
    node = target(driver_internal_info=internal, disable_power_off=order is Order.RESET)
    if order is Order.RESET:
        intent = power.power_on(node)
        assert (0, None, 0) == (intent.poll_after, node.reports["agent"], power.orders)
        node = applied(node, intent)
    actions, node = _actions(power, order, node, answer)
    if rule.first is Action.SEND and answer is Answer.REFUSED:
        assert [Action.LOOK, Action.SEND] == actions  # a pause lies between
    elif rule.first is not Action.LOOK:
        assert [rule.first] == actions
    else:
        assert [*[Action.LOOK] * LASTING, rule.lasting] == actions
    assert (PENDING in node.driver_internal_info) == _is_pending(answer, actions, doubted)


def _showing(order, answer, reading):
    """Return a BMC that gives an answer, and then shows a reading for ever."""
    goal, is_reset = WANTED[order], order is Order.RESET
    state = {
        Reading.REACHED: goal, Reading.UNPROVEN: POWER_ON, Reading.MOVING: None,
        Reading.OTHER: POWER_ON if is_reset else OPPOSITE[goal],
        Reading.SILENT: Unreachable("no answer"),
    }[reading]  # fmt: skip
    earlier_state = POWER_ON if is_reset else OPPOSITE[goal]

    def read():
        return state if power.orders or answer is Answer.NONE else earlier_state

    def mark():
        if reading is Reading.UNPROVEN:
            return None
        return "later" if power.orders and reading is Reading.REACHED else "earlier"

    power = ScriptedPower(read, lambda: ERRORS.get(answer), mark)
    return power


def _actions(power, order, node, answer):
    """Call a step until it does more than read; return its actions after the first answer."""
    actions = []
    for _ in range(LASTING + 1):
        orders = power.orders
        try:
            outcome = call(power, order, node)
        except HardwareError as error:
            outcome = error
        node = applied(node, outcome)
        repeated = power.orders - orders - (not actions and answer is not Answer.NONE)
        if isinstance(outcome, Wait) or (repeated and answer is Answer.NONE):
            actions.append(Action.SEND if repeated else Action.LOOK)
        else:
            actions.append(Action.DONE if isinstance(outcome, Done) else Action.FAIL)
        if actions[-1] is not Action.LOOK:
            break
    return actions, node


def _is_pending(answer, actions, doubted):
    """Whether an order may still take effect after the actions of a cell."""
    if actions[-1] is Action.DONE:
        return False
    is_taken = answer is Answer.NONE and Action.SEND in actions
    return doubted or is_taken or answer in (Answer.TAKEN, Answer.LOST)
