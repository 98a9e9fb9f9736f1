"""
Operations without progress beyond their bound: the service itself should have gone on with them.
"""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from app.cluster import conductors
from app.config.settings import Settings
from app.db.clock import age
from app.models import ACTIVE, Node, Operation, OperationState


def grace(settings: Settings) -> float:
    """Return the seconds within which the service itself goes on with an operation."""
    conductor = settings.conductor
    return 2 * conductor.heartbeat_timeout + 2 * conductor.reconcile_interval


def condition(incarnations: Iterable[str], grace: float) -> ColumnElement[bool]:
    """
    Condition on an operation and its node: it has made no progress for `grace` seconds.

    Its conductor is dead, its deadline or the time of its poll has passed, or it was sent to none.
    incarnations: incarnations of conductors that send heartbeats.
    """
    state = Operation.state
    return or_(
        and_(
            state == OperationState.RUNNING,
            or_(Operation.claimed_by.not_in(incarnations), age(Operation.deadline_at) > grace),
        ),
        and_(
            state == OperationState.QUEUED,
            Operation.admitted_at.is_not(None),
            or_(Operation.sent_to.is_(None), Operation.sent_to.not_in(incarnations)),
            or_(
                age(Operation.sent_at) > grace,
                and_(Operation.sent_at.is_(None), age(Operation.admitted_at) > grace),
            ),
        ),
        and_(
            state == OperationState.WAITING,
            or_(
                age(Operation.wake_at) > grace,
                and_(age(Operation.deadline_at) > grace, Node.maintenance.is_(False)),
            ),
            or_(Node.reservation.is_(None), Node.operation_id == Operation.id),
        ),
    )


def count(session: Session, grace: float) -> int:
    """Return the number of operations without progress for `grace` seconds."""
    incarnations = conductors.living_incarnations(session, grace)
    query = (
        select(func.count())
        .select_from(Operation)
        .join(Node, Node.id == Operation.node_id)
        .where(Operation.state.in_(ACTIVE), condition(incarnations, grace))
    )
    return session.scalar(query) or 0
