"""
States of rollouts, and the table of their transitions.

An event leads to one state. Its entry lists the states where it may occur and, for each of them,
the actors that may fire it. docs/fleet.md has the table.
"""

from collections.abc import Mapping
from enum import StrEnum

from sqlalchemy.orm import Session

from app.errors import Conflict
from app.lifecycle.operation_states import ACTOR, Actor, Transition
from app.models import Rollout, RolloutState


class RolloutEvent(StrEnum):
    """Cause of a transition of a rollout."""

    CREATE = "create"
    PAUSE = "pause"
    STOP = "stop"
    RESTORE = "restore"
    RESUME = "resume"
    ABORT = "abort"
    SETTLE = "settle"
    COMPLETE = "complete"


S, E, A = RolloutState, RolloutEvent, Actor

ROLLOUTS: Mapping[RolloutEvent, Transition[RolloutState]] = {
    E.CREATE: Transition(
        S.RUNNING, {None: (A.API,)}, "the rollout and its nodes are created"
    ),
    E.PAUSE: Transition(S.PAUSED, {S.RUNNING: (A.API,)}, "a caller pauses it"),
    E.STOP: Transition(
        S.PAUSED, {S.RUNNING: (A.PERIODIC,)},
        "a node of the canary has failed, the error budget is reached, or its caller has lost"
        " rights",
    ),
    E.RESTORE: Transition(
        S.PAUSED, {S.RUNNING: (A.CONDUCTOR, A.COMMAND)},
        "the database was restored from a backup",
    ),
    E.RESUME: Transition(
        S.RUNNING, {S.PAUSED: (A.API,)}, "a caller accepts the failures so far"
    ),
    E.ABORT: Transition(
        S.ABORTING, dict.fromkeys((S.RUNNING, S.PAUSED), (A.API,)), "a caller aborts it"
    ),
    E.SETTLE: Transition(
        S.ABORTED, {S.ABORTING: (A.PERIODIC,)}, "no operation is in progress any more"
    ),
    E.COMPLETE: Transition(
        S.COMPLETED, dict.fromkeys((S.RUNNING, S.PAUSED), (A.PERIODIC,)),
        "every node has succeeded or failed",
    ),
}  # fmt: skip

#: Events that callers request.
REQUESTS = (E.PAUSE, E.RESUME, E.ABORT)


def transition(session: Session, rollout: Rollout, event: RolloutEvent) -> None:
    """
    Change the state of a locked rollout.

    Raises Conflict: a caller requests the event in a state that its entry does not list.
    Raises IllegalTransition: the transaction's actor may not fire the event in this state.
    """
    row = ROLLOUTS[event]
    if event in REQUESTS and rollout.state not in row.origins:
        required_states = " or ".join(f'"{state}"' for state in row.origins)
        raise Conflict(
            f'target: rollout {rollout.uuid} is in state "{rollout.state}", and {event} needs'
            f" state {required_states}"
        )
    rollout.state = row.after(rollout.state, event, session.info[ACTOR])
