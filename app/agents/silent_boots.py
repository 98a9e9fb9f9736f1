"""
Boot retries: machines that network-boot the agent and send no heartbeat.

A lost packet can leave a machine in its firmware's menu forever. After `[pxe]boot_retry_timeout`
seconds without a heartbeat it is powered off and booted again, as often as fits into the callback
timeout of the flow.
"""

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.db.clock import age
from app.db.item_isolation import isolated
from app.engine import operations, timeouts, wake
from app.hardware import targets
from app.lifecycle.flows import FLOWS
from app.lifecycle.operation_states import Actor
from app.models import AgentRecord, Node, Operation, OperationState, OperationStep, StepState
from app.observe import log
from app.runtime import Runtime

logger = log.get(__name__)

_STATES = [flow.wait for flow in FLOWS if flow.boots_again]
_BOOTS, _OFF = "boot.prepare_ramdisk", "power.power_off"


def retry_silent_boots(runtime: Runtime) -> int:
    """Check all nodes once and return the number of machines that are booted again."""
    timeout = runtime.settings.pxe.boot_retry_timeout
    if not timeout:
        return 0
    with runtime.reading() as session:
        ids = list(session.scalars(_silent(timeout)))
    retried = 0
    for operation_id in ids:
        with isolated("boot.not_retried", operation_id=operation_id):
            retried += _retry_one(runtime, operation_id, timeout)
    return retried


def _retry_one(runtime: Runtime, operation_id: int, timeout: float) -> bool:
    with runtime.transaction(Actor.PERIODIC) as session:
        node, operation = operations.lock_operation(session, operation_id)
        if session.scalar(_silent(timeout).where(Operation.id == operation_id)) is None:
            return False
        return _boot_again(runtime, session, node, operation, timeout)


def _boot_again(
    runtime: Runtime, session: Session, node: Node, operation: Operation, timeout: float
) -> bool:
    if node.driver not in runtime.drivers.types:
        return False  # left to a conductor that has loaded it
    if not targets.driver_of(runtime, node).boot.boots_again:
        return False
    finished_rows = [
        row for row in operations.steps_of(session, operation) if _is_before(row, operation)
    ]
    booted = [row for row in finished_rows if row.label == _BOOTS][-1]
    limit = timeouts.callback_timeout(session, node)
    if limit and booted.attempts * timeout >= limit:
        return False  # no time for another boot before the deadline
    off_positions = [
        row.position
        for row in finished_rows
        if row.label == _OFF and row.position < booted.position
    ]
    operations.rewind(session, operation, max(off_positions, default=booted.position))
    facts = {"node": node.uuid, "operation": operation.uuid, "request_id": operation.request_id}
    logger.warning("boot.retried", **facts, silent=timeout)
    return wake.resume_operation(session, node, operation)


def _is_before(row: OperationStep, operation: Operation) -> bool:
    return row.position < operation.cursor and row.state == StepState.DONE


def _silent(timeout: float) -> Select[Any]:
    """Select operations whose agent was booted `timeout` seconds ago and has not called yet."""
    interface, _, name = _BOOTS.partition(".")
    has_called = (
        select(AgentRecord.node_id)
        .where(
            AgentRecord.node_id == Operation.node_id,
            AgentRecord.token.is_not(None) | AgentRecord.url.is_not(None),
        )
        .exists()
    )
    return (
        select(Operation.id)
        .join(Node, Node.id == Operation.node_id)
        .join(OperationStep, OperationStep.operation_id == Operation.id)
        .where(
            Operation.state == OperationState.WAITING,
            Operation.wake_at.is_(None),
            Node.provision_state.in_(_STATES),
            Node.maintenance.is_(False),
            Node.reservation.is_(None),
            ~has_called,
            OperationStep.interface == interface,
            OperationStep.name == name,
            OperationStep.state == StepState.DONE,
            OperationStep.position < Operation.cursor,
            age(OperationStep.finished_at) > timeout,
        )
    )
