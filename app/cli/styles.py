"""
Colours, one table for the command line and the demo: of states, and of values that mean trouble.
"""

from collections.abc import Mapping
from typing import Any

from app.states import MACHINE, Kind, State

TROUBLE = "bold red"
#: Of bars: rich's own are red.
UNDER_WAY, OVER = "cyan", "green"
#: Of provision states, by their kind.
KINDS: Mapping[Kind, str] = {
    Kind.STABLE: "green",
    Kind.BUSY: "cyan",
    Kind.WAIT: "blue",
    Kind.HOLD: "yellow",
    Kind.FAILED: TROUBLE,
}
#: Of provision states; "error" counts as stable, but is the result of a failure.
STATES: Mapping[str, str] = {
    **{state.value: KINDS[row.kind] for state, row in MACHINE.items()},
    State.ERROR.value: TROUBLE,
}
#: Of the states of operations, steps and allocations, and of severities.
WORDS: Mapping[str, str] = {
    "queued": "blue", "running": "cyan", "waiting": "blue", "held": "yellow",
    "succeeded": "green", "done": "green", "failed": TROUBLE, "aborted": TROUBLE,
    "allocating": "cyan", "error": TROUBLE, "ERROR": TROUBLE, "WARNING": "yellow",
}  # fmt: skip
#: Of flags.
FLAGS: Mapping[tuple[str, bool], str] = {
    ("alive", True): "green", ("alive", False): TROUBLE, ("result", False): TROUBLE,
    ("maintenance", True): "yellow",
}  # fmt: skip
#: Fields that are empty unless something is wrong.
ERRORS = ("last_error", "error", "fault")
PROVISION = ("provision_state", "target_provision_state")


def of(field: str, value: Any) -> str:
    """The style of a field's value, "" for none."""
    if isinstance(value, bool):
        return FLAGS.get((field, value), "")
    if field in ERRORS:
        return "red" if value else ""
    if not isinstance(value, str):
        return ""
    if field in PROVISION or (field == "state" and value not in WORDS):
        return STATES.get(value, "")
    return WORDS.get(value, "") if field in ("state", "severity", "power_state") else ""


def of_row(item: Mapping[str, Any]) -> str:
    """The style of a whole row; "" if each field has its own."""
    return TROUBLE if item.get("severity") == "ERROR" or item.get("alive") is False else ""
