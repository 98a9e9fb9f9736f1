"""
History: what happened to a node, in words.
"""

from collections.abc import Mapping, Sequence
from uuid import uuid4

from sqlalchemy import insert
from sqlalchemy.orm import Session

from app.db import utcnow
from app.models import Node, NodeHistory, OperationStep
from app.runtime import of
from app.states import State

#: State -> Ironic's name of the flow of steps that is at work in it.
_FLOWS: Mapping[str, str] = {
    State.CLEANING: "automated_cleaning",
    State.DEPLOYING: "deployment",
    State.SERVICING: "servicing",
}


def add(session: Session, node: Node, event_type: str, event: str, severity: str = "INFO") -> None:
    """
    Note an event; `[conductor]node_history` off notes nothing.

    The time that it took is counted from the last change of the node's provision state.
    """
    if not of(session).settings.conductor.node_history:
        return
    moment, since = utcnow(), node.provision_updated_at
    session.connection().execute(
        _ADD,
        {
            "uuid": str(uuid4()),
            "node_id": node.id,
            "created_at": moment,
            "severity": severity,
            "event_type": event_type,
            "event": event,
            "conductor": node.reservation,
            "state": node.provision_state,
            "target_provision_state": node.target_provision_state,
            "duration_seconds": None if since is None else int((moment - since).total_seconds()),
        },
    )


_ADD = insert(NodeHistory)


def begins(session: Session, node: Node, steps: Sequence[OperationStep]) -> None:
    """Note that the flow of the node's state begins, if it is one of steps and there are any."""
    flow = _flow(session, node)
    if flow and steps:
        add(session, node, f"{flow}_start", f"{_title(flow)} begins; steps: {_listed(steps)}.")


def ends(
    session: Session, node: Node, steps: Sequence[OperationStep], failed_in: str | None = None
) -> None:
    """Note that it ends. failed_in: the step that has failed."""
    flow = _flow(session, node)
    if not (flow and steps):
        return
    how = f"has failed in step {failed_in}" if failed_in else "is done"
    event = f"{_title(flow)} {how}; steps: {_listed(steps)}."
    add(session, node, f"{flow}_end", event, "ERROR" if failed_in else "INFO")


def _flow(session: Session, node: Node) -> str | None:
    if not of(session).settings.conductor.record_step_flows_in_history:
        return None
    manual = node.target_provision_state == State.MANAGEABLE
    flow = _FLOWS.get(node.provision_state)
    return "manual_cleaning" if manual and flow == _FLOWS[State.CLEANING] else flow


def _title(flow: str) -> str:
    return flow.replace("_", " ").capitalize()


def _listed(steps: Sequence[OperationStep]) -> str:
    return ", ".join(step.label for step in steps if step.flow) or "none"
