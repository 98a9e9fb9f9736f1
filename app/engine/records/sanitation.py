"""
Sanitation reports: the record of an operation that cleaned or tore down a machine, signed.

The report is inserted in the transaction that ends the operation, so that there is no end without a
report. A later reader needs the public key only (`app.audit.sanitation_proofs`).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from app.audit import sanitation_proofs
from app.db import detached_rows
from app.db.prepared import Prepared
from app.db.sealing import keyring_of
from app.db.transactions import connection_of
from app.engine.operations import steps_of
from app.engine.records import erasures
from app.lifecycle import flows
from app.models import (
    Node,
    NodeInventory,
    Operation,
    OperationKind,
    OperationState,
    OperationStep,
    SanitationReport,
)
from app.observe import log

logger = log.get(__name__)

FORMAT = "ingot-sanitation-1"
#: Key of `driver_internal_info`: the tenancy that the last tear-down has ended.
TENANCY = "tenancy"
KINDS = frozenset({*flows.CLEAN.operations, OperationKind.DELETED})
#: Subject of a check -> part of a step's name, or its interface and a dot.
CHECKS: Mapping[str, tuple[str, ...]] = {
    "tpm": ("tpm",),
    "firmware": ("firmware",),
    "bios": ("bios.",),
    "secure_boot": ("secure_boot",),
    "nvram": ("nvram", "pstore"),
    "raid": ("raid.",),
}
#: Most characters of an error, and most disks of an inspection in a report.
_LONGEST, _MOST_DISKS = 500, 512
_INVENTORY = Prepared(
    select(NodeInventory.__table__.c.inventory).where(
        NodeInventory.__table__.c.node_id == bindparam("node_id")
    )
)
_DISK = ("name", "serial", "wwn", "vendor", "model", "size")


def note_tenancy(node: Node, operation: Operation) -> None:
    """Keep which tenancy a tear-down ends, for the reports of this and later cleanings."""
    tenancy = _tenancy(node) | {"ended_by": operation.uuid}
    node.driver_internal_info = {**node.driver_internal_info, TENANCY: tenancy}


def record(session: Session, node: Node, operation: Operation) -> None:
    """Insert the report of an operation that has ended, if it cleaned or tore down its machine."""
    if operation.kind not in KINDS:
        return
    steps = steps_of(session, operation)
    if operation.kind == OperationKind.PROVIDE and not steps:  # automated cleaning is off
        return
    end = operation.finished_at
    assert end is not None
    assessment = erasures.assess(
        steps,
        _inspected_disks(session, node),
        succeeded=operation.state == OperationState.SUCCEEDED,
    )
    report = _report(node, operation, end, steps, assessment)
    text = sanitation_proofs.canonical(report)
    connection = connection_of(session)
    signature, public_key = keyring_of(connection.dialect).signature(text) or (None, None)
    row = SanitationReport(
        uuid=report["uuid"],
        node_uuid=node.uuid,
        operation_uuid=operation.uuid,
        created_at=end,
        result=report["result"],
        report=text.decode(),
        signature=signature,
        public_key=public_key,
    )
    detached_rows.add_all(connection, [row])
    # the log is kept elsewhere, so that the removal of a report is seen
    logger.info(
        "sanitation.reported",
        node=node.uuid,
        operation=operation.uuid,
        result=report["result"],
        digest=hashlib.sha256(text).hexdigest(),
    )


def _report(
    node: Node,
    operation: Operation,
    end: datetime,
    steps: Sequence[OperationStep],
    assessment: erasures.Assessment,
) -> dict[str, object]:
    return {
        "format": FORMAT,
        "uuid": str(uuid4()),
        "node": {"uuid": node.uuid, "name": node.name, "resource_class": node.resource_class},
        "tenancy": _ended_tenancy(node, operation),
        "operation": _operation(operation, end),
        "result": str(assessment.result),
        "reasons": assessment.reasons,
        "disks": [
            {
                **{name: erasure.disk.get(name) for name in _DISK},
                "status": str(erasure.status),
                "step": erasure.step,
                "method": erasure.method,
                "agent_says": erasure.words,
            }
            for erasure in assessment.disks
        ],
        "checks": _checks(steps),
        "steps": [_step(step, end) for step in steps],
    }


def _tenancy(node: Node) -> dict[str, object]:
    return {"instance_uuid": node.instance_uuid, "owner": node.owner, "lessee": node.lessee}


def _ended_tenancy(node: Node, operation: Operation) -> object:
    """Return the last tenancy; of a tear-down that has not ended it, the current one."""
    tenancy = node.driver_internal_info.get(TENANCY)
    is_current = operation.kind == OperationKind.DELETED and (
        not isinstance(tenancy, Mapping) or tenancy.get("ended_by") != operation.uuid
    )
    return _tenancy(node) | {"ended_by": None} if is_current else tenancy


def _operation(operation: Operation, end: datetime) -> dict[str, Any]:
    error = operation.error or {}
    return {
        "uuid": operation.uuid,
        "kind": str(operation.kind),
        "state": str(operation.state),
        "requested_by": operation.requested_by,
        "request_id": operation.request_id,
        "created_at": _time_or(operation.created_at, end),
        "started_at": _time_or(operation.started_at, end),
        "finished_at": _time(end),
        "failed_in": error.get("step"),
        "error": _cut(error.get("message")),
    }


def _step(step: OperationStep, end: datetime) -> dict[str, Any]:
    """Describe a step. end: of the operation, for a step that ends in the same transaction."""
    return {
        "position": step.position,
        "step": step.label,
        "source": str(step.source),
        "in_band": bool(step.in_band),
        "child": step.child,
        "state": str(step.state),
        "attempts": step.attempt,
        "conductor": step.conductor,
        "started_at": _time_or(step.started_at, end),
        "finished_at": _time_or(step.finished_at, end),
        "error": _cut(step.error),
    }


def _checks(steps: Sequence[OperationStep]) -> dict[str, list[dict[str, object]]]:
    """Return the steps about each subject that has some, and their states."""
    found_steps = {
        subject: [
            {"position": step.position, "step": step.label, "state": str(step.state)}
            for step in steps
            if step.flow and any(word in step.label for word in words)
        ]
        for subject, words in CHECKS.items()
    }
    return {subject: entries for subject, entries in found_steps.items() if entries}


def _inspected_disks(session: Session, node: Node) -> Sequence[erasures.Disk]:
    """Return the disks of the last inspection."""
    row = _INVENTORY.first(connection_of(session), {"node_id": node.id})
    disks = row[0].get("disks") if row and isinstance(row[0], Mapping) else None
    return list(_facts(disks)) if isinstance(disks, list) else []


def _facts(disks: Sequence[Any]) -> Iterator[erasures.Disk]:
    for disk in disks[:_MOST_DISKS]:
        if not isinstance(disk, Mapping):
            continue
        facts = {name: _cut(disk.get(name)) for name in _DISK if name != "size"}
        size = disk.get("size")
        yield facts | {"size": size if type(size) is int and 0 <= size <= 2**53 else None}


def _cut(value: object) -> str | None:
    """Return a text that can be printed and is not long; None for other values."""
    if not isinstance(value, str):
        return None
    return "".join(filter(str.isprintable, value[:_LONGEST])) or None


def _time_or(value: object, end: datetime) -> str | None:
    """Format a time; one that the statement sets (`now()`) is that of the end."""
    return None if value is None else _time(value if isinstance(value, datetime) else end)


def _time(value: datetime) -> str:
    return f"{value.isoformat(timespec='milliseconds')}Z"
