"""Idle nodes: no operation, no change of provision or power state is in progress."""

from sqlalchemy import ColumnElement, select

from app.errors import NotFound
from app.lifecycle.provision_states import Kind, of_kind
from app.models import Node
from app.runtime import Runtime

#: Provision states of a busy node. A held node waits for an operator, so it is idle.
BUSY_STATES = of_kind(Kind.BUSY, Kind.WAIT)

_FACTS = (
    Node.__table__.c.provision_state,
    Node.__table__.c.reservation,
    Node.__table__.c.target_power_state,
)


def is_idle(runtime: Runtime, condition: ColumnElement[bool]) -> bool:
    """
    Return whether the node that meets a condition is idle.

    Raises NotFound: the node does not exist.
    """
    with runtime.read_connection() as connection:
        row = connection.execute(select(*_FACTS).where(condition)).one_or_none()
    if row is None:
        raise NotFound("node", "that was waited for")
    state, reservation, target_power = row
    return state not in BUSY_STATES and reservation is None and target_power is None
