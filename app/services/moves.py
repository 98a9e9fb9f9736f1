"""
Moves: the one function that changes a provision state, and what belongs to certain moves.
"""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app import flows
from app.db import now, utcnow
from app.errors import IllegalMove
from app.flows import ProvisionFlow
from app.models import (
    AgentRecord,
    Allocation,
    Fault,
    InspectionReport,
    Node,
    Operation,
    OperationStep,
)
from app.runtime import of
from app.states import MACHINE, Event, Kind, State
from drivers.agent.fast_track import chosen
from drivers.agent.inspect import BMC_ADDRESSES
from drivers.core.kinds import Boot
from drivers.core.steps import Flow

RESCUE_PASSWORDS = ("rescue_password", "hashed_rescue_password")


def move(node: Node, event: Event, target: State | None = None) -> None:
    """
    Let `event` happen to `node`: the only way in which a provision state changes.

    target: where the flow that begins leads, when that is not what the table says. Within a flow
    the target is kept. Raises IllegalMove. The caller has locked the row.
    """
    old = MACHINE[State(node.provision_state)]
    if event not in old.moves:
        raise IllegalMove(event, node.uuid, node.provision_state)
    state = old.moves[event]
    new = MACHINE[state]
    node.provision_state = state
    if new.kind is Kind.STABLE:
        node.target_provision_state = None
    elif target is not None or old.target != new.target or old.kind is Kind.STABLE:
        node.target_provision_state = target or new.target
    node.provision_updated_at = node.updated_at = utcnow()
    if event is Event.INSPECT:
        node.inspection_started_at, node.inspection_finished_at = now(), None
    elif event in (Event.DONE, Event.FAIL, Event.ABORT) and old.target is State.MANAGEABLE:
        _end_inspection(node, done=event is Event.DONE)


def _end_inspection(node: Node, *, done: bool) -> None:
    """The times of an inspection, if it is one that ends."""
    if node.inspection_started_at is not None:
        node.inspection_started_at = None
        node.inspection_finished_at = utcnow() if done else None


def settle(session: Session, node: Node, state: State, event: Event, operation: Operation) -> None:
    """What belongs to an event in a state, beyond the move; rows of one table."""
    for effect in _EFFECTS.get((state, event), ()):
        effect(session, node, operation)


def _wipe_instance(session: Session, node: Node, operation: Operation) -> None:
    """Nothing of the tenant is left, whether the tear-down went well or not."""
    session.execute(delete(Allocation).where(Allocation.node_id == node.id))
    node.instance_info = {}
    node.instance_uuid = node.instance_name = None
    gone = {
        "instance", "root_uuid_or_disk_id", "is_whole_disk_image", "deploy_boot_mode", "image",
        Boot.INSTANCE_NEXT,
    }  # fmt: skip
    internal = node.driver_internal_info
    if internal.get("automatic_lessee"):
        node.lessee = None
        gone |= {"automatic_lessee"}
    node.driver_internal_info = {key: value for key, value in internal.items() if key not in gone}


def _forget_agent(session: Session, node: Node, operation: Operation) -> None:
    """A flow is over: the agent that took part in it is not to be trusted any longer."""
    agent = session.get(AgentRecord, node.id)
    if agent is not None:
        agent.pregenerated = False  # its medium is of no use any more
        forget_agent(agent)


def _release_agent(session: Session, node: Node, operation: Operation) -> None:
    """It is over; where agents are kept running, the next operation goes on with this one."""
    if not chosen(node.driver_info, of(session).settings.deploy.fast_track):
        _forget_agent(session, node, operation)


def _clean_failed(session: Session, node: Node, operation: Operation) -> None:
    """A failed clean always puts the node into maintenance (spec implement-cleaning-states)."""
    leave_to_operator(node, Fault.CLEAN_FAILURE)


def _clean_succeeded(session: Session, node: Node, operation: Operation) -> None:
    _repaired(node, Fault.CLEAN_FAILURE)


def _service_failed(session: Session, node: Node, operation: Operation) -> None:
    """A service that failed in one of its steps leaves the machine to an operator."""
    begun = session.scalar(
        select(OperationStep.id)
        .where(
            OperationStep.operation_id == operation.id,
            OperationStep.flow == Flow.SERVICE,
            OperationStep.attempts > 0,
        )
        .limit(1)
    )
    if begun is not None:
        leave_to_operator(node, Fault.SERVICE_FAILURE)


def _service_succeeded(session: Session, node: Node, operation: Operation) -> None:
    _repaired(node, Fault.SERVICE_FAILURE)


def leave_to_operator(node: Node, fault: Fault) -> None:
    """Into maintenance, because of its last error."""
    node.maintenance, node.fault = True, fault
    node.maintenance_reason = node.maintenance_reason or node.last_error


def _repaired(node: Node, fault: Fault) -> None:
    """Success clears the maintenance that a failure of its kind has set, and no other."""
    if node.fault == fault:
        node.maintenance, node.fault, node.maintenance_reason = False, None, None


def _forget_password(session: Session, node: Node, operation: Operation) -> None:
    """Nobody needs the password of a rescue any longer than it takes to set it."""
    info = node.instance_info
    if any(key in info for key in RESCUE_PASSWORDS):
        node.instance_info = {key: info[key] for key in info if key not in RESCUE_PASSWORDS}


def _forget_report(session: Session, node: Node, operation: Operation) -> None:
    """What the agent has posted was made use of, or comes too late."""
    session.execute(delete(InspectionReport).where(InspectionReport.node_id == node.id))
    info = node.driver_internal_info
    node.driver_internal_info = {key: info[key] for key in info if key != BMC_ADDRESSES}


def _power_unknown(session: Session, node: Node, operation: Operation) -> None:
    node.power_state = None


Effect = Callable[[Session, Node, Operation], None]
_OF_FLOW: Sequence[tuple[ProvisionFlow, Sequence[Event], Sequence[Effect]]] = (
    (flows.INSPECT, (Event.DONE,), (_forget_report, _release_agent)),
    (flows.INSPECT, (Event.FAIL, Event.ABORT), (_forget_report, _forget_agent)),
    (flows.CLEAN, (Event.DONE, Event.MANAGE), (_clean_succeeded, _release_agent)),
    (flows.CLEAN, (Event.FAIL,), (_clean_failed, _forget_agent)),
    (flows.CLEAN, (Event.ABORT,), (_forget_agent,)),
    (flows.DEPLOY, (Event.DONE, Event.FAIL, Event.ABORT), (_forget_agent,)),
    (flows.DELETE, (Event.CLEAN, Event.FAIL), (_wipe_instance,)),
    (flows.ADOPT, (Event.FAIL,), (_power_unknown,)),
    (flows.RESCUE, (Event.DONE, Event.FAIL, Event.ABORT), (_forget_password, _forget_agent)),
    (flows.UNRESCUE, (Event.DONE,), (_forget_password, _forget_agent)),
    (flows.SERVICE, (Event.DONE,), (_service_succeeded, _forget_agent)),
    (flows.SERVICE, (Event.FAIL,), (_service_failed, _forget_agent)),
    (flows.SERVICE, (Event.ABORT,), (_forget_agent,)),
)
#: A flow ends in its busy state; it is aborted in any of its states.
_EFFECTS: Mapping[tuple[State, Event], Sequence[Effect]] = {
    (state, event): effects
    for flow, events, effects in _OF_FLOW
    for event in events
    for state in (flow.under_way.values() if event is Event.ABORT else (flow.busy,))
} | {(flows.SERVICE.failed, Event.ABORT): (_service_succeeded,)}


def forget_agent(agent: AgentRecord) -> None:
    """
    The machine is off or starts anew: what runs there next must prove itself again.

    The steps that it listed are kept: they are what the node can do, as far as is known (spec
    manual-cleaning), and are listed anew before any of them is run.
    """
    agent.url = agent.verify_ca = agent.status = agent.status_message = None
    if not agent.pregenerated:
        agent.token = agent.given_to = agent.given_at = None
