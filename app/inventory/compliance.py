"""Compliance of nodes with baselines, as comparisons have recorded it, in words."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import Baseline, BaselineNode, Compliance
from app.text.sentences import enumerated

Difference = Mapping[str, object]  # field, operator, expected, actual, since

#: Most differences in a sentence.
MOST_NAMED = 5


def summary(differences: Sequence[Difference]) -> str:
    """Describe differences, in one phrase."""
    phrases = [_phrase(difference) for difference in differences[:MOST_NAMED]]
    return enumerated(phrases, MOST_NAMED, separator="; ", total=len(differences))


def _phrase(difference: Difference) -> str:
    actual, expected = difference["actual"], difference["expected"]
    values = ", ".join(map(_shown, expected)) if isinstance(expected, list) else _shown(expected)
    fact = "is unknown" if actual is None else f"is {_shown(actual)}"
    return f"{difference['field']} {fact}, expected {difference['operator']} {values}"


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def deviations(session: Session, node_id: int) -> list[str]:
    """Describe the baselines that a node differs from, a phrase for each."""
    query = (
        select(Baseline.name, BaselineNode.differences)
        .join(Baseline, Baseline.id == BaselineNode.baseline_id)
        .where(BaselineNode.node_id == node_id, BaselineNode.state == Compliance.DIFFERS)
        .order_by(Baseline.name)
    )
    return [
        f"it differs from baseline {name}: {summary(differences)}"
        for name, differences in session.execute(query)
    ]
