"""
Notifications in Ironic's form, made of change events.

An event of a node has the node's fields at the time of the change. An event of a step has none, so
its notification has the current ones, or the ones at the node's deletion. Documents, traits and
steps are always the current ones. Secrets are masked. `resource_notifications` covers other
resources.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

import orjson
from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.engine import operations
from app.lifecycle.provision_states import MACHINE, Event, Kind, State, of_kind
from app.models import ChangeEvent, ChangeType, Node, NodeTrait, StepState
from app.notifications.payloads import Document, Form, typed
from app.notifications.resource_notifications import Resources
from app.planning.step_views import Progress, current_step
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT
from drivers.core.steps import Flow

INFO, ERROR = "info", "error"
API, CONDUCTOR = "ironic-api", "ironic-conductor"
START, END, SUCCESS, FAILED = "start", "end", "success", "error"

#: Fields of nodes in every payload; the steps and documents among all fields, which events lack.
FIELDS = (
    "clean_step", "conductor_group", "console_enabled", "created_at", "deploy_step", "description",
    "disable_power_off", "driver", "extra", "boot_mode", "secure_boot", "inspection_finished_at",
    "inspection_started_at", "instance_uuid", "last_error", "maintenance", "maintenance_reason",
    "fault", "name", "bios_interface", "boot_interface", "console_interface", "deploy_interface",
    "inspect_interface", "management_interface", "network_interface", "power_interface",
    "raid_interface", "rescue_interface", "storage_interface", "vendor_interface", "owner",
    "lessee", "power_state", "properties", "protected", "protected_reason", "provision_state",
    "provision_updated_at", "resource_class", "retired", "retired_reason", "target_power_state",
    "target_provision_state", "traits", "updated_at", "uuid",
)  # fmt: skip
_STEPS = {"clean_step": Flow.CLEAN, "deploy_step": Flow.DEPLOY}
DOCUMENTS = ("extra", "properties", "driver_info", "driver_internal_info", "instance_info")
#: Namespace of the identifiers of notifications.
_NAMESPACE = UUID("d1f4b1a6-0b3c-4a53-9d0a-6c6f1f0f2b7e")
_UNSTABLE = of_kind(Kind.BUSY, Kind.WAIT)
_EVENT: Any = ChangeEvent.__table__.c


@dataclass(frozen=True, slots=True)
class Payload(Form):
    """A kind of payloads with the fields of nodes."""

    extra_fields: tuple[str, ...] = ()  # fields of nodes beyond `FIELDS`
    facts: tuple[str, ...] = ()  # fields about the change


NODE = Payload("NodePayload", "1.17")
CRUD = Payload("NodeCRUDPayload", "1.15", ("chassis_uuid", "driver_info", "instance_info"))
POWER = Payload("NodeSetPowerStatePayload", "1.17", facts=("to_power",))
CORRECTED = Payload("NodeCorrectedPowerStatePayload", "1.17", facts=("from_power",))
PROVISION = Payload(
    "NodeSetProvisionStatePayload", "1.18", ("instance_info", "driver_internal_info"),
    ("event", "previous_provision_state", "previous_target_provision_state"),
)  # fmt: skip

#: Actions of changes that are made at once, and of steps.
OF_CHANGES: Mapping[str, tuple[str, Payload]] = {
    ChangeType.NODE_CREATED: ("create", CRUD),
    ChangeType.NODE_UPDATED: ("update", CRUD),
    ChangeType.NODE_DELETED: ("delete", CRUD),
    ChangeType.MAINTENANCE: ("maintenance_set", NODE),
}
OF_STEPS: Mapping[str, tuple[str, Payload]] = {
    "power": ("power_set", POWER),
    "console.start_console": ("console_set", NODE),
    "console.stop_console": ("console_set", NODE),
    "console.restore_console": ("console_restore", NODE),
}
#: Power state that a step orders; `power.change` has it as an argument.
TO_POWER = {"power.power_on": POWER_ON, "power.power_off": POWER_OFF, "power.reboot": REBOOT}
#: State of a step -> status.
STATUSES: Mapping[str, str] = {
    StepState.RUNNING: START,
    StepState.DONE: END,
    StepState.FAILED: FAILED,
    StepState.ABORTED: FAILED,
}


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification that is ready to be sent."""

    sequence: int  # of its event
    ident: str  # equal in each repetition
    event_type: str
    publisher: str  # name of the service that Ironic sends it from
    level: str
    payload: Document
    created_at: datetime


@dataclass(frozen=True, slots=True)
class _Subject:
    """Content of the notification of an event."""

    action: str
    status: str
    payload: Payload
    publisher: str
    node_uuid: str
    frozen: Document  # fields of the node at the time of the event; empty: not kept
    facts: Document = field(default_factory=dict)  # about the change


def made_of(session: Session, rows: Sequence[Row[object]]) -> Iterator[Notification]:
    """Yield the notifications of events, read by `notification_events.SELECTED`, in their order."""
    subjects = {row.id: _subject(row) for row in rows if row.resource_uuid is None}
    nodes = _Nodes(session, {subject.node_uuid for subject in subjects.values() if subject})
    resources = Resources(session, rows)
    for row in rows:
        if row.resource_uuid is not None:
            action, payload = resources.content(row)
            yield _notification(row, f"{action}.{END}", API, payload)
        elif subject := subjects[row.id]:
            payload = subject.payload.filled(nodes.data(subject))
            action = f"node.{subject.action}.{subject.status}"
            yield _notification(row, action, subject.publisher, payload)


def _notification(row: Row[object], action: str, publisher: str, payload: Document) -> Notification:
    """Return the notification of an event. action: event type without its first word."""
    event_type = f"baremetal.{action}"
    return Notification(
        row.sequence,
        str(uuid5(_NAMESPACE, f"{row.id} {row.created_at} {event_type}")),
        event_type,
        publisher,
        ERROR if event_type.endswith(f".{FAILED}") else INFO,
        payload,
        row.created_at,
    )


def _subject(row: Row[object]) -> _Subject | None:
    """Return the content of the notification of an event, if the event has one."""
    facts = orjson.loads(row.facts) if row.facts else {}
    if row.type == ChangeType.STEP_STATE:
        return _of_step(row, facts)
    if row.type == ChangeType.PROVISION_STATE:
        return _of_provision_state(row, facts)
    if row.type == ChangeType.POWER_STATE:
        if row.after is None or facts.get("previous_operation_id") is not None:
            return None  # unknown, or changed by an operation, whose steps have notifications
        frozen, change_values = typed(Node, facts), {"from_power": row.before}
        action = "power_state_corrected"
        return _Subject(action, SUCCESS, CORRECTED, CONDUCTOR, row.node_uuid, frozen, change_values)
    action, payload = OF_CHANGES[row.type]
    return _Subject(action, END, payload, API, row.node_uuid, typed(Node, facts))


def _of_step(row: Row[Any], facts: Document) -> _Subject | None:
    if row.after == StepState.RUNNING and row.before != StepState.PENDING:
        return None  # it has waited
    interface = row.step.partition(".")[0]
    action, payload = OF_STEPS.get(row.step) or OF_STEPS[interface]
    change_values = {"to_power": TO_POWER.get(row.step) or facts.get("to_power")}
    node = facts.get("child") or row.node_uuid
    return _Subject(action, STATUSES[row.after], payload, CONDUCTOR, node, {}, change_values)


def _of_provision_state(row: Row[Any], facts: Document) -> _Subject:
    event = _event_between(row.before, row.after, facts.get("provision_event"))
    unstable = row.before in _UNSTABLE, row.after in _UNSTABLE
    if event == Event.FAIL:
        status = FAILED
    else:
        status = {(False, True): START, (True, False): END}.get(unstable, SUCCESS)
    change_values = {
        "event": event,
        "previous_provision_state": row.before,
        "previous_target_provision_state": facts.get("previous_target_provision_state"),
    }
    frozen = typed(Node, facts)
    return _Subject(
        "provision_set", status, PROVISION, CONDUCTOR, row.node_uuid, frozen, change_values
    )


def _event_between(old_state: str, new_state: str, recorded_event: str | None) -> str | None:
    """Return the event that leads from one state to another, or None if it is unknown."""
    moves = MACHINE[State(old_state)].moves if old_state in MACHINE else {}
    possible = [str(event) for event, state in moves.items() if state == new_state]
    if recorded_event in possible:
        return recorded_event
    return possible[0] if len(possible) == 1 else None


class _Nodes:
    """Nodes as they are now; deleted ones as they were at their deletion."""

    def __init__(self, session: Session, uuids: Iterable[str]) -> None:
        rows = session.scalars(select(Node).where(Node.uuid.in_(uuids))).all()
        self._rows = {row.uuid: row for row in rows}
        ids = [row.id for row in rows]
        self._traits: dict[int, list[str]] = {}
        of_nodes = select(NodeTrait).where(NodeTrait.node_id.in_(ids)).order_by(NodeTrait.trait)
        for trait_row in session.scalars(of_nodes):
            self._traits.setdefault(trait_row.node_id, []).append(trait_row.trait)
        self._progress: Mapping[int, Progress] = operations.current(session, ids)
        deleted = select(_EVENT.node_uuid, _EVENT.facts).where(
            _EVENT.node_uuid.in_({*uuids} - self._rows.keys()),
            _EVENT.type == ChangeType.NODE_DELETED,
            _EVENT.facts.is_not(None),
        )
        deletions = session.execute(deleted)
        self._deleted = {uuid: typed(Node, orjson.loads(facts)) for uuid, facts in deletions}

    def data(self, subject: _Subject) -> Document:
        """Return the fields of a payload."""
        names = (*FIELDS, *subject.payload.extra_fields)
        row = self._rows.get(subject.node_uuid)
        fields = subject.frozen or self._deleted.get(subject.node_uuid, {})
        if not fields and row is not None:
            fields = {name: getattr(row, name, None) for name in names}
        data = {name: fields.get(name) for name in names} | self._of_now(row, names)
        data |= {name: subject.facts[name] for name in subject.payload.facts}
        return data | {"uuid": subject.node_uuid}

    def _of_now(self, row: Node | None, names: Sequence[str]) -> Document:
        """Return the fields that events do not have. row: None for a deleted node."""
        documents = [name for name in DOCUMENTS if name in names]
        if row is None:
            return {**{name: {} for name in (*documents, *_STEPS)}, "traits": []}
        progress = self._progress.get(row.id)
        return {
            **{name: getattr(row, name) for name in documents},
            **{
                name: current_step(progress, flow) if progress else {}
                for name, flow in _STEPS.items()
            },
            "traits": self._traits.get(row.id, []),
        }
