"""
Events of Neutron about its ports: they end a step's wait for a port.

An event is a hint: the step reads the port again.
"""

from collections.abc import Iterable, Mapping

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.engine import wake
from app.engine.operations import current_step, lock
from app.models import Operation, OperationState, Port
from app.runtime import Runtime

#: Statuses of a bound port that end a wait.
FINAL = ("ACTIVE", "ERROR")


def resume_waiting(runtime: Runtime, events: Iterable[Mapping[str, object]]) -> None:
    """Resume the operations that wait for the ports of these events."""
    for event in events:
        if event["event"] == "network.bind_port" and event["status"] in FINAL:
            with runtime.transaction() as session:
                _wake(session, str(event["port_id"]), str(event["mac_address"]).lower())


def _wake(session: Session, vif: str, address: str) -> None:
    node_id = session.scalar(select(Port.node_id).where(Port.address == address))
    if node_id is None:
        return
    node = lock(session, node_id)
    waiting = select(Operation).where(
        Operation.node_id == node_id,
        Operation.state == OperationState.WAITING,
        Operation.wake_at.is_not(None),
    )
    for operation in session.scalars(waiting):
        progress = current_step(session, operation).progress
        if vif.encode() in orjson.dumps(progress):
            wake.resume_operation(session, node, operation)
