"""
Measured numbers in comparisons: those of nodes, the median of a group, and what differs of a step.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app.baselines.rules import OF_GROUP, Kind, Rule
from app.inventory import benchmarks
from app.models import Benchmark, Node

#: Newest numbers of a metric, of all nodes, among which those of a group are sought; nodes of a
#: group without which it has no median.
NEWEST, FEWEST = 5000, 3


def of_nodes(
    session: Session, ids: Sequence[int], rules: Sequence[Rule]
) -> Mapping[int, Mapping[str, Sequence[float]]]:
    """Return the numbers that rules name, by the ids of nodes and the metrics; the newest first."""
    metrics = sorted({rule.key for rule in rules if rule.field.kind is Kind.MEASURE})
    return benchmarks.recent(session, ids, metrics) if metrics else {}


def medians(
    session: Session, is_member: ColumnElement[bool], rules: Sequence[Rule]
) -> Mapping[str, float]:
    """
    Return the medians of the metrics that rules compare with those of their group.

    Each node counts once, with its newest number. is_member: condition of the nodes of the group.
    """
    metrics = sorted({rule.key for rule in rules if rule.field is OF_GROUP})
    values = {metric: _of_group(session, is_member, metric) for metric in metrics}
    return {metric: median(group) for metric, group in values.items() if len(group) >= FEWEST}


def _of_group(session: Session, is_member: ColumnElement[bool], metric: str) -> Sequence[float]:
    newest = (
        select(Benchmark.id, Benchmark.node_id, Benchmark.value)
        .where(Benchmark.metric == metric)
        .order_by(Benchmark.id.desc())
        .limit(NEWEST)
        .subquery()
    )
    query = (
        select(newest.c.node_id, newest.c.value)
        .join(Node, Node.id == newest.c.node_id)
        .where(is_member)
        .order_by(newest.c.id)
    )
    return list({row.node_id: row.value for row in session.execute(query)}.values())


def failures(
    rules: Sequence[Rule], differences: Sequence[Mapping[str, Any]], measured: frozenset[str]
) -> list[Mapping[str, Any]]:
    """Return the differences in numbers that a step has just measured. measured: its metrics."""
    fields = {
        rule.text for rule in rules if rule.field.kind is Kind.MEASURE and rule.key in measured
    }
    return [
        difference
        for difference in differences
        if difference["field"] in fields and difference["actual"] is not None
    ]
