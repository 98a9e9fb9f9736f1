"""
Facts about an agent that an operation waits for, for `/why` and for timeout errors.
"""

from datetime import datetime

from sqlalchemy.orm import Session

from app.engine.records import agent_refusals
from app.models import AgentRecord, Node, Operation, OperationStep
from drivers.core.interface_kinds import Boot


def facts(session: Session, node: Node, operation: Operation) -> list[str]:
    """
    List the agent's last heartbeat, its refused requests, the last known power state, and warnings
    of the boot medium.
    """
    start = operation.started_at or operation.created_at
    refusals = agent_refusals.since(session, node, start)
    sentences = [_last_call(session, node, start, refused=bool(refusals)), *refusals]
    if node.power_state:
        sentences.append(f"the last known power state is {node.power_state}")
    warning = node.driver_internal_info.get(Boot.WARNING)
    return [*sentences, str(warning)] if warning else sentences


def is_polled(step: OperationStep) -> bool:
    """Return whether a step with a due time polls the agent, and not the machine's power state."""
    return (step.in_band or step.collects) and "power" not in step.progress


def _last_call(session: Session, node: Node, start: datetime, *, refused: bool) -> str:
    """Describe the agent's last heartbeat. refused: requests of the agent were refused."""
    agent = session.get(AgentRecord, node.id)
    last_heartbeat = agent.last_heartbeat_at if agent else None
    if last_heartbeat is None:
        if refused:
            return "no heartbeat of an agent of this node has been accepted"
        return "no agent of this node has ever sent a heartbeat"
    if last_heartbeat < start:
        time = _moment(last_heartbeat)
        return f"no agent heartbeat since {_moment(start)}; the last one was at {time}"
    return f"the agent's last heartbeat was at {_moment(last_heartbeat)}"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
