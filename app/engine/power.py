"""
Power requests: a requested change of the power state becomes an operation.
"""

from sqlalchemy.orm import Session

from app.cluster.conductors import require_served
from app.engine import dispatch
from app.errors import Conflict, IllegalMove, Invalid
from app.hardware import targets
from app.identity.caller import Caller
from app.inventory import history, holds, nodes
from app.lifecycle.hold_kinds import Effect
from app.lifecycle.provision_states import State
from app.models import Node, Operation, OperationKind
from app.planning import planning
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT, SOFT_OFF, SOFT_REBOOT

TARGETS = (POWER_ON, POWER_OFF, REBOOT, SOFT_OFF, SOFT_REBOOT)
#: Cleaning must not be interrupted (spec implement-cleaning-states).
FORBIDDEN_IN = (State.CLEANING, State.CLEAN_WAIT)
#: Effect of the holds that refuse a change.
HELD_BY = Effect.MACHINE


def check(session: Session, node: Node, state: str) -> None:
    """
    Check whether the power state of a node may be changed now, without writing.

    Raises IllegalMove, Invalid, Conflict, NodeLocked, NodeHeld, Unavailable.
    """
    if state not in TARGETS:
        reason = f"{state!r} is not a power state; valid are {', '.join(TARGETS)}"
        raise IllegalMove(state, node.uuid, node.provision_state, reason)
    if node.provision_state in FORBIDDEN_IN:
        raise IllegalMove(state, node.uuid, node.provision_state)
    if node.disable_power_off and state in (POWER_OFF, SOFT_OFF):
        raise Conflict(f"Node {node.uuid} must not be powered off: disable_power_off is set.")
    nodes.check_unlocked(node)
    holds.check(session, node, HELD_BY)
    require_served(session, node)
    target = targets.of_node(session, node)
    driver = interfaces_of(target)
    power = driver.power
    if state not in power.supported:
        raise Invalid(f"target: power interface {power.name} cannot do {state!r}")
    try:
        driver.validate("power", target)
    except HardwareError as error:
        raise Invalid(str(error)) from error


def request(
    session: Session, node: Node, state: str, timeout: float | None, caller: Caller
) -> Operation:
    """
    Change the power state of a node, and return the operation.

    timeout: seconds; the setting's by default. The caller has locked the node's row.

    Raises the errors of `check`.
    """
    check(session, node, state)
    node.target_power_state = POWER_OFF if state in (POWER_OFF, SOFT_OFF) else POWER_ON
    node.last_error = None
    history.record_request(session, node, "power", f"A change to {state!r} was requested.", caller)
    return dispatch.start(
        session,
        node,
        OperationKind.POWER,
        planning.power(state, timeout),
        {"target": state, "timeout": timeout},
        caller,
    )
