"""Conversion of values in a BMC's documents to types and lengths that the database can store."""

from collections.abc import Iterable, Mapping
from typing import Any

from drivers.core.interface_kinds import POWER_OFF, POWER_ON

#: Settled PowerStates -> Ironic's power states. All other values, null and a missing one mean that
#: the machine is in transition, or that the BMC does not know its state yet.
STATES: Mapping[object, str] = {"On": POWER_ON, "Off": POWER_OFF}
#: Most characters of a text: the length of the database columns.
LONGEST = 255
#: Largest number that all JSON parsers read alike.
_LARGEST = 2**53


def text(value: object, max_length: int = LONGEST) -> str | None:
    """Return a text cut to `longest`, without control characters; None for others, or if empty."""
    return printable(value[:max_length]).strip() or None if isinstance(value, str) else None


def printable(value: str) -> str:
    """Remove the characters that databases refuse."""
    return "".join(character for character in value if character.isprintable())


def number(value: object, minimum: int = 1, maximum: int = _LARGEST) -> int | None:
    """Return a whole number in a range, also one written as text; None for other values."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= len(str(_LARGEST)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if minimum <= value <= maximum else None


def word(value: object) -> str:
    """Return the Redfish value of a text or of a member of sushy's enumerations; "" for others."""
    return text(getattr(value, "value", value)) or ""


def by_word(values: Iterable[Any]) -> dict[str, Any]:
    """Return members of sushy's enumerations by their Redfish values."""
    return {word(value): value for value in values}


def is_present(document: object) -> bool:
    """Whether a part exists; an empty socket or bay has a document with the state Absent."""
    return bool(entry(document, "Status", "State") != "Absent")


def entry(document: object, *names: str) -> Any:
    """Return the item that names lead to in nested JSON objects; None if there is none."""
    for name in names:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def elements(document: object, *names: str) -> list[Any]:
    """Return the list that names lead to; empty if there is none, or it is no list."""
    value = entry(document, *names)
    return value if isinstance(value, list) else []


def link_path(document: object, *names: str) -> str | None:
    """Return the path of the link that names lead to; None if there is none."""
    path = entry(document, *names, "@odata.id")
    return path if isinstance(path, str) and path else None


def link_paths(document: object, *names: str) -> list[str]:
    """Return the paths in the list of links that names lead to; empty if there is none."""
    return [path for item in elements(document, *names) if (path := link_path(item))]


def last_part(path: str) -> str:
    """Return the last part of a path, which often is the Id of its resource."""
    return path.rstrip("/").rpartition("/")[2]


def ironic_power_state(value: object) -> str | None:
    """Convert a PowerState to Ironic's power state; None if the state is not settled."""
    return STATES.get(value) if isinstance(value, str) else None
