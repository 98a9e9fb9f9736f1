"""
Rollouts: create, pause, resume, abort and delete them.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, or_, select
from sqlalchemy.orm import Session

from app.db.clock import now
from app.db.prepared import Prepared
from app.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from app.identity import standing
from app.identity.caller import UNAUTHENTICATED, Caller
from app.lifecycle.rollout_states import RolloutEvent, transition
from app.models import (
    UNENDED,
    PauseCause,
    Rollout,
    RolloutNode,
    RolloutState,
)
from app.observe import log
from app.rollouts.rollout_plan import Plan
from app.rows import row_changes
from app.runtime import runtime_of
from app.text.sentences import counted

logger = log.get(__name__)

#: Most nodes per INSERT.
CHUNK = 1000
#: Selects a row while a rollout has not ended.
UNENDED_ONE = Prepared(
    select(Rollout.id).where(or_(*(Rollout.state == state for state in UNENDED))).limit(1)
)


def create(session: Session, plan: Plan, fields: Mapping[str, Any], caller: Caller) -> Rollout:
    """
    Create a rollout with the nodes of a plan.

    fields: uuid, description, target, arguments and filters. Raises AlreadyExists, Invalid.
    """
    if not plan.members:
        if not plan.excluded:
            raise Invalid("nodes: no node matches")
        raise Invalid(
            f"nodes: none of {counted(len(plan.excluded), 'matching node')} can take part;"
            f" the first: {plan.excluded[0].reason}"
        )
    rollout = row_changes.make(Rollout, fields)
    rollout.owner, rollout.request_id = caller.project_id, caller.request_id
    rollout.user_id, rollout.user_name = caller.user_id, caller.user_name
    rollout.authority = _authority(session, caller)
    rollout.nodes, rollout.waves = len(plan.members), plan.waves
    rollout.canary_waves, rollout.error_budget = plan.canary_waves, plan.error_budget
    transition(session, rollout, RolloutEvent.CREATE)
    row_changes.add(session, rollout)
    for start in range(0, len(plan.members), CHUNK):
        rows = [
            {
                "rollout_id": rollout.id, "node_uuid": member.uuid, "node_name": member.name,
                "owner": member.owner, "lessee": member.lessee, "group": member.group,
                "wave": member.wave,
            }
            for member in plan.members[start : start + CHUNK]
        ]  # fmt: skip
        session.execute(insert(RolloutNode), rows)
    logger.info("rollout.created", rollout=rollout.uuid, target=rollout.target, nodes=rollout.nodes)
    return rollout


def _authority(session: Session, caller: Caller) -> dict[str, object] | None:
    """
    Return the authority that each start is checked by, or None if users are not in the database.
    """
    if runtime_of(session).settings.default.auth_strategy != "local":
        return None
    authority = standing.authority_of(session, caller)
    return None if authority is None else dict(authority)


def request(
    session: Session, uuid: str, event: RolloutEvent, caller: Caller = UNAUTHENTICATED
) -> Rollout:
    """
    Pause, resume or abort a rollout.

    A rollout that is paused because its caller has lost rights goes on in the name of the caller
    who resumes it.

    event: one of `rollout_states.REQUESTS`.

    Raises NotFound, Conflict.
    Raises Forbidden: the caller has not all the rights that the rollout relies on.
    """
    rollout = _locked(session, uuid)
    if event is RolloutEvent.RESUME and rollout.pause_cause == PauseCause.CALLER:
        _take_over(session, rollout, caller)
    change(session, rollout, event, PauseCause.OPERATOR if event is RolloutEvent.PAUSE else None)
    if event is RolloutEvent.RESUME:
        rollout.accepted_failures = rollout.failed
    return rollout


def _take_over(session: Session, rollout: Rollout, caller: Caller) -> None:
    """Make a caller the one of a rollout. Raises Forbidden."""
    if not standing.covers(caller, rollout.authority):
        role_names = ", ".join((rollout.authority or {})["roles"])
        raise Forbidden(
            f"Rollout {rollout.uuid} goes on in your name, and relies on the roles {role_names} of"
            " its caller, which you do not have all."
        )
    rollout.authority = _authority(session, caller)
    rollout.user_id, rollout.user_name = caller.user_id, caller.user_name
    rollout.request_id = caller.request_id


def remove(session: Session, uuid: str) -> None:
    """
    Delete a rollout that has ended, and the record of its nodes.

    Raises NotFound. Raises Conflict: it has not ended.
    """
    rollout = _locked(session, uuid)
    if rollout.state in UNENDED:
        raise Conflict(
            f'rollout {uuid} is in state "{rollout.state}": abort it, and wait for its end'
        )
    session.execute(delete(RolloutNode).where(RolloutNode.rollout_id == rollout.id))
    session.delete(rollout)
    logger.info("rollout.deleted", rollout=uuid)


def _locked(session: Session, uuid: str) -> Rollout:
    """Lock a rollout. Raises NotFound."""
    rollout = session.scalar(select(Rollout).where(Rollout.uuid == uuid).with_for_update())
    if rollout is None:
        raise NotFound("rollout", uuid)
    return rollout


def pause_all(session: Session) -> None:
    """Pause the running rollouts after a restore: their nodes may have been started since."""
    running = select(Rollout).where(Rollout.state == RolloutState.RUNNING)
    for rollout in session.scalars(running.order_by(Rollout.id).with_for_update()):
        change(session, rollout, RolloutEvent.RESTORE, PauseCause.RESTORED)


def change(
    session: Session, rollout: Rollout, event: RolloutEvent, cause: PauseCause | None = None
) -> None:
    """Move a rollout to the next state. cause: why it pauses."""
    transition(session, rollout, event)
    rollout.pause_cause, rollout.updated_at = cause, now()
    facts = {"by": str(event), "cause": cause and str(cause), "failed": rollout.failed}
    logger.info("rollout.changed", rollout=rollout.uuid, state=str(rollout.state), **facts)
