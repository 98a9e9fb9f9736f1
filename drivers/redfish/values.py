"""Values of a BMC's documents, in types and lengths that the database can store."""

from collections.abc import Mapping
from typing import Any

#: Characters of a text that are kept: as many as a column holds.
LONGEST = 255
#: Above this, JSON readers disagree about a number.
_LARGEST = 2**53


def text(value: object, longest: int = LONGEST) -> str | None:
    """A text without control characters, cut to a length; None for anything else, or nothing."""
    return printable(value[:longest]).strip() or None if isinstance(value, str) else None


def printable(value: str) -> str:
    """A text without the characters that databases refuse."""
    return "".join(each for each in value if each.isprintable())


def number(value: object, least: int = 1, most: int = _LARGEST) -> int | None:
    """A whole number in a range, which may be written as text; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= len(str(_LARGEST)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if least <= value <= most else None


def word(value: object) -> str:
    """The Redfish word that a member of one of sushy's enumerations stands for, or ""."""
    return text(getattr(value, "value", value)) or ""


def is_present(document: object) -> bool:
    """Whether a part is there at all: an empty socket or bay has a document that says Absent."""
    return bool(entry(entry(document, "Status"), "State") != "Absent")


def entry(document: object, name: str) -> Any:
    """What a JSON object has under a name; None where it is no object, or has nothing there."""
    return document.get(name) if isinstance(document, Mapping) else None
