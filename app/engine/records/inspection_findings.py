"""
Inspection findings: the input of an inspection step, and the rows that its findings change.

Hooks and rules run in the step, on a copy of the node (`app.inspection`). The findings are
written in the transaction that records the step.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.errors import AlreadyExists, Invalid, ServiceError
from app.hardware import targets
from app.inspection.subject import NODE_FIELDS, PORT_FIELDS, Findings
from app.inventory import hardware_inventory, inspection_rules, node_rules, quotas, traits
from app.inventory.connectivity import vifs
from app.models import (
    InspectionReport,
    InventorySource,
    Node,
    NodeInventory,
    NodeTrait,
    OperationStep,
    Port,
)
from app.observe import log
from app.rows import row_changes
from app.runtime import Runtime, runtime_of
from drivers.core.errors import HardwareError, InspectionFailed
from drivers.core.interface_kinds import KINDS
from drivers.core.target import Material

logger = log.get(__name__)

_INTERFACES = tuple(f"{kind}_interface" for kind in KINDS)
#: Columns of the node that hooks and rules can read.
_READ = ("uuid", *NODE_FIELDS, "driver_internal_info", "power_state", "provision_state")


def material_of(runtime: Runtime, node: Node, step: OperationStep) -> dict[str, Any]:
    """
    Read the arguments of `targets.build` for an inspection step; no query for other steps.

    Raises InspectionFailed: the built-in rules are invalid.
    """
    if step.interface != "inspect":
        return {}
    with runtime.reading() as session:
        return {"material": _material(session, node)}


def _material(session: Session, node: Node) -> Material:
    report, inventory = session.get(InspectionReport, node.id), session.get(NodeInventory, node.id)
    ports = session.scalars(select(Port).where(Port.node_id == node.id).order_by(Port.id))
    rules: list[dict[str, Any]] = []
    interface = targets.driver_of(runtime_of(session), node).inspect.name
    if interface in runtime_of(session).settings.inspection_rules.supported_inspect_interfaces:
        try:
            rules = inspection_rules.in_order(session)
        except ValueError as error:
            raise InspectionFailed(f"[inspection_rules]built_in_rules: {error}") from error
    return Material(
        report=None if report is None else report.body,
        node={name: getattr(node, name) for name in (*_READ, *_INTERFACES)},
        ports=[
            {"uuid": port.uuid, "bound": vifs.bound(port) is not None}
            | {name: getattr(port, name) for name in PORT_FIELDS}
            for port in ports
        ],
        traits=traits.of_node(session, node),
        rules=rules,
        before=None if inventory is None else inventory.inventory,
    )


def write(session: Session, node: Node, findings: Findings) -> None:
    """
    Write the findings of an inspection to the rows; the caller has locked the node's row.

    Raises InspectionFailed: a finding is invalid; then none is written.
    """
    try:
        with session.begin_nested():
            _write_node(session, node, findings.node)
            if findings.traits is not None:
                _write_traits(session, node, findings.traits)
            if findings.ports is not None:
                _write_ports(session, node, findings.ports)
            stores_inventory = runtime_of(session).settings.inventory.data_backend == "database"
            if stores_inventory and findings.inventory is not None:
                source = InventorySource.BMC if findings.partial else InventorySource.AGENT
                hardware_inventory.store(
                    session, node, findings.inventory, findings.plugin_data, source
                )
            if findings.inventory is not None:
                deletion = delete(InspectionReport).where(InspectionReport.node_id == node.id)
                session.execute(deletion)
    except (ServiceError, HardwareError) as error:
        raise InspectionFailed(f"the findings cannot be stored: {error}") from error


def _write_node(session: Session, node: Node, values: Mapping[str, Any]) -> None:
    """
    Write fields of the node.

    Raises Invalid, AlreadyExists, QuotaReached, InvalidDriverInfo.
    """
    fields = {name: value for name, value in values.items() if name in (*NODE_FIELDS, *_INTERFACES)}
    if not fields:
        return
    _check_lengths(Node, fields)
    quotas.check(session, node, fields.get("lessee"))
    row_changes.change(session, node, fields)
    targets.driver_of(runtime_of(session), node)


def _write_traits(session: Session, node: Node, reported_traits: Sequence[str]) -> None:
    traits.check_count(reported_traits)
    stored_traits = traits.of_node(session, node)
    for trait in reported_traits:
        if not traits.is_trait(trait):
            raise Invalid(f"{trait!r} is neither CUSTOM_[A-Z0-9_]+ nor a standard trait")
        if trait not in stored_traits:
            session.add(NodeTrait(node_id=node.id, trait=trait))
    for trait in set(stored_traits) - set(reported_traits):
        session.delete(session.get_one(NodeTrait, (node.id, trait)))


def _write_ports(session: Session, node: Node, reported_ports: Iterable[Mapping[str, Any]]) -> None:
    """
    Make the node's ports equal to the ports of the findings.

    A new port with the address of another node's port is skipped, as in Ironic.
    """
    query = select(Port).where(Port.node_id == node.id)
    stored_ports = {port.uuid: port for port in session.scalars(query)}
    for fields in reported_ports:
        values = {name: fields[name] for name in PORT_FIELDS if name in fields}
        _check_lengths(Port, values)
        port = stored_ports.pop(fields["uuid"], None)
        if port is not None:
            changes = {
                name: value for name, value in values.items() if getattr(port, name) != value
            }
            if changes:
                row_changes.change(session, port, changes)
            continue
        try:
            with session.begin_nested():
                row = row_changes.make(Port, {"uuid": fields["uuid"], "node_id": node.id, **values})
                row_changes.add(session, row)
        except AlreadyExists:
            logger.warning("inspection.port_taken", node=node.uuid, address=values["address"])
    for port in stored_ports.values():
        session.delete(port)


def _check_lengths(model: type[Node] | type[Port], values: Mapping[str, Any]) -> None:
    """
    Check texts against their columns.

    Raises Invalid: a text is too long or contains NUL.
    """
    for name, value in values.items():
        longest = getattr(model.__table__.c[name].type, "length", None)
        if isinstance(value, str) and (len(value) > (longest or len(value)) or "\0" in value):
            raise Invalid(f"{name}: {value[:40]!r}... is too long or contains NUL")
    if model is Node and values.get("name") is not None:
        node_rules.check_name(values["name"])
