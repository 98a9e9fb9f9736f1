"""Summary of a rollout: its waits, the cause of its pause, and its failures by code."""

from collections.abc import Mapping

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.db.clock import moment
from app.models import (
    PauseCause,
    Rollout,
    RolloutNode,
    RolloutNodeState,
    RolloutState,
    StartRefusal,
)
from app.rollouts import windows
from app.text.sentences import counted, joined

#: Most failure codes in a summary, and most rollouts of a node in an explanation.
MOST_CODES, MOST_ROLLOUTS = 5, 3


def summary(session: Session, rollout: Rollout) -> str:
    """Describe what a rollout waits for, why it pauses, and what has failed."""
    codes = failures(session, rollout)
    return joined(_state(session, rollout), _failed(rollout, codes))


def failures(session: Session, rollout: Rollout) -> Mapping[str, int]:
    """Count the failed nodes of a rollout by code, the most frequent first."""
    count = func.count().label("count")
    rows = session.execute(
        select(RolloutNode.code, count)
        .where(RolloutNode.rollout_id == rollout.id, RolloutNode.state == RolloutNodeState.FAILED)
        .group_by(RolloutNode.code)
        .order_by(count.desc(), RolloutNode.code)
    )
    return {str(code): number for code, number in rows}


def _state(session: Session, rollout: Rollout) -> str:
    progress, running = (
        f"{rollout.succeeded} of {counted(rollout.nodes, 'node')} succeeded",
        rollout.running,
    )
    match rollout.state:
        case RolloutState.RUNNING:
            return joined(_window(session, rollout), _wave(session, rollout))
        case RolloutState.PAUSED:
            return _pause(rollout)
        case RolloutState.ABORTING:
            return f"aborting: waits for {counted(running, 'node')} in progress"
        case RolloutState.ABORTED:
            return f"aborted: {progress}, {rollout.pending} not started"
    return f"completed: {progress}"


def _window(session: Session, rollout: Rollout) -> str | None:
    """Describe the window that a rollout waits for; None: it may start nodes."""
    wait = windows.waiting(rollout.strategy, moment(session))
    if wait is None:
        return None
    if wait.until is None:
        return "it starts no node: none of its windows opens again"
    return f"it starts no node before {wait.until.isoformat(timespec='seconds')}Z"


def pending_on(session: Session, node_uuid: str) -> list[str]:
    """Describe the rollouts that have not started a node."""
    rollouts = session.scalars(
        select(Rollout)
        .join(RolloutNode, RolloutNode.rollout_id == Rollout.id)
        .where(
            Rollout.state.in_((RolloutState.RUNNING, RolloutState.PAUSED)),
            RolloutNode.node_uuid == node_uuid,
            RolloutNode.state == RolloutNodeState.PENDING,
        )
        .order_by(Rollout.id)
        .limit(MOST_ROLLOUTS)
    )
    return [
        f"rollout {rollout.uuid} will request {rollout.target}: {_pending_cause(session, rollout)}"
        for rollout in rollouts
    ]


def _pending_cause(session: Session, rollout: Rollout) -> str:
    if rollout.state == RolloutState.PAUSED:
        return "it is paused"
    return _window(session, rollout) or f"it is in wave {rollout.wave} of {rollout.waves}"


def _wave(session: Session, rollout: Rollout) -> str:
    """Describe what the current wave waits for."""
    rows = session.execute(
        select(RolloutNode.state, RolloutNode.code, func.count())
        .where(RolloutNode.rollout_id == rollout.id, RolloutNode.wave == rollout.wave)
        .group_by(RolloutNode.state, RolloutNode.code)
        .order_by(RolloutNode.state.desc(), RolloutNode.code)
    ).all()
    open_rows = [
        row for row in rows if row[0] in (RolloutNodeState.RUNNING, RolloutNodeState.PENDING)
    ]
    causes = (f"{number} {_WAITS.get(code or state, code)}" for state, code, number in open_rows)
    canary = " (canary)" if rollout.wave <= rollout.canary_waves else ""
    return (
        f"wave {rollout.wave} of {rollout.waves}{canary} waits for"
        f" {sum(row[2] for row in open_rows)} of"
        f" {counted(sum(row[2] for row in rows), 'node')}:"
        f" {', '.join(causes) or 'the next wave begins'}"
    )


#: State or code of a node -> what it waits for.
_WAITS: Mapping[str, str] = {
    RolloutNodeState.RUNNING: "in progress",
    RolloutNodeState.PENDING: "not started",
    StartRefusal.LOCKED: "locked by other operations",
    StartRefusal.UNAVAILABLE: "without a live conductor",
}


def _pause(rollout: Rollout) -> str:
    budget = rollout.strategy["error_budget"]
    node_limit = f" ({counted(rollout.error_budget, 'node')})" if "%" in budget else ""
    causes = {
        PauseCause.OPERATOR: "by an operator",
        PauseCause.CANARY: f"a node of the first {rollout.strategy['canary']}, the canary, failed",
        PauseCause.ERROR_BUDGET: f"error budget {budget}{node_limit} reached",
        PauseCause.CALLER: f"{rollout.user_name or rollout.user_id} has lost rights that it relies"
        " on; a user who has them takes it over by resuming it",
        PauseCause.RESTORED: "the database was restored from a backup, so its nodes may have been"
        " started already: compare them before you resume it",
    }
    text = f"paused: {causes[PauseCause(rollout.pause_cause or PauseCause.OPERATOR)]}"
    going = f"{counted(rollout.running, 'node')} in progress" if rollout.running else None
    return joined(text, going)


def _failed(rollout: Rollout, codes: Mapping[str, int]) -> str | None:
    if not rollout.failed:
        return None
    code_counts = [f"{number} {code}" for code, number in codes.items()][:MOST_CODES]
    ellipsis = ", ..." if len(codes) > MOST_CODES else ""
    number = rollout.accepted_failures
    accepted_part = f", {number} of them accepted" if number else ""
    return (
        f"{rollout.failed} of {rollout.nodes} failed{accepted_part}; codes:"
        f" {', '.join(code_counts)}{ellipsis}"
    )
