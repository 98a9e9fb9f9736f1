"""
Result of a run: differences per request, totals, and known differences that did not occur.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.compare.comparison import ABSENT, WORDS, Difference
from tests.compare.known import Known


@dataclass(frozen=True)
class Finding:
    """A request, and the differences between its responses."""

    table: str
    label: str
    differences: Sequence[Difference]


@dataclass
class Report:
    """All findings, by whether the known differences cover them."""

    entries: Sequence[Known]
    counts: Counter[str] = field(default_factory=Counter)
    unlisted: list[Finding] = field(default_factory=list)
    matches: set[Known] = field(default_factory=set)

    def add(self, finding: Finding) -> None:
        """Count a request."""
        self.counts["sent"] += 1
        self.counts["in other words"] += any(
            difference.part == WORDS for difference in finding.differences
        )
        unlisted = [
            difference
            for difference in finding.differences
            if not self._is_known(finding.label, difference)
        ]
        if unlisted:
            self.unlisted.append(Finding(finding.table, finding.label, unlisted))
        other_differences = [
            difference for difference in finding.differences if not _is_added_header(difference)
        ]
        self.counts["unlisted" if unlisted else "listed" if other_differences else "equal"] += 1

    def _is_known(self, label: str, difference: Difference) -> bool:
        covering = [entry for entry in self.entries if entry.covers(label, difference)]
        self.matches.update(covering)
        return bool(covering)

    @property
    def stale(self) -> list[Known]:
        """Known differences that no request had."""
        return [entry for entry in self.entries if entry not in self.matches]

    def lines(self) -> Iterator[str]:
        """Yield the differences that are not listed, as text."""
        table = None
        for finding in self.unlisted:
            if finding.table != table:
                table = finding.table
                yield f"== {table}"
            yield finding.label
            for difference in finding.differences:
                yield f"    {difference.part}: Ironic {difference.ironic}, Ingot {difference.ingot}"

    def summary(self) -> str:
        """One line of counts."""
        counts = self.counts
        return (
            f"{counts['sent']} requests: {counts['equal']} answered alike but for headers that"
            f" Ingot adds, {counts['listed']}"
            f" differ with a reason, {counts['unlisted']} without; {counts['in other words']} are"
            " errors in other words"
        )


def _is_added_header(difference: Difference) -> bool:
    return difference.part.startswith("header ") and difference.ironic == ABSENT
