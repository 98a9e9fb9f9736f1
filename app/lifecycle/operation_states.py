"""
States of operations and steps, and the tables of their transitions.

An event leads to one state. Its entry lists the states where it may occur and, for each of them,
the actors that may fire it; any other change raises `IllegalTransition`. The engine calls
`transition` and `step_transition`; the statements of the hot path take their states from
`sole_move`; docs/protocol.md and the protocol model in the tests derive from the same tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from sqlalchemy.orm import Session

from app.models import Operation, OperationState, OperationStep, RolloutState, StepState

To = TypeVar("To", OperationState, RolloutState)


class Actor(StrEnum):
    """The part of the service that opened a transaction."""

    API = "API"
    CONDUCTOR = "conductor"  # its step threads, wait monitor and heartbeat
    RECONCILER = "reconciler"
    PERIODIC = "periodic task"  # any other than the reconciler
    COMMAND = "command"  # of an operator on the host


class OperationEvent(StrEnum):
    """Cause of a transition of an operation."""

    SUBMIT = "submit"
    CLAIM = "claim"
    ADVANCE = "advance"
    WAIT = "wait"
    RESUME = "resume"
    HOLD = "hold"
    UNHOLD = "unhold"
    TAKE_OVER = "take over"
    RESTART = "restart"
    DISPATCH = "dispatch"
    CLEAN_UP = "clean up"
    SUCCEED = "succeed"
    FAIL = "fail"
    ABORT = "abort"
    SUPERSEDE = "supersede"
    RESTORE = "restore"
    REPAIR = "repair"


class StepEvent(StrEnum):
    """Cause of a transition of a step."""

    PLAN = "plan"
    BEGIN = "begin"
    WAIT = "wait"
    FINISH = "finish"
    FAIL = "fail"
    ABORT = "abort"
    SKIP = "skip"
    RESET = "reset"


class IllegalTransition(Exception):
    """The table does not allow this transition: a defect; the transaction rolls back."""

    def __init__(self, old_state: str | None, event: str, actor: str | None = None) -> None:
        agent = f" by {actor}" if actor else ""
        super().__init__(f"no transition {event!r}{agent} from state {old_state or 'none'!r}")


#: State before the event, None for a new row -> the actors that may fire the event in it.
Origins = Mapping[str | None, tuple[Actor, ...]]


@dataclass(frozen=True, slots=True)
class Transition(Generic[To]):
    """Entry of the table of operations, or of rollouts (`app.lifecycle.rollout_states`)."""

    to: To
    origins: Origins
    about: str
    #: whether the event dispatches the operation, under a new fence
    new_fence: bool = field(default=False, kw_only=True)

    def after(self, old_state: str | None, event: str, actor: Actor) -> To:
        """
        Return the state after the event.

        Raises IllegalTransition: the actor may not fire the event in this state.
        """
        if actor not in self.origins.get(old_state, ()):
            raise IllegalTransition(old_state, event, actor)
        return self.to


@dataclass(frozen=True, slots=True)
class StepTransition:
    """Entry of the table of steps; a step changes in the transaction of its operation's actor."""

    to: StepState
    origins: frozenset[StepState | None]
    about: str


S, E, A = OperationState, OperationEvent, Actor
_ACTIVE = (S.QUEUED, S.RUNNING, S.WAITING, S.HELD)

OPERATIONS: Mapping[OperationEvent, Transition[OperationState]] = {
    E.SUBMIT: Transition(
        S.QUEUED, {None: (A.API, A.PERIODIC)},
        "the operation and its steps are created", new_fence=True,
    ),
    E.CLAIM: Transition(
        S.RUNNING, {S.QUEUED: (A.CONDUCTOR,)}, "an attempt claims the step at the cursor"
    ),
    E.ADVANCE: Transition(
        S.QUEUED, {S.RUNNING: (A.CONDUCTOR,)}, "the step is done, and the cursor is at the next one"
    ),
    E.WAIT: Transition(
        S.WAITING, {S.RUNNING: (A.CONDUCTOR,)}, "the step waits for a poll or for the agent"
    ),
    E.RESUME: Transition(
        S.QUEUED, {S.WAITING: (A.API, A.CONDUCTOR, A.RECONCILER, A.PERIODIC)},
        "the poll is due, the agent has called or its command has ended; or the machine is booted"
        " again", new_fence=True,
    ),
    E.HOLD: Transition(S.HELD, {S.RUNNING: (A.CONDUCTOR,)}, "a hold step is reached"),
    E.UNHOLD: Transition(
        S.WAITING, {S.HELD: (A.API,)}, "`unhold` is requested; *resume* follows at once"
    ),
    E.TAKE_OVER: Transition(
        S.QUEUED, {S.RUNNING: (A.RECONCILER,)},
        "the claimant is dead or the deadline of the step has passed", new_fence=True,
    ),
    E.RESTART: Transition(
        S.QUEUED, {S.RUNNING: (A.CONDUCTOR,)},
        "an automated clean restarts after a change of the agent", new_fence=True,
    ),
    E.DISPATCH: Transition(
        S.QUEUED, {S.QUEUED: (A.API, A.CONDUCTOR, A.RECONCILER)},
        "the conductor drains; cleanup steps are to run; or it enters an admission queue, between"
        " two flows", new_fence=True,
    ),
    E.CLEAN_UP: Transition(
        S.QUEUED,
        {
            S.QUEUED: (A.API,),
            S.RUNNING: (A.API, A.CONDUCTOR, A.RECONCILER),
            S.WAITING: (A.API, A.RECONCILER),
            S.HELD: (A.API,),
        },
        "it has failed or was aborted, and the cursor is at a cleanup step",
    ),
    E.SUCCEED: Transition(
        S.SUCCEEDED, {None: (A.API, A.PERIODIC), S.RUNNING: (A.CONDUCTOR,)},
        "the last step is done; or there was nothing to do",
    ),
    E.FAIL: Transition(
        S.FAILED,
        {
            None: (A.API, A.PERIODIC),
            S.RUNNING: (A.CONDUCTOR, A.RECONCILER),
            S.WAITING: (A.RECONCILER,),
        },
        "a step has failed or run out of time, and no cleanup step is left; or the requested steps"
        " were invalid",
    ),
    E.ABORT: Transition(
        S.ABORTED,
        {
            S.QUEUED: (A.API,),
            S.RUNNING: (A.API, A.CONDUCTOR, A.RECONCILER),
            S.WAITING: (A.API, A.RECONCILER),
            S.HELD: (A.API,),
        },
        "it was aborted, and no cleanup step is left",
    ),
    E.SUPERSEDE: Transition(
        S.ABORTED, dict.fromkeys((S.QUEUED, S.WAITING, S.HELD), (A.API, A.PERIODIC)),
        "another verb replaces it",
    ),
    E.RESTORE: Transition(
        S.FAILED, dict.fromkeys(_ACTIVE, (A.CONDUCTOR, A.COMMAND)),
        "the database was restored from a backup"
    ),
    E.REPAIR: Transition(
        S.FAILED, dict.fromkeys(_ACTIVE, (A.COMMAND,)),
        "the node is in a state in which no operation is under way",
    ),
}  # fmt: skip

P = StepState
#: States of a step that is still to be run, or to be called again.
UNFINISHED = (P.PENDING, P.RUNNING, P.WAITING)

STEPS: Mapping[StepEvent, StepTransition] = {
    StepEvent.PLAN: StepTransition(P.PENDING, frozenset({None}), "it is part of a plan"),
    StepEvent.BEGIN: StepTransition(
        P.RUNNING, frozenset(UNFINISHED), "an attempt claims it, for the first time or again"
    ),
    StepEvent.WAIT: StepTransition(
        P.WAITING, frozenset({P.RUNNING}), "it waits, or holds the operation"
    ),
    StepEvent.FINISH: StepTransition(P.DONE, frozenset({P.RUNNING}), "it is done"),
    StepEvent.FAIL: StepTransition(
        P.FAILED, frozenset({P.RUNNING, P.WAITING}), "it has failed or run out of time"
    ),
    StepEvent.ABORT: StepTransition(
        P.ABORTED, frozenset(UNFINISHED), "the operation is aborted at it"
    ),
    StepEvent.SKIP: StepTransition(
        P.SKIPPED, frozenset(UNFINISHED), "the operation has ended or failed before it was done"
    ),
    StepEvent.RESET: StepTransition(
        P.PENDING, frozenset({*UNFINISHED, P.DONE}), "the operation goes back to it or before it"
    ),
}

#: Key of a session's `info`: the `Actor` of its transaction.
ACTOR = "actor"


def state_after(old_state: str | None, event: OperationEvent, actor: Actor) -> OperationState:
    """Return the state of an operation after an event. Raises IllegalTransition."""
    return OPERATIONS[event].after(old_state, event, actor)


def transition(session: Session, operation: Operation, event: OperationEvent) -> None:
    """
    Change the state of an operation: the only way besides the SQL of `workers.conductor.claims`.

    Raises IllegalTransition: the transaction's actor may not fire the event in this state.
    """
    operation.state = state_after(operation.state, event, session.info[ACTOR])


def step_transition(step: OperationStep, event: StepEvent) -> None:
    """
    Change the state of a step.

    Raises IllegalTransition: the event is not allowed in this state.
    """
    row = STEPS[event]
    if step.state not in row.origins:
        raise IllegalTransition(step.state, event)
    step.state = row.to


def sole_move(event: OperationEvent, actor: Actor) -> tuple[str, str]:
    """
    Return the states before and after an event that occurs in one state only, for an UPDATE.

    Raises IllegalTransition: the actor may not fire the event.
    """
    ((old_state, _),) = OPERATIONS[event].origins.items()
    assert old_state is not None
    return old_state, state_after(old_state, event, actor)
