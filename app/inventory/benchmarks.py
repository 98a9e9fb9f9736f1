"""
Benchmarks: numbers that a step has measured, within limits, and their storage in the database.

A machine reports them, so they are hostile until checked: names have a pattern, values are finite,
and a step has a limited number of them.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from app.db.clock import moment
from app.models import Benchmark, Node, Operation, OperationStep
from app.observe import log

logger = log.get(__name__)

#: Name of a driver's report with the numbers of its step.
REPORT = "benchmarks"
#: Most numbers of a step that are kept, and characters of a name and of a unit.
MOST, LONGEST_NAME, LONGEST_UNIT = 100, 128, 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]*")
#: Numbers of a metric that are read of a node: the newest, and those before, of which one is the
#: median.
RECENT = 11


@dataclass(frozen=True, slots=True)
class Number:
    metric: str
    value: float
    unit: str | None = None


def cleaned(report: object) -> Sequence[Number]:
    """
    Return the numbers of a report within the limits; others are left out.

    report: {metric: value}, or {metric: {"value": value, "unit": unit}}.
    """
    if not isinstance(report, Mapping):
        return ()
    numbers = (_number(metric, entry) for metric, entry in report.items())
    return [number for number in numbers if number is not None][:MOST]


def is_name(text: object) -> bool:
    """Whether a text may be the name of a metric."""
    return isinstance(text, str) and len(text) <= LONGEST_NAME and bool(_NAME.fullmatch(text))


def finite(value: object) -> float | None:
    """Return a number as a float, or None if it is none, or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _number(metric: object, entry: object) -> Number | None:
    value, unit = (
        (entry.get("value"), entry.get("unit")) if isinstance(entry, Mapping) else (entry, None)
    )
    number = finite(value)
    if number is None or not isinstance(metric, str) or not is_name(metric):
        return None
    return Number(metric, number, _unit(unit))


def _unit(unit: object) -> str | None:
    if not isinstance(unit, str):
        return None
    return "".join(filter(str.isprintable, unit[:LONGEST_UNIT])).strip() or None


def record(
    session: Session, node: Node, operation: Operation, step: OperationStep, report: object
) -> frozenset[str]:
    """
    Record the numbers that a step has measured, in the transaction that records its end.

    A step that runs again, after a restart of its operation, replaces its numbers. Return the names
    of the metrics. The caller has locked the row of the node.
    """
    numbers = cleaned(report)
    total = len(report) if isinstance(report, Mapping) else 1
    if len(numbers) < total:
        logger.warning(
            "benchmarks.left_out", node=node.uuid, step=step.label, numbers=total - len(numbers)
        )
    of_step = (Benchmark.operation_uuid == operation.uuid) & (Benchmark.position == step.position)
    session.execute(delete(Benchmark).where(of_step))
    time = moment(session)
    rows = [
        {
            "node_id": node.id, "operation_uuid": operation.uuid, "position": step.position,
            "step": step.label, "metric": number.metric, "value": number.value,
            "unit": number.unit, "started_at": step.started_at, "recorded_at": time,
        }
        for number in numbers
    ]  # fmt: skip
    if rows:
        session.execute(insert(Benchmark), rows)
    return frozenset(number.metric for number in numbers)


def recent(
    session: Session, ids: Sequence[int], metrics: Sequence[str]
) -> Mapping[int, Mapping[str, Sequence[float]]]:
    """Return the `RECENT` newest numbers of some metrics of nodes, the newest first."""
    rank = func.row_number().over(
        partition_by=(Benchmark.node_id, Benchmark.metric), order_by=Benchmark.id.desc()
    )
    ranked = (
        select(Benchmark.node_id, Benchmark.metric, Benchmark.value, rank.label("rank"))
        .where(Benchmark.node_id.in_(ids), Benchmark.metric.in_(metrics))
        .subquery()
    )
    query = select(ranked.c.node_id, ranked.c.metric, ranked.c.value)
    query = query.where(ranked.c.rank <= RECENT).order_by(ranked.c.rank)
    values: dict[int, dict[str, list[float]]] = {}
    for node_id, metric, value in session.execute(query):
        values.setdefault(node_id, {}).setdefault(metric, []).append(value)
    return values


def described(benchmark: Any) -> str:
    """Describe a recorded number, as in `fio.read.bandwidth 512 MB/s`."""
    return " ".join(filter(None, (benchmark.metric, f"{benchmark.value:g}", benchmark.unit)))
