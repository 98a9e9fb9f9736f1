"""
Notifications about resources other than nodes: names and payloads, a row for each kind.

Fields have their values at the time of the change. Documents and lists, which events do not keep,
have the current ones, and are empty for a deleted resource.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.models import (
    Allocation,
    Base,
    Chassis,
    DeployTemplate,
    InspectionRule,
    Port,
    Portgroup,
    Runbook,
    VolumeConnector,
    VolumeTarget,
)
from app.models.change_event import CREATED, DELETED, UPDATED
from app.notifications.payloads import Document, Form, typed
from app.rows import row_changes

#: Change -> action of Ironic.
ACTIONS = {CREATED: "create", UPDATED: "update", DELETED: "delete"}


@dataclass(frozen=True, slots=True)
class Kind:
    noun: str  # in event types
    form: Form
    model: Any
    fields: tuple[str, ...]  # fields that events keep, apart from the times
    documents: tuple[str, ...]
    has_node: bool = False  # the payload has `node_uuid`


#: Kind in the type of an event -> what Ironic's notifications have.
KINDS: Mapping[str, Kind] = {
    "port": Kind(
        "port", Form("PortCRUDPayload", "1.8"), Port,
        (
            "address", "name", "description", "vendor", "category", "physical_network",
            "pxe_enabled", "is_smartnic", "available_for_dynamic_portgroup", "portgroup_uuid",
        ),
        ("extra", "local_link_connection"), has_node=True,
    ),
    "portgroup": Kind(
        "portgroup", Form("PortgroupCRUDPayload", "1.3"), Portgroup,
        (
            "address", "category", "mode", "name", "physical_network", "dynamic_portgroup",
            "standalone_ports_supported",
        ),
        ("extra", "properties"), has_node=True,
    ),
    "volume_connector": Kind(
        "volumeconnector", Form("VolumeConnectorCRUDPayload", "1.0"), VolumeConnector,
        ("type", "connector_id"), ("extra",), has_node=True,
    ),
    "volume_target": Kind(
        "volumetarget", Form("VolumeTargetCRUDPayload", "1.0"), VolumeTarget,
        ("boot_index", "volume_id", "volume_type"), ("extra", "properties"), has_node=True,
    ),
    "allocation": Kind(
        "allocation", Form("AllocationCRUDPayload", "1.1"), Allocation,
        ("name", "state", "last_error", "owner", "resource_class"),
        ("candidate_nodes", "extra", "traits"), has_node=True,
    ),
    "chassis": Kind(
        "chassis", Form("ChassisCRUDPayload", "1.0"), Chassis, ("description",), ("extra",),
    ),
    "deploy_template": Kind(
        "deploytemplate", Form("DeployTemplateCRUDPayload", "1.0"), DeployTemplate,
        ("name",), ("extra", "steps"),
    ),
    "runbook": Kind(
        "runbook", Form("RunbookCRUDPayload", "1.1"), Runbook,
        ("name", "description", "disable_ramdisk", "owner", "public"),
        ("extra", "steps", "traits"),
    ),
    "inspection_rule": Kind(
        "inspectionrule", Form("InspectionRuleCRUDPayload", "1.0"), InspectionRule,
        ("description", "phase", "priority", "sensitive", "scope"), ("actions", "conditions"),
    ),
}  # fmt: skip


class Resources:
    """The resources of events as they are now."""

    def __init__(self, session: Session, events: Sequence[Row[Any]]) -> None:
        uuids = defaultdict(set)
        for event in events:
            if event.resource_uuid is not None:
                uuids[_kind_of(event)].add(event.resource_uuid)
        self._rows = {
            row.uuid: row
            for kind, resource_uuids in uuids.items()
            for row in session.scalars(
                select(kind.model).where(kind.model.uuid.in_(resource_uuids))
            )
        }

    def content(self, event: Row[Any]) -> tuple[str, Document]:
        """Return noun and action of the notification of an event, and its payload."""
        kind, row = _kind_of(event), self._rows.get(event.resource_uuid)
        names = (*kind.fields, "created_at", "updated_at")
        recorded_values = typed(kind.model, orjson.loads(event.facts)) if event.facts else None
        data = {
            name: getattr(row, name, None) if recorded_values is None else recorded_values.get(name)
            for name in names
        }
        data |= {"uuid": event.resource_uuid, **_documents(kind, row)}
        if kind.has_node:
            data["node_uuid"] = event.node_uuid
        action = ACTIONS[event.type.partition(".")[2]]
        return f"{kind.noun}.{action}", kind.form.filled(data)


def _kind_of(event: Row[object]) -> Kind:
    return KINDS[event.type.partition(".")[0]]


def _documents(kind: Kind, row: Base | None) -> Document:
    """Return the documents of a resource. row: None for a deleted one."""
    if row is None or getattr(row, "sensitive", False):  # rules that the API conceals
        return row_changes.with_defaults(kind.model, dict.fromkeys(kind.documents))
    return {name: getattr(row, name) for name in kind.documents}
