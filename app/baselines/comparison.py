"""
Comparison of nodes with baselines: at a change of their recorded facts, and by passes.

The facts of a node are compared in the transaction that records them, so no process can die between
the two. A pass finds what else has changed: baselines, the nodes that they select, and facts that
something else than a step has written. It reads the facts of those nodes alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from app.baselines import holding, measurements, rules
from app.baselines.facts import Facts
from app.baselines.rules import BIOS, FIRMWARE, Kind, Rule
from app.db.clock import after, fixed, moment, now
from app.db.item_isolation import isolated
from app.db.prepared import Prepared
from app.db.transactions import retrying
from app.inventory import benchmarks, history
from app.lifecycle.hold_kinds import HoldKind
from app.models import (
    Baseline,
    BaselineNode,
    BiosSetting,
    Compliance,
    FailedBenchmark,
    FirmwareComponent,
    Node,
    NodeInventory,
)
from app.observe import log
from app.process import kill_points
from app.runtime import Runtime
from app.selection import conditions
from app.selection.conditions import Sight
from app.selection.tree import fields_of

logger = log.get(__name__)

#: Nodes that a statement of a pass looks at; nodes that one transaction compares.
PAGE, BATCH = 1000, 100
#: Seconds after which a comparison is repeated in any case.
OLDEST = 86400.0
Difference = Mapping[str, Any]  # field, operator, expected, actual, since
_EVERYTHING = Sight(lambda rows: rows, {})
#: Columns of facts with a name: node, name, value.
_VERSIONS = (
    FirmwareComponent.node_id, FirmwareComponent.component, FirmwareComponent.current_version,
)  # fmt: skip
_SETTINGS = (BiosSetting.node_id, BiosSetting.name, BiosSetting.value)

_IS_DUE = Baseline.due_at <= fixed(now())
#: Selects a row while a pass is due.
DUE_ONE = Prepared(select(Baseline.id).where(_IS_DUE).limit(1))


def compare_recorded(
    session: Session,
    node: Node,
    *,
    at_inspection: bool,
    measured: frozenset[str] = frozenset(),
) -> Sequence[str]:
    """
    Compare a node whose facts this transaction has recorded with all baselines.

    The caller has locked its row. An error of a baseline is logged, and the next pass compares
    again.

    at_inspection: its inspection ends; a baseline with `acceptance` holds it unless it complies.
    measured: metrics of which a step has recorded numbers.

    Return the reasons for which that step fails, by baselines with `failed_benchmark` fail.
    """
    reasons: list[str] = []
    # a change or deletion of a baseline waits for this transaction, or this one for it
    baselines = select(Baseline).order_by(Baseline.id).with_for_update(read=True, key_share=True)
    session.flush()
    for baseline in session.scalars(baselines).all():
        facts = {"baseline": baseline.name, "node": node.uuid}
        with isolated("baseline.not_compared", **facts), session.begin_nested():
            failures = _compare(
                session, baseline, [node], at_inspection=at_inspection, measured=measured
            )
            if failures and baseline.failed_benchmark == FailedBenchmark.FAIL:
                reasons.append(holding.reason(baseline, failures))
    return reasons


@dataclass(frozen=True, slots=True)
class _Pass:
    """A pass over the nodes of a baseline, as it was at the begin."""

    baseline_id: int
    name: str
    version: int


def compare_due(runtime: Runtime) -> int:
    """
    Compare the nodes of all baselines whose pass is due, as far as their comparison is outdated.

    Return the number of compared nodes. A process that dies leaves the pass due, and the nodes that
    it has compared are not compared again.
    """
    with runtime.reading() as session:
        query = select(Baseline.id, Baseline.name, Baseline.version).where(_IS_DUE)
        passes = [_Pass(*row) for row in session.execute(query.order_by(Baseline.due_at))]
    count = 0
    for due_pass in passes:
        with isolated("baseline.not_compared", baseline=due_pass.name):
            count += _run(runtime, due_pass)
        retrying(partial(_end, runtime, due_pass))
    return count


def _run(runtime: Runtime, due_pass: _Pass) -> int:
    count, last_id = 0, 0
    while True:
        with runtime.reading() as session:
            baseline = session.get(Baseline, due_pass.baseline_id)
            if baseline is None or baseline.version != due_pass.version:
                return count  # it is due again, or deleted
            ids, end = _outdated(session, baseline, last_id)
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            count += retrying(partial(_compare_batch, runtime, due_pass, batch))
        if end is None:
            return count
        last_id = end


def _end(runtime: Runtime, due_pass: _Pass) -> None:
    """Set the time of the next pass, unless the baseline was changed since the begin."""
    interval = runtime.settings.conductor.check_baselines_interval
    is_unchanged = (Baseline.id == due_pass.baseline_id) & (Baseline.version == due_pass.version)
    with runtime.transaction() as session:
        session.execute(update(Baseline).where(is_unchanged).values(due_at=after(interval)))


def _compare_batch(runtime: Runtime, due_pass: _Pass, ids: Sequence[int]) -> int:
    """Compare some nodes; those whose rows are locked are left to the next pass."""
    with runtime.transaction() as session:
        of_batch = select(Node).where(Node.id.in_(ids)).order_by(Node.id)
        nodes = session.scalars(of_batch.with_for_update(skip_locked=True)).all()
        baseline = session.scalar(
            select(Baseline)
            .where(Baseline.id == due_pass.baseline_id, Baseline.version == due_pass.version)
            .with_for_update(read=True, key_share=True)
        )
        if baseline is None:
            return 0
        _compare(session, baseline, nodes)
        session.flush()
        kill_points.reach("acted", "baseline")
    return len(nodes)


def _selects(baseline: Baseline) -> ColumnElement[bool]:
    """Return the condition of the nodes that a baseline is for. Raises Invalid."""
    tree = conditions.parse(baseline.selection)
    condition = conditions.condition(tree, _EVERYTHING)
    if "parent_node" not in fields_of(tree):  # as in lists of nodes
        condition = and_(condition, Node.parent_node.is_(None))
    return condition


def _outdated(
    session: Session, baseline: Baseline, last_id: int
) -> tuple[Sequence[int], int | None]:
    """
    Return the ids of the nodes of a page that have to be compared, and the last id of the page.

    None in place of that id: it was the last page.
    """
    following = select(Node.id).where(Node.id > last_id).order_by(Node.id)
    end = session.scalar(following.offset(PAGE - 1).limit(1))
    of_baseline = and_(BaselineNode.node_id == Node.id, BaselineNode.baseline_id == baseline.id)
    is_member = func.coalesce(_selects(baseline), false())
    is_uncompared = BaselineNode.node_id.is_(None)
    is_outdated = or_(
        is_uncompared,
        BaselineNode.version != baseline.version,
        BaselineNode.compared_at < fixed(after(literal(-OLDEST))),
        NodeInventory.created_at > BaselineNode.compared_at,
        _has_needless_hold(baseline),
    )
    query: Select[Any] = (
        select(Node.id)
        .outerjoin(BaselineNode, of_baseline)
        .outerjoin(NodeInventory, NodeInventory.node_id == Node.id)
        .where(
            Node.id > last_id,
            or_(and_(is_member, is_outdated), and_(not_(is_member), not_(is_uncompared))),
        )
        .order_by(Node.id)
    )
    if end is not None:
        query = query.where(Node.id <= end)
    return session.scalars(query).all(), end


def _has_needless_hold(baseline: Baseline) -> ColumnElement[bool]:
    has_hold = BaselineNode.hold_uuid.is_not(None)
    if _may_hold(baseline):
        return and_(has_hold, BaselineNode.state == Compliance.COMPLIES)
    return has_hold


def _compare(
    session: Session,
    baseline: Baseline,
    nodes: Sequence[Node],
    *,
    at_inspection: bool = False,
    measured: frozenset[str] = frozenset(),
) -> Sequence[Difference]:
    """
    Compare nodes, whose rows are locked, with a baseline.

    Return the differences in numbers that a step has just measured. measured: their metrics.

    Raises Invalid, RuleError.
    """
    ids = [node.id for node in nodes]
    member_ids = set(session.scalars(select(Node.id).where(Node.id.in_(ids), _selects(baseline))))
    of_baseline = select(BaselineNode).where(
        BaselineNode.baseline_id == baseline.id, BaselineNode.node_id.in_(ids)
    )
    rows = {row.node_id: row for row in session.scalars(of_baseline)}
    baseline_rules = rules.parsed(baseline.expected)
    facts = _facts(session, baseline, sorted(member_ids), baseline_rules)
    time = moment(session)
    failures: list[Difference] = []
    for node in nodes:
        row = rows.get(node.id)
        if node.id not in member_ids:
            if row is not None:
                holding.end(session, baseline, row)
                session.delete(row)
            continue
        old_differences = [] if row is None else row.differences
        differences = _differences(baseline_rules, facts[node.id], old_differences, time)
        if row is None:
            row = BaselineNode(baseline_id=baseline.id, node_id=node.id)
            session.add(row)
        _update(row, baseline, differences, time)
        if node_failures := measurements.failures(baseline_rules, differences, measured):
            failures += node_failures
            _record_failures(session, baseline, node, row, node_failures)
        elif row.state == Compliance.COMPLIES or not _may_hold(baseline):
            holding.end(session, baseline, row)
        elif at_inspection and baseline.acceptance:
            _hold(session, baseline, row, old_differences)
    return failures


def _may_hold(baseline: Baseline) -> bool:
    return baseline.acceptance or baseline.failed_benchmark == FailedBenchmark.HOLD


def _record_failures(
    session: Session,
    baseline: Baseline,
    node: Node,
    row: BaselineNode,
    failures: Sequence[Difference],
) -> None:
    """Record measured numbers that differ in the history of their node; hold it, if requested."""
    event = f"Measured numbers are {holding.reason(baseline, failures)}."
    history.add(session, node, benchmarks.REPORT, event, "WARNING")
    if baseline.failed_benchmark == FailedBenchmark.HOLD:
        holding.hold(session, baseline, row, HoldKind.HARDWARE, failures)


def _update(
    row: BaselineNode, baseline: Baseline, differences: list[dict[str, Any]], time: datetime
) -> None:
    state = _state(differences)
    if row.state != state:
        row.state, row.since = state, time
    row.version, row.compared_at, row.differences = baseline.version, time, differences


def _state(differences: Sequence[Mapping[str, object]]) -> Compliance:
    if not differences:
        return Compliance.COMPLIES
    is_known = any(difference["actual"] is not None for difference in differences)
    return Compliance.DIFFERS if is_known else Compliance.UNKNOWN


def _differences(
    baseline_rules: Sequence[Rule],
    facts: Facts,
    old_differences: Sequence[Mapping[str, object]],
    time: datetime,
) -> list[dict[str, Any]]:
    """Return the differences of a node, each with the time since when there is one by its rule."""
    begins = {_identity(difference): difference["since"] for difference in old_differences}
    current_time = f"{time.isoformat(timespec='seconds')}+00:00"
    differences = []
    for rule in baseline_rules:
        difference = rule.difference(facts)
        if difference is not None:
            since = begins.get(_identity(difference), current_time)
            differences.append({**difference, "since": since})
    return differences


def _identity(difference: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what makes two differences one: the rule, and whether the fact is known."""
    is_known = difference["actual"] is not None
    return difference["field"], difference["operator"], repr(difference["expected"]), str(is_known)


def _facts(
    session: Session, baseline: Baseline, ids: Sequence[int], baseline_rules: Sequence[Rule]
) -> Mapping[int, Facts]:
    """Read the facts of nodes that rules name, by the ids of the nodes."""
    inventories: dict[int, Any] = {}
    if any(_is_of_inventory(rule.field) for rule in baseline_rules):
        query = select(NodeInventory.node_id, NodeInventory.inventory)
        rows = session.execute(query.where(NodeInventory.node_id.in_(ids)))
        inventories = {row.node_id: row.inventory for row in rows}
    firmware = _named(session, ids, _keys(baseline_rules, FIRMWARE), _VERSIONS)
    bios = _named(session, ids, _keys(baseline_rules, BIOS), _SETTINGS)
    measured = measurements.of_nodes(session, ids, baseline_rules)
    medians = measurements.medians(session, _selects(baseline), baseline_rules) if ids else {}
    return {
        node_id: Facts(
            inventories.get(node_id),
            firmware.get(node_id, {}),
            bios.get(node_id, {}),
            measured.get(node_id, {}),
            medians,
        )
        for node_id in ids
    }


def _is_of_inventory(field: rules.Field) -> bool:
    return field not in (FIRMWARE, BIOS) and field.kind is not Kind.MEASURE


def _keys(baseline_rules: Sequence[Rule], field: rules.Field) -> Sequence[str]:
    return sorted({rule.key for rule in baseline_rules if rule.field is field})


def _named(
    session: Session, ids: Sequence[int], names: Sequence[str], columns: Sequence[Any]
) -> Mapping[int, Mapping[str, Any]]:
    """Return the values with some names of nodes, by the ids of the nodes and the names."""
    values: dict[int, dict[str, Any]] = {}
    if names:
        node_id, name, _ = columns
        query = select(*columns).where(node_id.in_(ids), name.in_(names))
        for row_node_id, row_name, row_value in session.execute(query):
            values.setdefault(row_node_id, {})[row_name] = row_value
    return values


def _hold(
    session: Session,
    baseline: Baseline,
    row: BaselineNode,
    old_differences: Sequence[Difference],
) -> None:
    """
    Hold a node that does not comply, unless someone has ended a hold on these differences.

    A new difference holds it again.
    """
    old_rules = {_identity(difference)[:3] for difference in old_differences}
    new_rules = {_identity(difference)[:3] for difference in row.differences} - old_rules
    if row.hold_uuid is None or new_rules:
        holding.hold(session, baseline, row, HoldKind.SCHEDULING, row.differences)
