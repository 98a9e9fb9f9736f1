"""Mutants: small changes of the tree, each of which breaks one demand of docs/specs.md."""

import tomllib
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    spec: str  # stem of its TOML file, which is the section of docs/specs.md
    id: str
    demand: str  # text of the row
    file: str  # relative to the root
    what: str  # text that occurs once in the file
    instead: str
    tests: tuple[str, ...]  # of the row, as docs/specs.md has them: file::test
    postgresql: bool = False  # only tests on PostgreSQL notice: they run, too

    def applied(self, text: str) -> str:
        """Raises ValueError: the text to be replaced does not occur exactly once."""
        if (occurrences := text.count(self.what)) != 1:
            raise ValueError(
                f"mutant {self.id}: {occurrences} times in {self.file}: {self.what!r}. Adapt `file`,"
                f" `what` and `instead` of the row in tests/mutants/{self.spec}.toml."
            )
        return text.replace(self.what, self.instead)


def load(folder: Path = FOLDER) -> list[Mutant]:
    """Mutants of all specs, by id."""
    mutants = []
    for path in folder.glob("*.toml"):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            mutant = Mutant(spec=path.stem, **entry)
            mutants.append(replace(mutant, tests=tuple(mutant.tests)))
    return sorted(mutants, key=lambda mutant: mutant.id)


def sample(mutants: list[Mutant], size: int, day: date | None = None) -> list[Mutant]:
    """
    Return the mutants of a day, at most `size`. Successive days cover all of them.

    day: None: today in UTC.
    """
    days = -(-len(mutants) // size)
    today = (day or datetime.now(UTC).date()).toordinal()
    return mutants[today % days :: days] if days else []
