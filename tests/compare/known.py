"""
Intended differences, read from docs/compatibility.md: each section is a reason, each row of its
tables a difference.

    | request | part | Ironic | Ingot | reason |

`*` stands for any text in each of the first four cells.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.compare.comparison import Difference

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
#: Heading of a section -> reason of its rows.
REASONS = {
    "Decided by the specs": "spec",
    "Additions": "addition",
    "Caused by the set-up": "set-up",
    "Defects of Ironic": "defect",
    "Worded differently": "words",
}
HEAD = ("request", "part", "Ironic", "Ingot", "reason")
_CELLS = re.compile(r"(?<!\\)\|")


class Unreadable(Exception):
    """A row of the page lacks cells."""


@dataclass(frozen=True)
class Known:
    """An intended difference, or a pattern of them, and its reason."""

    reason: str
    request: str
    part: str
    ironic: str
    ingot: str
    explanation: str

    def covers(self, label: str, difference: Difference) -> bool:
        return (
            _matches(self.request, label)
            and _matches(self.part, difference.part)
            and _matches(self.ironic, difference.ironic)
            and _matches(self.ingot, difference.ingot)
        )


def _matches(pattern: str, text: str) -> bool:
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None


def read(text: str) -> list[Known]:
    """Return the rows of a page. Raises Unreadable."""
    return list(_rows(text))


def _rows(text: str) -> Iterator[Known]:
    reason = None
    for line in text.splitlines():
        if line.startswith("## "):
            reason = REASONS.get(line[3:].strip())
        elif reason is not None and line.startswith("|"):
            cells = [
                word.strip().strip("`").replace(r"\|", "|") for word in _CELLS.split(line)[1:-1]
            ]
            if tuple(cells) == HEAD or set("".join(cells)) <= {"-", ":"}:
                continue
            if len(cells) != len(HEAD) or not all(cells):
                raise Unreadable(f"a row needs the cells {', '.join(HEAD)}: {line}")
            yield Known(reason, *cells)
