"""The tables of docs/specs.md."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/specs.md"
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^\| (\w+) \| `([\w/]+\.py)` \|$", re.MULTILINE)
_TEST = re.compile(r"\w+::test_\w+")


@dataclass(frozen=True)
class Demand:
    """A row of a table. spec: title of its section, in lower case, with a hyphen for each space."""

    spec: str
    text: str
    tests: tuple[str, ...]  # as the page has them: file::test
    mutants: tuple[str, ...]  # ids


def files():
    """Short name of a test file -> its path, relative to the root."""
    return {name: f"tests/{path}" for name, path in _FILE.findall(PAGE.read_text())}


def demands():
    entries = []
    for title, text in _SECTION.findall(PAGE.read_text()):
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        if not rows or "mutant" not in rows[0]:  # decisions have none
            continue
        for row in rows[2:]:  # below the head
            demand, _code, tests, mutants = row.strip("|").split("|")
            entries.append(
                Demand(
                    spec=title.lower().replace(" ", "-"),
                    text=demand.strip(),
                    tests=tuple(_TEST.findall(tests)),
                    mutants=tuple(re.findall(r"[\w-]+", mutants)),
                )
            )
    return entries
