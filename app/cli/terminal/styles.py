"""
Colours of states and of values that indicate a failure, for the command line and the demo.
"""

from collections.abc import Mapping

from app.lifecycle.provision_states import MACHINE, Kind, State

TROUBLE = "bold red"
#: Progress bars; the defaults of rich are red.
UNDER_WAY, OVER = "cyan", "green"
#: Kinds of provision states.
KINDS: Mapping[Kind, str] = {
    Kind.STABLE: "green",
    Kind.BUSY: "cyan",
    Kind.WAIT: "blue",
    Kind.HOLD: "yellow",
    Kind.FAILED: TROUBLE,
}
#: Provision states; "error" is a stable state, but the result of a failure.
STATES: Mapping[str, str] = {
    **{state.value: KINDS[row.kind] for state, row in MACHINE.items()},
    State.ERROR.value: TROUBLE,
}
#: States of operations, steps and allocations, and severities.
WORDS: Mapping[str, str] = {
    "queued": "blue", "running": "cyan", "waiting": "blue", "held": "yellow",
    "succeeded": "green", "done": "green", "failed": TROUBLE, "aborted": TROUBLE,
    "allocating": "cyan", "error": TROUBLE, "ERROR": TROUBLE, "WARNING": "yellow",
}  # fmt: skip
#: Boolean fields.
FLAGS: Mapping[tuple[str, bool], str] = {
    ("alive", True): "green", ("alive", False): TROUBLE, ("result", False): TROUBLE,
    ("maintenance", True): "yellow",
}  # fmt: skip
#: Fields that are empty unless something is wrong.
ERRORS = ("last_error", "error", "fault")
PROVISION = ("provision_state", "target_provision_state")


def of(field: str, value: object) -> str:
    """Return the style of a field's value; empty: the default."""
    if isinstance(value, bool):
        return FLAGS.get((field, value), "")
    if field in ERRORS:
        return "red" if value else ""
    if not isinstance(value, str):
        return ""
    if field in PROVISION or (field == "state" and value not in WORDS):
        return STATES.get(value, "")
    return WORDS.get(value, "") if field in ("state", "severity", "power_state") else ""


def of_row(item: Mapping[str, object]) -> str:
    """Return the style of a whole row; empty: each field has its own."""
    return TROUBLE if item.get("severity") == "ERROR" or item.get("alive") is False else ""
