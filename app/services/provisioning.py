"""
Provisioning: a verb from the API, with its arguments, becomes a move and an operation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.errors import (
    Conflict,
    IllegalMove,
    InMaintenance,
    Invalid,
    NodeLocked,
    NodeProtected,
)
from app.models import Node, OperationStep
from app.runtime import Runtime, of
from app.services import moves, operations, outcomes, planning, targets
from app.services.caller import Caller
from app.services.conductors import require_served
from app.states import MACHINE, VERBS, Event, Kind, State, allows
from drivers.errors import HardwareError
from drivers.target import Target

Plan = Callable[[Runtime, Node, Target], list[OperationStep]]


@dataclass(frozen=True, slots=True)
class Verb:
    """
    How an event that somebody asks for is carried out.

    kind: of the operation. plan: its steps. validates: the interfaces whose settings must be right
    before anything begins. in_maintenance: whether a node in maintenance takes it. protected:
    whether a protected node refuses it.
    """

    kind: str
    plan: Plan
    validates: tuple[str, ...] = ()
    in_maintenance: bool = True
    protected: bool = False


_MANAGE = Verb("manage", planning.verify)
_DEPLOY = Verb(
    "active", planning.deploy, ("power", "deploy", "boot", "network"), in_maintenance=False
)

#: Event -> how; MANAGE works only where the node must be verified first.
_VERBS: Mapping[Event, Verb] = {
    Event.MANAGE: _MANAGE,
    Event.PROVIDE: Verb("provide", planning.clean),
    Event.DEPLOY: _DEPLOY,
    Event.REBUILD: Verb(
        "rebuild", _DEPLOY.plan, _DEPLOY.validates, in_maintenance=False, protected=True
    ),
    Event.DELETE: Verb("deleted", planning.delete, protected=True),
}


def request(
    session: Session, node: Node, verb: str, arguments: Mapping[str, Any], caller: Caller
) -> None:
    """
    Begin what `verb` (a key of `states.VERBS`) asks for: check, plan, move, and hand out.

    The caller has locked the node's row. Raises Invalid for an unknown verb, IllegalMove,
    NodeLocked, InMaintenance, NodeProtected, Conflict, and Unavailable when no conductor serves
    the node.
    """
    event = VERBS.get(verb)
    if event is None:
        raise Invalid(f'The requested action "{verb}" could not be understood.')
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)
    if not allows(node.provision_state, event):
        raise IllegalMove(verb, node.uuid, node.provision_state)
    how = _VERBS.get(event)
    if how is None:
        raise Invalid(f'The action "{verb}" is not available in this release.')
    _check(node, verb, event, how)
    row = MACHINE[State(node.provision_state)]
    if row.kind in (Kind.WAIT, Kind.HOLD):
        outcomes.supersede(session, node)
    node.last_error = None
    if row.moves[event] is State.MANAGEABLE:  # nothing to do but the move
        moves.move(node, event)
        return
    require_served(session, node)
    target = targets.of_node(session, node)
    _validate(target, how.validates)
    if event in (Event.DEPLOY, Event.REBUILD):
        _prepare_instance(node, arguments)
    moves.move(node, event, MACHINE[row.moves[event]].target)
    rows = how.plan(of(session), node, target)
    shown = {key: value for key, value in arguments.items() if key != "configdrive"}
    if rows:
        operations.start(session, node, how.kind, rows, shown, caller)
    else:
        _finish_at_once(session, node, how.kind, caller)


def _check(node: Node, verb: str, event: Event, how: Verb) -> None:
    clean_failure = node.fault == moves.CLEAN_FAILURE and node.provision_state == State.CLEAN_FAIL
    if node.maintenance and not how.in_maintenance and not clean_failure:
        raise InMaintenance(verb, node.uuid)
    if node.protected and how.protected:
        raise NodeProtected(node.uuid)
    if event is Event.PROVIDE and node.retired:
        raise Conflict(f"Node {node.uuid} is retired and cannot become available.")


def _validate(target: Target, kinds: tuple[str, ...]) -> None:
    for kind in kinds:
        try:
            target.driver.by_kind[kind].validate(target)
        except HardwareError as error:
            raise Invalid(
                f"Failed to validate {kind} interface of node {target.uuid}: {error}"
            ) from error


def _prepare_instance(node: Node, arguments: Mapping[str, Any]) -> None:
    if "configdrive" in arguments:
        node.instance_info = {**node.instance_info, "configdrive": arguments["configdrive"]}


def _finish_at_once(session: Session, node: Node, kind: str, caller: Caller) -> None:
    """Automated cleaning is off: the node passes through, and its history says so."""
    state = State(node.provision_state)
    event = Event.MANAGE if node.retired else Event.DONE
    operation = operations.record_finished(session, node, kind, caller)
    moves.move(node, event)
    moves.settle(session, node, state, event, operation)
