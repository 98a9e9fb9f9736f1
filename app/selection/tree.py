"""Tree of a selection: comparisons and words, joined by "and", "or" and "not"."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Operator(StrEnum):
    """Sign of a comparison."""

    EQUAL = "="
    CONTAINS = "~"
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with wildcards: its fixed parts, between which any characters may be."""

    parts: Sequence[str]


#: A time is one of the calendar, in UTC and without offset, or a time span before now.
Value = str | Pattern | bool | float | datetime | timedelta


@dataclass(frozen=True, slots=True)
class Comparison:
    """A field, compared with any of some values. `keys`: the path in a document."""

    field: str
    operator: Operator
    values: Sequence[Value]
    keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Word:
    """A word without a field: any of the fields that free words search has it."""

    value: str | Pattern


@dataclass(frozen=True, slots=True)
class Not:
    """Everything that a part does not select."""

    part: "Tree"


@dataclass(frozen=True, slots=True)
class All:
    """Nodes that all parts select."""

    parts: Sequence["Tree"]


@dataclass(frozen=True, slots=True)
class Some:
    """Nodes that at least one part selects."""

    parts: Sequence["Tree"]


Tree = Comparison | Word | Not | All | Some


def fields_of(tree: Tree) -> frozenset[str]:
    """Return the names of the fields that a tree compares."""
    match tree:
        case Comparison(field=field):
            return frozenset({field})
        case Not(part=part):
            return fields_of(part)
        case All(parts=parts) | Some(parts=parts):
            return frozenset().union(*map(fields_of, parts))
    return frozenset()
