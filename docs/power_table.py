"""The power table of hardware.md, generated from `drivers.core.kinds.power_settlement`."""

from collections.abc import Iterator

from docs.markdown import Lines, table
from drivers.core.kinds.power_settlement import (
    Action,
    Answer,
    Order,
    Reading,
    Rule,
    readings,
    rule_of,
)

#: Title -> orders with equal rules, and whether an earlier order may still take effect.
_TABLES = {
    "Power on, power off": ((Order.ON, Order.OFF), False),
    "Soft power off": ((Order.SOFT_OFF,), False),
    "Reset of a machine that must not be powered off": ((Order.RESET,), False),
    "Power on, power off while an earlier order for the opposite state is pending": (
        (Order.ON, Order.OFF),
        True,
    ),
    "Soft power off while an earlier power on is pending": ((Order.SOFT_OFF,), True),
}
_ANSWERS = {
    Answer.NONE: "not sent yet, or provably not sent",
    Answer.TAKEN: "taken",
    Answer.REFUSED: "refused for now",
    Answer.FINAL: "refused for good",
    Answer.LOST: "unknown",
}


def power_table() -> Lines:
    for title, (orders, doubted) in _TABLES.items():
        yield f"### {title}\n"
        columns = readings(orders[0])
        yield from table(
            ("answer to the order", *(f"shown: {reading}" for reading in columns)),
            (_row(orders, answer, columns, doubted=doubted) for answer in Answer),
        )


def _row(
    orders: tuple[Order, ...], answer: Answer, columns: tuple[Reading, ...], *, doubted: bool
) -> Iterator[str]:
    yield _ANSWERS[answer]
    for reading in columns:
        cells = {rule_of(order, answer, reading, doubted=doubted) for order in orders}
        (rule,) = cells  # else the orders need tables of their own
        yield _cell(rule)


def _cell(rule: Rule) -> str:
    if rule.first is rule.lasting:
        return _action(rule.first)
    return f"{_action(rule.first)}; once it lasts: {_action(rule.lasting)}"


def _action(action: Action) -> str:
    return f"**{action}**" if action in (Action.DONE, Action.FAIL) else str(action)
