"""
Waves of a rollout: record what has ended, decide what follows, start the next nodes.

A periodic task advances each rollout by short transactions that lock its row. One transaction
records the operations that have ended and decides what follows; each node is started in one of its
own, together with its operation. So a process that dies leaves a rollout as before or after a
transaction, and of any number of processes one starts a node.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Select, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.db.clock import after, fixed, moment, now
from app.db.item_isolation import isolated
from app.db.transactions import retrying
from app.errors import (
    NodeHeld,
    NodeLocked,
    ServiceError,
    Unavailable,
)
from app.identity import standing
from app.identity.caller import Caller
from app.lifecycle.operation_states import Actor
from app.lifecycle.rollout_states import RolloutEvent
from app.models import (
    ENDED,
    UNENDED,
    Node,
    Operation,
    OperationState,
    PauseCause,
    Rollout,
    RolloutNode,
    RolloutNodeState,
    RolloutState,
    StartRefusal,
)
from app.observe import log
from app.process import kill_points
from app.rollouts import rollout_targets, windows
from app.rollouts.rollout_plan import DEFECT
from app.rollouts.rollouts import change
from app.runtime import Runtime, runtime_of
from drivers.core.errors import FailureCode, HardwareError

logger = log.get(__name__)

#: Most nodes of a rollout that one run of the periodic task starts.
STARTED = 100


#: Most operations whose end one transaction records.
SETTLED = 500


#: Seconds until a node that is locked, or has no conductor, is tried again.
PAUSE = 5.0


#: Seconds of a run for the rollouts of one project, before the rollouts of another one start nodes.
TURN = 2.0


def advance_all(runtime: Runtime) -> None:
    """
    Advance each rollout that has not ended; a rollout that another process advances is left.

    The rollouts of a project have `TURN` seconds, then it is the turn of the next project. Which of
    them are first is chance, so that in a few runs all of them advance.
    """
    with runtime.reading() as session:
        unended = select(Rollout.owner, Rollout.id).where(Rollout.state.in_(UNENDED))
        by_project: dict[str | None, list[int]] = defaultdict(list)
        for owner, rollout_id in session.execute(unended.order_by(Rollout.id)):
            by_project[owner].append(rollout_id)
    for ids in by_project.values():
        random.shuffle(ids)
        end = time.monotonic() + TURN
        for rollout_id in ids:
            if time.monotonic() >= end and rollout_id != ids[0]:
                break
            with isolated("rollout.postponed", rollout_id=rollout_id):
                advance(runtime, rollout_id, end)


def advance(runtime: Runtime, rollout_id: int, end: float = math.inf) -> None:
    """
    Record ended operations, decide what follows, and start the next nodes of the wave.

    end: time of the monotonic clock after which no more nodes are started in this run.
    """
    while (members := retrying(partial(_decide, runtime, rollout_id))) is None:
        pass
    for member_id in members:
        if not _start(runtime, rollout_id, member_id) or time.monotonic() >= end:
            return


def _decide(runtime: Runtime, rollout_id: int) -> Sequence[int] | None:
    """
    Record ended operations, then decide what follows.

    Returns the ids of the members to start, or None if more operations have ended.
    """
    with runtime.transaction(Actor.PERIODIC) as session:
        rollout = _lock(session, rollout_id)
        if rollout is None:
            return ()
        member_ids = _next(session, rollout) if _settle(session, rollout) < SETTLED else None
        kill_points.reach("acted", "rollout")
    return member_ids


def _lock(session: Session, rollout_id: int) -> Rollout | None:
    """Lock a rollout that has not ended; None if another transaction has locked it."""
    return session.scalar(
        select(Rollout)
        .where(Rollout.id == rollout_id, Rollout.state.in_(UNENDED))
        .with_for_update(skip_locked=True)
    )


def _settle(session: Session, rollout: Rollout) -> int:
    """Record the results of operations that have ended; return their number."""
    rows = session.execute(
        select(RolloutNode, Operation)
        .outerjoin(Operation, Operation.uuid == RolloutNode.operation_uuid)
        .where(
            RolloutNode.rollout_id == rollout.id,
            RolloutNode.wave == rollout.wave,
            RolloutNode.state == RolloutNodeState.RUNNING,
            or_(Operation.id.is_(None), Operation.state.in_(ENDED)),
        )
        .order_by(RolloutNode.id)
        .limit(SETTLED)
    ).all()
    for member, operation in rows:
        rollout.running -= 1
        _end(rollout, member, _outcome_of(operation))
    return len(rows)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a node, or the refusal to start its operation."""

    code: str
    message: str
    passes: bool = False  # the node is tried again later


def _outcome_of(operation: Operation | None) -> Failure | None:
    """Return the failure of an operation that has ended; None if it has succeeded."""
    if operation is None:
        return Failure(StartRefusal.DELETED, "The node was deleted.")
    if operation.state == OperationState.SUCCEEDED:
        return None
    error = operation.error or {}
    if operation.state == OperationState.ABORTED:
        return Failure(FailureCode.ABORTED, error.get("message") or "The operation was aborted.")
    return Failure(str(error.get("code")), str(error.get("message")))


def _end(rollout: Rollout, member: RolloutNode, failure: Failure | None) -> None:
    """Record the result of a node."""
    member.finished_at, member.due_at = now(), None
    if failure is None:
        rollout.succeeded += 1
        member.state = RolloutNodeState.SUCCEEDED
        return
    rollout.failed += 1
    rollout.accepted_failures += failure.code == StartRefusal.HELD
    member.state = RolloutNodeState.FAILED
    member.code, member.error = failure.code[:64], failure.message


def _next(session: Session, rollout: Rollout) -> Sequence[int]:
    """Decide what follows; return the ids of the members to start."""
    if not rollout.running and (event := _ending(rollout)) is not None:
        change(session, rollout, event)
        rollout.finished_at = now()
        return ()
    if rollout.state != RolloutState.RUNNING:
        return ()
    if exhausted(rollout):
        canary = rollout.wave <= rollout.canary_waves
        cause = PauseCause.CANARY if canary else PauseCause.ERROR_BUDGET
        change(session, rollout, RolloutEvent.STOP, cause)
        return ()
    if not rollout.running and not session.scalars(_pending(rollout).limit(1)).all():
        rollout.wave += 1
    if windows.waiting(rollout.strategy, moment(session)) is not None:
        return ()
    is_due = or_(RolloutNode.due_at.is_(None), RolloutNode.due_at <= fixed(now()))
    return session.scalars(_pending(rollout).where(is_due).limit(STARTED)).all()


def _has_lost_rights(session: Session, rollout: Rollout) -> bool:
    """Pause a rollout whose caller has lost rights; return whether that is so."""
    reason = standing.lost(session, rollout.authority)
    if reason is None:
        return False
    change(session, rollout, RolloutEvent.STOP, PauseCause.CALLER)
    logger.warning(
        "rollout.caller_lost_rights", rollout=rollout.uuid, user=rollout.user_id, why=reason
    )
    return True


def _ending(rollout: Rollout) -> RolloutEvent | None:
    """Return the event that ends a rollout without nodes in progress; None if it goes on."""
    if rollout.state == RolloutState.ABORTING:
        return RolloutEvent.SETTLE
    return None if rollout.pending else RolloutEvent.COMPLETE


def exhausted(rollout: Rollout) -> bool:
    """Return whether so many nodes have failed since the last resumption that it must pause."""
    budget = 1 if rollout.wave <= rollout.canary_waves else rollout.error_budget
    return rollout.failed - rollout.accepted_failures >= budget


def _pending(rollout: Rollout) -> Select[int]:
    """Select the ids of the nodes of the current wave that are not started."""
    return (
        select(RolloutNode.id)
        .where(
            RolloutNode.rollout_id == rollout.id,
            RolloutNode.wave == rollout.wave,
            RolloutNode.state == RolloutNodeState.PENDING,
        )
        .order_by(RolloutNode.id)
    )


def _start(runtime: Runtime, rollout_id: int, member_id: int) -> bool:
    """Start a node, or record its refusal; return whether the rollout may go on."""
    try:
        return retrying(partial(_attempt, runtime, rollout_id, member_id))
    except NodeLocked as error:
        failure = Failure(StartRefusal.LOCKED, str(error), passes=True)
    except Unavailable as error:
        failure = Failure(StartRefusal.UNAVAILABLE, str(error), passes=True)
    except NodeHeld as error:
        failure = Failure(StartRefusal.HELD, str(error))
    except ServiceError as error:
        failure = Failure(StartRefusal.NOT_ACCEPTED, str(error))
    except HardwareError as error:
        failure = Failure(error.code, str(error))
    except SQLAlchemyError:  # the next run tries again
        raise
    except Exception:  # it must not block the other nodes
        logger.exception("rollout.start_failed", rollout_id=rollout_id, member_id=member_id)
        failure = Failure(StartRefusal.DEFECT, DEFECT)
    return retrying(partial(_record_refusal, runtime, rollout_id, member_id, failure))


def _attempt(runtime: Runtime, rollout_id: int, member_id: int) -> bool:
    """Start the operation of a node and record it, in one transaction."""
    with runtime.transaction(Actor.PERIODIC) as session:
        locked = _lock_member(session, rollout_id, member_id)
        if locked is None:
            return False
        rollout, member = locked
        if _has_lost_rights(session, rollout):
            return False
        node = session.scalar(select(Node).where(Node.uuid == member.node_uuid).with_for_update())
        member.started_at, member.code, member.error = now(), None, None
        if node is None:
            _end(rollout, member, Failure(StartRefusal.DELETED, "The node was deleted."))
        elif (node.owner, node.lessee) != (member.owner, member.lessee):
            reason = (
                "The owner or the lessee of the node has changed since the rollout was created."
            )
            _end(rollout, member, Failure(StartRefusal.REASSIGNED, reason))
        else:
            _record_start(rollout, member, _request(session, rollout, node))
        kill_points.reach("acted", "rollout")
    return True


def _request(session: Session, rollout: Rollout, node: Node) -> Operation | None:
    """
    Request the rollout's target of a node, as its caller.

    Raises Unavailable: another conductor has to do it. Raises also the errors of the requests.
    """
    if node.driver not in runtime_of(session).drivers.types:
        raise Unavailable(f"driver {node.driver} is not loaded where the rollout was advanced")
    caller = Caller(
        user_id=rollout.user_id,
        user_name=rollout.user_name,
        project_id=rollout.owner,
        request_id=rollout.request_id,
    )
    return rollout_targets.request(session, node, rollout.target, rollout.arguments, caller)


def _record_start(rollout: Rollout, member: RolloutNode, operation: Operation | None) -> None:
    if operation is not None:
        member.operation_uuid = operation.uuid
    if operation is None or operation.state in ENDED:
        _end(rollout, member, None if operation is None else _outcome_of(operation))
        return
    member.state, member.due_at = RolloutNodeState.RUNNING, None
    rollout.running += 1


def _record_refusal(runtime: Runtime, rollout_id: int, member_id: int, failure: Failure) -> bool:
    """Record why a node was not started: it has failed, or is tried again later."""
    with runtime.transaction(Actor.PERIODIC) as session:
        locked = _lock_member(session, rollout_id, member_id)
        if locked is None:
            return False
        rollout, member = locked
        if failure.passes:
            member.code, member.error, member.due_at = failure.code, failure.message, after(PAUSE)
        else:
            _end(rollout, member, failure)
    return True


def _lock_member(
    session: Session, rollout_id: int, member_id: int
) -> tuple[Rollout, RolloutNode] | None:
    """Lock a rollout, and return it with a node that it may start; None if it may not."""
    rollout = _lock(session, rollout_id)
    if rollout is None or rollout.state != RolloutState.RUNNING or exhausted(rollout):
        return None
    if windows.waiting(rollout.strategy, moment(session)) is not None:
        return None
    member = session.get(RolloutNode, member_id)
    if member is None or member.state != RolloutNodeState.PENDING or member.wave != rollout.wave:
        return None
    return rollout, member
