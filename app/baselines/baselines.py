"""
Baselines: create, update and delete them.
"""

from collections.abc import Mapping

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from app.db.clock import now
from app.errors import Conflict
from app.models import Baseline, BaselineNode, Hold, Node
from app.rows import row_changes

#: Most baselines: each is compared with every node that is inspected.
MOST = 100
#: Most nodes in the message of a refusal.
MOST_NAMED = 3
#: Columns whose change makes all comparisons outdated.
COMPARED = ("selection", "expected", "acceptance", "failed_benchmark")


def create(session: Session, fields: Mapping[str, object]) -> Baseline:
    """
    Create a baseline. `fields` have the API's names, and were validated against its schema.

    Raises AlreadyExists.
    Raises Conflict: there are as many baselines as there may be.
    """
    if (session.scalar(select(func.count()).select_from(Baseline)) or 0) >= MOST:
        raise Conflict(f"there are {MOST} baselines, the most of a service: delete one of them")
    return row_changes.add(session, row_changes.make(Baseline, fields))


def change(session: Session, baseline: Baseline, values: Mapping[str, object]) -> None:
    """
    Update a baseline, whose row is locked; all its nodes are compared again.

    Raises AlreadyExists.
    """
    values = row_changes.with_defaults(Baseline, values)
    if any(name in values and values[name] != getattr(baseline, name) for name in COMPARED):
        baseline.version, baseline.due_at = baseline.version + 1, now()
    row_changes.change(session, baseline, values)


def remove(session: Session, baseline: Baseline) -> None:
    """
    Delete a baseline, whose row is locked.

    Raises Conflict: holds of it keep nodes from new instances.
    """
    held_nodes = (
        select(Node.name, Node.uuid)
        .join(BaselineNode, BaselineNode.node_id == Node.id)
        .join(Hold, Hold.uuid == BaselineNode.hold_uuid)
        .where(BaselineNode.baseline_id == baseline.id)
        .order_by(Node.id)
        .limit(MOST_NAMED)
    )
    if names := [name or uuid for name, uuid in session.execute(held_nodes)]:
        raise Conflict(
            f"baseline {baseline.name} cannot be deleted while it holds nodes ({', '.join(names)}):"
            " set acceptance to false and failed_benchmark to record, which ends its holds within"
            " seconds, or end them yourself"
        )
    session.execute(delete(BaselineNode).where(BaselineNode.baseline_id == baseline.id))
    session.delete(baseline)
