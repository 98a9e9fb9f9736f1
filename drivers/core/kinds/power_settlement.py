"""
The power table: next action of a power step, by its order, the BMC's answer and a reading.

`decide` is the only source of these decisions; docs/hardware.md renders `rows`. The principles:

- A reading decides, not an answer: a step succeeds only when the BMC shows the ordered state.
- An order is sent again only if readings have shown that it had no effect.
- A reading that may be older than the effect of an earlier order is not believed at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

#: Consecutive equal readings that count as lasting: about ten seconds, with the pauses of a step.
LASTING = 6


class Order(StrEnum):
    """Order of a power step."""

    ON = "power on"
    OFF = "power off"
    SOFT_OFF = "soft power off"
    RESET = "rebooting"  # of a machine that must not be powered off


class Answer(StrEnum):
    """Knowledge about the order that a step has sent last."""

    NONE = "not sent"
    TAKEN = "taken"
    REFUSED = "refused for now"  # 400, 409, 429, 503, POST, IPMI node busy
    FINAL = "refused for good"  # 403, unsupported
    LOST = "unknown"  # the answer was lost, or is a server error; or the conductor died


class Reading(StrEnum):
    """A power state that the BMC shows, compared with the order."""

    REACHED = "the ordered state"  # RESET: on, and the BMC shows a later time of its last reset
    OTHER = "the other state"  # RESET: on, and the time of the last reset is unchanged
    UNPROVEN = "on"  # RESET, if the BMC shows no time of its last reset
    MOVING = "no settled state"  # PowerState is null, transitional or unknown
    SILENT = "no answer"


class Action(StrEnum):
    """Next action of a power step."""

    DONE = "succeed"
    SEND = "send the order"
    LOOK = "read again"  # until the deadline of the step
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Rule:
    """Action after a reading, and after `LASTING` consecutive ones."""

    first: Action
    lasting: Action


D, S, L, F = Action.DONE, Action.SEND, Action.LOOK, Action.FAIL

#: Rules of all orders.
RULES: Mapping[tuple[Answer, Reading], Rule] = {
    (Answer.NONE, Reading.REACHED): Rule(D, D),
    (Answer.NONE, Reading.OTHER): Rule(S, S),
    (Answer.NONE, Reading.UNPROVEN): Rule(S, S),
    (Answer.NONE, Reading.MOVING): Rule(L, S),
    (Answer.NONE, Reading.SILENT): Rule(F, F),
    (Answer.TAKEN, Reading.REACHED): Rule(D, D),
    (Answer.TAKEN, Reading.OTHER): Rule(L, L),
    (Answer.TAKEN, Reading.UNPROVEN): Rule(D, D),
    (Answer.TAKEN, Reading.MOVING): Rule(L, L),
    (Answer.TAKEN, Reading.SILENT): Rule(L, L),
    (Answer.REFUSED, Reading.REACHED): Rule(D, D),
    (Answer.REFUSED, Reading.OTHER): Rule(S, S),
    (Answer.REFUSED, Reading.UNPROVEN): Rule(S, S),
    (Answer.REFUSED, Reading.MOVING): Rule(L, S),
    (Answer.REFUSED, Reading.SILENT): Rule(L, L),
    (Answer.FINAL, Reading.REACHED): Rule(D, D),
    (Answer.FINAL, Reading.OTHER): Rule(F, F),
    (Answer.FINAL, Reading.UNPROVEN): Rule(F, F),
    (Answer.FINAL, Reading.MOVING): Rule(L, F),
    (Answer.FINAL, Reading.SILENT): Rule(L, L),
    (Answer.LOST, Reading.REACHED): Rule(D, D),
    (Answer.LOST, Reading.OTHER): Rule(L, S),
    (Answer.LOST, Reading.UNPROVEN): Rule(L, F),
    (Answer.LOST, Reading.MOVING): Rule(L, L),
    (Answer.LOST, Reading.SILENT): Rule(L, L),
}
#: Rules of one order that differ, also while it is doubted.
EXCEPTIONS: Mapping[tuple[Order, Answer, Reading], Rule] = {
    # an operating system may take minutes to shut down: that it runs proves nothing
    (Order.SOFT_OFF, Answer.LOST, Reading.OTHER): Rule(L, L),
    (Order.SOFT_OFF, Answer.TAKEN, Reading.OTHER): Rule(L, L),
    # a machine is not booted blindly out of an unknown state
    (Order.RESET, Answer.NONE, Reading.MOVING): Rule(L, L),
    (Order.RESET, Answer.REFUSED, Reading.MOVING): Rule(L, L),
    # BMCs update the time of the last reset late
    (Order.RESET, Answer.TAKEN, Reading.OTHER): Rule(D, D),
}
#: Rules while an earlier order for the opposite state may still take effect: the ordered state
#: counts once it lasts, and an order that the earlier one has undone is sent again.
DOUBTED: Mapping[tuple[Answer, Reading], Rule] = {
    (Answer.NONE, Reading.REACHED): Rule(S, S),
    (Answer.TAKEN, Reading.REACHED): Rule(L, D),
    (Answer.TAKEN, Reading.OTHER): Rule(L, S),
    (Answer.REFUSED, Reading.REACHED): Rule(L, D),
    (Answer.FINAL, Reading.REACHED): Rule(L, D),
    (Answer.LOST, Reading.REACHED): Rule(L, D),
}


def rule_of(order: Order, answer: Answer, reading: Reading, *, doubted: bool = False) -> Rule:
    """Return the rule of a cell of the table."""
    rules = {**RULES, **DOUBTED} if doubted else RULES
    return EXCEPTIONS.get((order, answer, reading), rules[answer, reading])


def decide(
    order: Order, answer: Answer, reading: Reading, looks: int, *, doubted: bool = False
) -> Action:
    """
    Return the next action of a power step.

    looks: consecutive equal readings since the order was sent, this one included.
    doubted: an earlier order for the opposite state may still take effect; never for RESET.
    """
    rule = rule_of(order, answer, reading, doubted=doubted)
    return rule.lasting if looks > LASTING else rule.first


def readings(order: Order) -> tuple[Reading, ...]:
    """Return the readings that an order may be compared with."""
    return tuple(
        reading for reading in Reading if order is Order.RESET or reading is not Reading.UNPROVEN
    )


def rows() -> Iterator[tuple[Order, bool, Answer, Reading, Rule]]:
    """Yield all cells of the table: order, whether it is doubted, answer, reading, rule."""
    for order in Order:
        for doubted in (False, True) if order is not Order.RESET else (False,):
            for answer in Answer:
                for reading in readings(order):
                    rule = rule_of(order, answer, reading, doubted=doubted)
                    yield order, doubted, answer, reading, rule
