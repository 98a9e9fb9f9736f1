"""
Node history: record events, with the wording of the common ones.
"""

from collections.abc import Mapping, Sequence
from uuid import uuid4

from sqlalchemy.orm import Session

from app.db import detached_rows
from app.db.clock import moment
from app.db.transactions import connection_of
from app.identity.caller import Caller
from app.lifecycle import flows
from app.lifecycle.provision_states import State
from app.models import Node, NodeHistory, OperationStep
from app.runtime import runtime_of
from app.text.sentences import enumerated

#: Stored characters of a user's or a project's id: the length of their columns.
LONGEST_USER = 64
#: Maximum number of fields in the event of a change, and characters of each.
MOST_NAMES, LONGEST_NAME = 30, 100


def add(
    session: Session,
    node: Node,
    event_type: str,
    event: str,
    severity: str = "INFO",
    *,
    user: str | None = None,
    project: str | None = None,
    sender: str | None = None,
) -> None:
    """
    Record an event, unless `[conductor]node_history` is off.

    Its duration is the time since the last change of the node's provision state. `user` and
    `project` are the ids in the request that caused the event, and `sender` is the address that
    sent a refused one.
    """
    if not runtime_of(session).settings.conductor.node_history:
        return
    time, since = moment(session), node.provision_updated_at
    entry = NodeHistory(
        uuid=str(uuid4()),
        node_id=node.id,
        created_at=time,
        severity=severity,
        event_type=event_type,
        event=event,
        conductor=node.reservation,
        state=node.provision_state,
        target_provision_state=node.target_provision_state,
        duration_seconds=None if since is None else int((time - since).total_seconds()),
        user=user and user[:LONGEST_USER],
        project=project and project[:LONGEST_USER],
        sender=sender,
    )
    detached_rows.add_all(connection_of(session), [entry])


def record_request(
    session: Session, node: Node, event_type: str, event: str, caller: Caller
) -> None:
    """Record an event of a caller's request."""
    add(session, node, event_type, event, user=caller.user_id, project=caller.project_id)


def changed_fields(node: Node, values: Mapping[str, object]) -> list[str]:
    """
    Return the names of fields whose new values differ, as `field/key` for keys of objects.

    Values are left out, as they may be secret.
    """
    names = []
    for field, value in values.items():
        old_value = getattr(node, field)
        if old_value == value:
            continue
        if isinstance(old_value, dict) and isinstance(value, dict):
            keys = {**old_value, **value}
            names += [f"{field}/{key}" for key in keys if old_value.get(key) != value.get(key)]
        else:
            names.append(field)
    return names


def record_update(session: Session, node: Node, fields: Sequence[str], caller: Caller) -> None:
    """Record which fields of a node a caller has changed, if any."""
    if not fields:
        return
    names = [field[:LONGEST_NAME] for field in fields]
    event = f"Changed: {enumerated(names, MOST_NAMES)}."
    record_request(session, node, "update", event, caller)


def record_start(
    session: Session, node: Node, steps: Sequence[OperationStep], user: str | None = None
) -> None:
    """Record the start of the flow of the node's state, if steps of this flow are recorded."""
    flow = _flow(session, node)
    if flow and steps:
        later = " The agent has not reported its steps yet." if _collects(steps) else ""
        event = f"{_title(flow)} begins; steps: {_listed(steps)}.{later}"
        add(session, node, f"{flow}_start", event, user=user)


def record_restart(session: Session, node: Node, reason: str, user: str | None = None) -> None:
    """Record the restart of the flow of the node's state, with the reason."""
    flow = _flow(session, node)
    if flow:
        event = f"{_title(flow)} begins again: {reason}."
        add(session, node, f"{flow}_start", event, "WARNING", user=user)


def record_end(
    session: Session,
    node: Node,
    steps: Sequence[OperationStep],
    failed_in: str | None = None,
    user: str | None = None,
) -> None:
    """Record the end of the flow of the node's state. `failed_in` is the label of a failed step."""
    flow = _flow(session, node)
    if not (flow and steps):
        return
    result = f"has failed in step {failed_in}" if failed_in else "is done"
    event = f"{_title(flow)} {result}; steps: {_listed(steps)}."
    add(session, node, f"{flow}_end", event, "ERROR" if failed_in else "INFO", user=user)


def _flow(session: Session, node: Node) -> str | None:
    """Name of the flow in event types; None if its steps are not recorded."""
    if not runtime_of(session).settings.conductor.record_step_flows_in_history:
        return None
    flow = flows.busy_in(node.provision_state)
    if flow is flows.CLEAN and node.target_provision_state == State.MANAGEABLE:
        return "manual_cleaning"
    return flow.steps_event if flow else None


def _title(flow: str) -> str:
    return flow.replace("_", " ").capitalize()


def _collects(steps: Sequence[OperationStep]) -> bool:
    """Whether a step is to read the agent's steps, which may extend the list."""
    return any(step.collects for step in steps)


def _listed(steps: Sequence[OperationStep]) -> str:
    return ", ".join(step.label for step in steps if step.flow) or "none"
