"""
Facts about an agent that an operation waits for, for `/why` and for timeout errors.
"""

from datetime import datetime

from sqlalchemy.orm import Session

from app.engine import agent_refusals
from app.models import AgentRecord, Node, Operation, OperationStep
from drivers.core.interface_kinds import Boot


def facts(session: Session, node: Node, operation: Operation) -> list[str]:
    """
    List the agent's last heartbeat, its refused requests, the last known power state, and warnings
    of the boot medium.
    """
    started = operation.started_at or operation.created_at
    refused = agent_refusals.since(session, node, started)
    known = [_last_call(session, node, started, refused=bool(refused)), *refused]
    if node.power_state:
        known.append(f"the last known power state is {node.power_state}")
    warning = node.driver_internal_info.get(Boot.WARNING)
    return [*known, str(warning)] if warning else known


def is_polled(step: OperationStep) -> bool:
    """Return whether a step with a due time polls the agent, and not the machine's power state."""
    return (step.in_band or step.collects) and "power" not in step.progress


def _last_call(session: Session, node: Node, started: datetime, *, refused: bool) -> str:
    """Describe the agent's last heartbeat. refused: requests of the agent were refused."""
    agent = session.get(AgentRecord, node.id)
    last = agent.last_heartbeat_at if agent else None
    if last is None:
        if refused:
            return "no heartbeat of an agent of this node has been accepted"
        return "no agent of this node has ever sent a heartbeat"
    if last < started:
        return f"no agent heartbeat since {_moment(started)}; the last one was at {_moment(last)}"
    return f"the agent's last heartbeat was at {_moment(last)}"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
