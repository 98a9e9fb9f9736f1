"""
The provision state machine: one table, from which API, workers, docs and tests derive.

The entries are Ironic's 30 states and their transitions, plus the seed specs' (marked SEED).
The function that makes an entry names the kind of the state; its keywords are events, their values
the next states. The verbs of a busy state follow from the entry of its wait state (`waits_in`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Provision state of a node; its value is shown by the API."""

    ENROLL = "enroll"
    VERIFYING = "verifying"
    MANAGEABLE = "manageable"
    AVAILABLE = "available"
    INSPECTING = "inspecting"
    INSPECT_WAIT = "inspect wait"
    INSPECT_FAIL = "inspect failed"
    CLEANING = "cleaning"
    CLEAN_WAIT = "clean wait"
    CLEAN_HOLD = "clean hold"
    CLEAN_FAIL = "clean failed"
    DEPLOYING = "deploying"
    DEPLOY_WAIT = "wait call-back"
    DEPLOY_HOLD = "deploy hold"
    DEPLOY_FAIL = "deploy failed"
    ACTIVE = "active"
    DELETING = "deleting"
    ERROR = "error"
    ADOPTING = "adopting"
    ADOPT_FAIL = "adopt failed"
    RESCUING = "rescuing"
    RESCUE_WAIT = "rescue wait"
    RESCUE = "rescue"
    RESCUE_FAIL = "rescue failed"
    UNRESCUING = "unrescuing"
    UNRESCUE_FAIL = "unrescue failed"
    SERVICING = "servicing"
    SERVICE_WAIT = "service wait"
    SERVICE_HOLD = "service hold"
    SERVICE_FAIL = "service failed"


class Event(StrEnum):
    """Cause of a transition of a node."""

    MANAGE = "manage"
    PROVIDE = "provide"
    INSPECT = "inspect"
    CLEAN = "clean"
    ADOPT = "adopt"
    DEPLOY = "deploy"
    REBUILD = "rebuild"
    DELETE = "delete"
    RESCUE = "rescue"
    UNRESCUE = "unrescue"
    SERVICE = "service"
    ABORT = "abort"
    HOLD = "hold"
    UNHOLD = "unhold"
    WAIT = "wait"
    RESUME = "resume"
    DONE = "done"
    FAIL = "fail"


class Kind(StrEnum):
    """Kind of a state: the party that acts while a node is in it."""

    STABLE = "stable"  # none, until a verb is requested
    BUSY = "busy"  # a conductor acts
    WAIT = "wait"  # the agent or the BMC acts; a deadline runs
    HOLD = "hold"  # an operator acts; no deadline
    FAILED = "failed"  # an operator decides


@dataclass(frozen=True, slots=True)
class Row:
    """Entry of the state table: one state."""

    kind: Kind
    moves: Mapping[Event, State]  # event -> next state
    target: State | None = None  # default target provision state on entry, if any
    #: Momentary state after success, recorded in the node's history only (spec
    #: new-ironic-state-machine), if there is one.
    passed: str | None = None


def _moves(moves: Mapping[str, State]) -> dict[Event, State]:
    return {Event(event): state for event, state in moves.items()}


def stable(**moves: State) -> Row:
    return Row(Kind.STABLE, _moves(moves))


def busy(target: State, passed: str | None = None, /, **moves: State) -> Row:
    return Row(Kind.BUSY, _moves(moves), target, passed)


def wait(target: State, **moves: State) -> Row:
    return Row(Kind.WAIT, _moves(moves), target)


def hold(target: State, **moves: State) -> Row:
    return Row(Kind.HOLD, _moves(moves), target)


def failed(target: State, **moves: State) -> Row:
    return Row(Kind.FAILED, _moves(moves), target)


S = State

# fmt: off
MACHINE: Mapping[State, Row] = {
    S.ENROLL:        stable(manage=S.VERIFYING),
    S.VERIFYING:     busy(S.MANAGEABLE, "verified", done=S.MANAGEABLE, fail=S.ENROLL),
    S.MANAGEABLE:    stable(inspect=S.INSPECTING, clean=S.CLEANING, provide=S.CLEANING, adopt=S.ADOPTING),
    S.AVAILABLE:     stable(deploy=S.DEPLOYING, manage=S.MANAGEABLE),

    S.INSPECTING:    busy(S.MANAGEABLE, "inspected", done=S.MANAGEABLE, wait=S.INSPECT_WAIT, fail=S.INSPECT_FAIL),
    S.INSPECT_WAIT:  wait(S.MANAGEABLE, resume=S.INSPECTING, done=S.MANAGEABLE, fail=S.INSPECT_FAIL, abort=S.INSPECT_FAIL),
    S.INSPECT_FAIL:  failed(S.MANAGEABLE, inspect=S.INSPECTING, manage=S.MANAGEABLE),

    S.CLEANING:      busy(S.AVAILABLE, "cleaned", done=S.AVAILABLE, manage=S.MANAGEABLE, wait=S.CLEAN_WAIT, hold=S.CLEAN_HOLD, fail=S.CLEAN_FAIL),
    S.CLEAN_WAIT:    wait(S.AVAILABLE, resume=S.CLEANING, hold=S.CLEAN_HOLD, fail=S.CLEAN_FAIL, abort=S.CLEAN_FAIL),
    S.CLEAN_HOLD:    hold(S.AVAILABLE, unhold=S.CLEAN_WAIT, abort=S.CLEAN_FAIL),
    # SEED (implement-cleaning-states): clean failed may be cleaned again, by `provide` and by `clean`
    S.CLEAN_FAIL:    failed(S.AVAILABLE, manage=S.MANAGEABLE, provide=S.CLEANING, clean=S.CLEANING),

    S.DEPLOYING:     busy(S.ACTIVE, "deployed", done=S.ACTIVE, wait=S.DEPLOY_WAIT, hold=S.DEPLOY_HOLD, fail=S.DEPLOY_FAIL),
    S.DEPLOY_WAIT:   wait(S.ACTIVE, resume=S.DEPLOYING, hold=S.DEPLOY_HOLD, fail=S.DEPLOY_FAIL, abort=S.DEPLOY_FAIL, delete=S.DELETING),
    S.DEPLOY_HOLD:   hold(S.ACTIVE, unhold=S.DEPLOY_WAIT, abort=S.DEPLOY_FAIL),
    S.DEPLOY_FAIL:   failed(S.ACTIVE, deploy=S.DEPLOYING, rebuild=S.DEPLOYING, delete=S.DELETING),

    S.ACTIVE:        stable(rebuild=S.DEPLOYING, delete=S.DELETING, rescue=S.RESCUING, service=S.SERVICING),
    S.DELETING:      busy(S.AVAILABLE, "deleted", clean=S.CLEANING, fail=S.ERROR),
    S.ERROR:         stable(rebuild=S.DEPLOYING, delete=S.DELETING),

    S.ADOPTING:      busy(S.ACTIVE, done=S.ACTIVE, fail=S.ADOPT_FAIL),
    S.ADOPT_FAIL:    failed(S.ACTIVE, adopt=S.ADOPTING, manage=S.MANAGEABLE),

    S.RESCUING:      busy(S.RESCUE, "rescued", done=S.RESCUE, wait=S.RESCUE_WAIT, fail=S.RESCUE_FAIL),
    S.RESCUE_WAIT:   wait(S.RESCUE, resume=S.RESCUING, fail=S.RESCUE_FAIL, abort=S.RESCUE_FAIL, delete=S.DELETING),
    S.RESCUE:        stable(rescue=S.RESCUING, unrescue=S.UNRESCUING, delete=S.DELETING),
    S.RESCUE_FAIL:   failed(S.RESCUE, rescue=S.RESCUING, unrescue=S.UNRESCUING, delete=S.DELETING),
    S.UNRESCUING:    busy(S.ACTIVE, "unrescued", done=S.ACTIVE, fail=S.UNRESCUE_FAIL),
    S.UNRESCUE_FAIL: failed(S.ACTIVE, rescue=S.RESCUING, unrescue=S.UNRESCUING, delete=S.DELETING),

    S.SERVICING:     busy(S.ACTIVE, done=S.ACTIVE, wait=S.SERVICE_WAIT, hold=S.SERVICE_HOLD, fail=S.SERVICE_FAIL),
    S.SERVICE_WAIT:  wait(S.ACTIVE, resume=S.SERVICING, hold=S.SERVICE_HOLD, fail=S.SERVICE_FAIL, abort=S.SERVICE_FAIL, delete=S.DELETING),
    S.SERVICE_HOLD:  hold(S.ACTIVE, unhold=S.SERVICE_WAIT, service=S.SERVICING, fail=S.SERVICE_FAIL, abort=S.SERVICE_FAIL),
    S.SERVICE_FAIL:  failed(S.ACTIVE, service=S.SERVICING, rescue=S.RESCUING, wait=S.SERVICE_WAIT, hold=S.SERVICE_HOLD, delete=S.DELETING, abort=S.ACTIVE),
}
# fmt: on

#: `target` of PUT states/provision -> requested event.
VERBS: Mapping[str, Event] = {
    "active": Event.DEPLOY,
    "deploy": Event.DEPLOY,
    "rebuild": Event.REBUILD,
    "deleted": Event.DELETE,
    "undeploy": Event.DELETE,
    "manage": Event.MANAGE,
    "provide": Event.PROVIDE,
    "inspect": Event.INSPECT,
    "abort": Event.ABORT,
    "clean": Event.CLEAN,
    "adopt": Event.ADOPT,
    "rescue": Event.RESCUE,
    "unrescue": Event.UNRESCUE,
    "unhold": Event.UNHOLD,
    "service": Event.SERVICE,
}


#: Stable states of a node without an instance.
WITHOUT_INSTANCE = frozenset({S.ENROLL, S.MANAGEABLE, S.AVAILABLE})


def of_kind(*kinds: Kind) -> frozenset[State]:
    return frozenset(state for state, row in MACHINE.items() if row.kind in kinds)


def allows(state: str, event: Event) -> bool:
    return event in MACHINE[State(state)].moves


def waits_in(state: str) -> State | None:
    """
    Return the wait state whose verbs a busy state takes, if there is one.

    A busy state with a wait state takes `abort` in the middle of a step, and the other verbs as
    long as its operation is in the admission queue.
    """
    row = MACHINE[State(state)]
    return row.moves.get(Event.WAIT) if row.kind is Kind.BUSY else None


def verbs_in(state: str) -> tuple[str, ...]:
    """Return the verbs that a state accepts; `deleted` stands for `undeploy`."""
    wait_state = waits_in(state)
    if MACHINE[State(state)].kind is Kind.BUSY:
        return ("abort",) if wait_state is not None and allows(wait_state, Event.ABORT) else ()
    moves = MACHINE[State(state)].moves
    return tuple(verb for verb, event in VERBS.items() if event in moves and verb != "undeploy")
