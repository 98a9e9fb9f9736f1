"""
Transitions of provision states, and their effects on the node at the end of a flow.
"""

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.db.clock import moment, now
from app.engine.records import sanitation
from app.errors import IllegalMove
from app.inventory.connectivity import vifs
from app.lifecycle import flows
from app.lifecycle.flows import Effect, ProvisionFlow
from app.lifecycle.provision_states import MACHINE, Event, Kind, State
from app.models import (
    AgentRecord,
    Allocation,
    Fault,
    InspectionReport,
    Node,
    Operation,
    OperationStep,
)
from app.runtime import runtime_of
from drivers.core.fast_track import is_enabled_by
from drivers.core.interface_kinds import Boot, Inspect

RESCUE_PASSWORDS = ("rescue_password", "hashed_rescue_password")


def move(session: Session, node: Node, event: Event, target: State | None = None) -> None:
    """
    Apply an event to the provision state of a node. Nothing else changes it.

    target: target provision state of the flow that starts; the table's by default. Within a flow
    the target is kept. The caller has locked the row.

    Raises IllegalMove: the event is not allowed in the node's state.
    """
    old_row = MACHINE[State(node.provision_state)]
    if event not in old_row.moves:
        raise IllegalMove(event, node.uuid, node.provision_state)
    state = old_row.moves[event]
    new_row = MACHINE[state]
    node.provision_state, node.provision_event = state, event
    if new_row.kind is Kind.STABLE:
        node.target_provision_state = None
    elif target is not None or old_row.target != new_row.target or old_row.kind is Kind.STABLE:
        node.target_provision_state = target or new_row.target
    node.provision_updated_at = node.updated_at = moment(session)
    if event is Event.INSPECT:
        node.inspection_started_at, node.inspection_finished_at = now(), None
    elif event in (Event.DONE, Event.FAIL, Event.ABORT) and old_row.target is State.MANAGEABLE:
        _end_inspection(session, node, succeeded=event is Event.DONE)


def _end_inspection(session: Session, node: Node, *, succeeded: bool) -> None:
    """Set the times of an inspection that ends; nothing for other flows."""
    if node.inspection_started_at is not None:
        node.inspection_started_at = None
        node.inspection_finished_at = moment(session) if succeeded else None


def apply_effects(
    session: Session, node: Node, state: State, event: Event, operation: Operation
) -> None:
    """
    Apply the effects of an event that ends a flow.

    state: the node's state before the event.
    """
    flow = flows.under_way_in(state) or flows.failed_in(state)
    if flow is None:
        return
    for effect in _effects(flow, state, event):
        _APPLY[effect](session, node, operation, flow)


def _effects(flow: ProvisionFlow, state: State, event: Event) -> Sequence[Effect]:
    if state == flow.failed:
        return flow.on_abandon if event is Event.ABORT else ()
    if event is Event.ABORT:
        return flow.on_abort
    if state != flow.busy or event in (Event.WAIT, Event.HOLD):
        return ()  # the flow continues
    return flow.on_fail if event is Event.FAIL else flow.on_done


def _wipe_instance(session: Session, node: Node, operation: Operation, flow: ProvisionFlow) -> None:
    """Remove the tenant's data from the node, after a successful or a failed tear-down."""
    sanitation.note_tenancy(node, operation)
    session.execute(delete(Allocation).where(Allocation.node_id == node.id))
    node.instance_info = {}
    node.instance_uuid = node.instance_name = None
    dropped_keys = {
        "instance", "root_uuid_or_disk_id", "is_whole_disk_image", "deploy_boot_mode", "image",
        "image_facts", Boot.INSTANCE_NEXT,
    }  # fmt: skip
    internal = node.driver_internal_info
    if internal.get("automatic_lessee"):
        node.lessee = None
        dropped_keys |= {"automatic_lessee"}
    node.driver_internal_info = {
        key: value for key, value in internal.items() if key not in dropped_keys
    }


def _detach_vifs(session: Session, node: Node, operation: Operation, flow: ProvisionFlow) -> None:
    vifs.detach_all(session, node)


def _forget_agent(session: Session, node: Node, operation: Operation, flow: ProvisionFlow) -> None:
    """Revoke the agent of a flow that has ended."""
    agent = session.get(AgentRecord, node.id)
    if agent is not None:
        agent.pregenerated = False  # the boot medium with its token is not used again
        forget_agent(agent)


def _release_agent(session: Session, node: Node, operation: Operation, flow: ProvisionFlow) -> None:
    """Revoke the agent, unless fast track keeps it running for the next operation."""
    if not is_enabled_by(node.driver_info, runtime_of(session).settings.deploy.fast_track):
        _forget_agent(session, node, operation, flow)


def _set_fault(session: Session, node: Node, operation: Operation, flow: ProvisionFlow) -> None:
    assert flow.fault is not None
    set_fault(node, flow.fault)


def _set_fault_if_attempted(
    session: Session, node: Node, operation: Operation, flow: ProvisionFlow
) -> None:
    """Set the fault of the flow if one of its own steps was attempted."""
    attempted = session.scalar(
        select(OperationStep.id)
        .where(
            OperationStep.operation_id == operation.id,
            OperationStep.flow == flow.step_flow,
            OperationStep.attempts > 0,
        )
        .limit(1)
    )
    if attempted is not None:
        _set_fault(session, node, operation, flow)


def _clear_fault(session: Session, node: Node, operation: Operation, flow: ProvisionFlow) -> None:
    """End the maintenance that a failure of this flow has set, and no other."""
    if node.fault is not None and node.fault == flow.fault:
        node.maintenance, node.fault, node.maintenance_reason = False, None, None


def set_fault(node: Node, fault: Fault) -> None:
    """
    Set maintenance with a fault, with the last error as its reason.

    A maintenance that only an operator may end is kept: no success of a flow ends it.
    """
    if node.maintenance and node.fault in (None, Fault.RESTORED):
        return
    node.maintenance, node.fault, node.maintenance_reason = True, fault, node.last_error


def _forget_password(
    session: Session, node: Node, operation: Operation, flow: ProvisionFlow
) -> None:
    """Remove the rescue password: it is needed only until the ramdisk has set it."""
    info = node.instance_info
    if any(key in info for key in RESCUE_PASSWORDS):
        node.instance_info = {key: info[key] for key in info if key not in RESCUE_PASSWORDS}


def _forget_report(session: Session, node: Node, operation: Operation, flow: ProvisionFlow) -> None:
    """Delete the agent's inspection report, used or too late."""
    session.execute(delete(InspectionReport).where(InspectionReport.node_id == node.id))
    info = node.driver_internal_info
    node.driver_internal_info = {key: info[key] for key in info if key != Inspect.BMC_ADDRESSES}


def _unknown_power(session: Session, node: Node, operation: Operation, flow: ProvisionFlow) -> None:
    node.power_state = None


_APPLY: Mapping[Effect, Callable[[Session, Node, Operation, ProvisionFlow], None]] = {
    Effect.FORGET_AGENT: _forget_agent,
    Effect.RELEASE_AGENT: _release_agent,
    Effect.FORGET_REPORT: _forget_report,
    Effect.FORGET_PASSWORD: _forget_password,
    Effect.WIPE_INSTANCE: _wipe_instance,
    Effect.DETACH_VIFS: _detach_vifs,
    Effect.UNKNOWN_POWER: _unknown_power,
    Effect.SET_FAULT: _set_fault,
    Effect.SET_FAULT_IF_ATTEMPTED: _set_fault_if_attempted,
    Effect.CLEAR_FAULT: _clear_fault,
}


def forget_agent(agent: AgentRecord) -> None:
    """
    Revoke the trust in an agent: its machine is off or reboots.

    The next agent must look up the node for a new token. The steps that it has reported are kept,
    as the last known ones (spec manual-cleaning); the next agent reports its steps before any of
    them runs.
    """
    agent.url = agent.verify_ca = agent.status = agent.status_message = None
    if not agent.pregenerated:
        agent.token = agent.given_to = agent.given_at = None
