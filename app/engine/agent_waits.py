"""
Waits for an agent: what is known of it, for those who ask why a node waits, and when it failed.
"""

from datetime import datetime

from sqlalchemy.orm import Session

from app.models import AgentRecord, Node, Operation
from drivers.boot import fetchable


def facts(session: Session, node: Node, operation: Operation) -> list[str]:
    """When the agent was last heard, the power that was last read, and doubts about its medium."""
    told = [_last_call(session, node, operation.started_at or operation.created_at)]
    if node.power_state:
        told.append(f"the machine was last seen at {node.power_state}")
    warning = node.driver_internal_info.get(fetchable.WARNING)
    return [*told, str(warning)] if warning else told


def _last_call(session: Session, node: Node, begun: datetime) -> str:
    agent = session.get(AgentRecord, node.id)
    last = agent.last_heartbeat_at if agent else None
    if last is None:
        return "no agent of this node has ever called"
    if last < begun:
        return f"no agent has called since {_moment(begun)}; the last call was at {_moment(last)}"
    return f"its agent last called at {_moment(last)}"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
