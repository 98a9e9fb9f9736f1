"""
Nodes: find, lock, enroll, update and delete them, and set maintenance.

All functions run in the caller's transaction. Code that changes a node locks its row first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.orm import Session

from app.db.clock import now
from app.errors import (
    Conflict,
    Invalid,
    NodeLocked,
    NodeProtected,
    NotFound,
)
from app.identity.caller import UNAUTHENTICATED, Caller
from app.inventory import event_subscriptions, history, holds, node_rules, quotas
from app.inventory.node_rules import INTERFACES
from app.lifecycle.hold_kinds import Effect
from app.lifecycle.provision_states import State
from app.models import (
    AgentRecord,
    Allocation,
    BaselineNode,
    Benchmark,
    BiosSetting,
    BmcExchanges,
    EventSubscription,
    FirmwareComponent,
    Hold,
    InspectionReport,
    Node,
    NodeHistory,
    NodeInventory,
    NodeRefresh,
    NodeSensors,
    NodeTrait,
    Operation,
    OperationStep,
    Port,
    Portgroup,
    VolumeConnector,
    VolumeTarget,
)
from app.rows import row_changes, unique_violations
from app.rows.json_patch import Change
from app.rows.uuid_or_name import identified, key_of
from app.runtime import runtime_of
from drivers.core.errors import HardwareError

#: Models whose rows are deleted with their node, apart from the steps of its operations.
OWNED_BY_NODE = (
    Operation, NodeHistory, AgentRecord, NodeTrait, Allocation, Port, Portgroup,
    VolumeConnector, VolumeTarget, BiosSetting, FirmwareComponent, NodeInventory,
    InspectionReport, Hold, BmcExchanges, NodeSensors, BaselineNode, NodeRefresh, EventSubscription,
    Benchmark,
)  # fmt: skip
REMOVABLE = {State.MANAGEABLE, State.ENROLL, State.ADOPT_FAIL}


def find(session: Session, ident: str) -> Node:
    """
    Return a node by UUID or name.

    Raises NotFound.
    """
    node = session.scalar(select(Node).where(identified(ident)))
    if node is None:
        raise NotFound("node", ident)
    return node


def lock(session: Session, ident: str) -> Node:
    """
    Return a node by UUID or name, and lock its row until the end of the transaction.

    Raises NotFound.
    """
    column, value = key_of(ident)
    node = session.scalar(_LOCKED[column], {"value": value})
    if node is None:
        raise NotFound("node", ident)
    return node


_LOCKED = {
    name: select(Node).where(Node.__table__.c[name] == bindparam("value")).with_for_update()
    for name in ("uuid", "name")
}


def create(
    session: Session, fields: Mapping[str, Any], state: State, caller: Caller = UNAUTHENTICATED
) -> Node:
    """
    Enroll a node. `fields` have the API's names, and were validated against its schema.

    Raises Invalid, AlreadyExists, QuotaReached.
    """
    settings = runtime_of(session).settings
    node = row_changes.make(Node, fields)
    node.provision_state = state
    if not node.resource_class:
        node.resource_class = settings.default.default_resource_class
    group = node.conductor_group or settings.default.default_conductor_group
    node.conductor_group = group.lower()
    node_rules.check_name(node.name)
    node_rules.check_served(session, node)
    node.parent_node = node_rules.parent(session, node.parent_node, node.uuid)
    node_rules.check_chassis(session, node.chassis_uuid)
    if node.retired_reason and not node.retired:
        raise Invalid(node_rules.RETIRED_REASON)
    node_rules.check_boot_mode(session, node.properties)
    _set_interfaces(session, node, {})
    node_rules.check_instance_interfaces(session, node)
    quotas.check(session, node, node.lessee, caller)
    with unique_violations.checked(session, "node", node):
        session.add(node)
    return node


def change(
    session: Session,
    node: Node,
    changes: Sequence[Change],
    values: Mapping[str, Any],
    caller: Caller,
    *,
    inspecting_counts: bool,
    reset_interfaces: bool = False,
) -> None:
    """
    Update a node, whose row is locked, and record the changed fields in its history.

    changes: operations of the request's patch.
    values: field -> its new value, or None to remove it.
    inspecting_counts: refuse changes during inspection, see `node_rules.check_state`.
    reset_interfaces: set the driver's defaults for interfaces without a new value.

    Raises Invalid, Conflict, NodeLocked, AlreadyExists, QuotaReached.
    """
    values = _checked(session, node, changes, values, inspecting_counts=inspecting_counts)
    quotas.check(session, node, values.get("lessee"), caller)
    conductor_key = (node.driver, node.conductor_group)
    access = event_subscriptions.access_of(node)
    display_name = node.instance_info.get("display_name")
    fields = history.changed_fields(node, values)
    interfaces = {key: values.pop(key) for key in tuple(values) if key in INTERFACES}
    with unique_violations.checked(session, "node", node):
        for key, value in values.items():
            setattr(node, key, value)
        _clear_dependents(node, values)
        if "instance_info" in values and "instance_name" not in values:
            _name_instance(node, display_name)
        if conductor_key != (node.driver, node.conductor_group):
            node_rules.check_served(session, node)
        if interfaces or conductor_key[0] != node.driver:
            _set_interfaces(session, node, interfaces, reset=reset_interfaces)
        if "instance_info" in values or conductor_key[0] != node.driver:
            node_rules.check_instance_interfaces(session, node)
        touch(node)
    event_subscriptions.follow(session, node, access)
    history.record_update(session, node, fields, caller)


def _checked(
    session: Session,
    node: Node,
    changes: Sequence[Change],
    values: Mapping[str, Any],
    *,
    inspecting_counts: bool,
) -> dict[str, Any]:
    """
    Check new values of a node; return them as its row has them.

    Raises Invalid, Conflict, NodeLocked.
    """
    values = row_changes.with_defaults(Node, values)
    node_rules.check_state(node, changes, values.keys(), inspecting_counts)
    if "name" in values:
        node_rules.check_name(values["name"])
    if "conductor_group" in values:
        values["conductor_group"] = values["conductor_group"].lower()
    if values.get("driver", node.driver) != node.driver and node.console_enabled:
        raise Conflict(f"Node {node.uuid}: stop the console before you change the driver.")
    if "parent_node" in values:
        values["parent_node"] = node_rules.parent(session, values["parent_node"], node.uuid)
    node_rules.check_chassis(session, values.get("chassis_uuid"))
    node_rules.check_boot_mode(session, values.get("properties", {}))
    node_rules.check_protection(node, values)
    node_rules.check_retirement(node, values)
    node_rules.check_use(node, values)
    check_unlocked(node)
    _check_allocation(session, node, values)
    return values


def touch(node: Node) -> None:
    """Set `updated_at`, for a change that callers can see."""
    node.updated_at = now()


def release_allocation(session: Session, node: Node) -> None:
    """Delete the node's allocation, if any, and the traits that it has set in instance_info."""
    session.execute(delete(Allocation).where(Allocation.node_id == node.id))
    info = node.instance_info
    node.instance_info = {key: value for key, value in info.items() if key != "traits"}


def set_maintenance(session: Session, node: Node, reason: str | None, caller: Caller) -> None:
    """
    Put a node into maintenance.

    Raises NodeLocked.
    """
    check_unlocked(node)
    node.maintenance, node.maintenance_reason = True, reason
    touch(node)
    event = f"Maintenance was set: {reason or 'no reason given'}."
    history.record_request(session, node, "maintenance", event, caller)


def clear_maintenance(session: Session, node: Node, caller: Caller) -> None:
    """
    End the maintenance of a node, and clear its reason and fault.

    Raises NodeLocked.
    """
    check_unlocked(node)
    node.maintenance = False
    _clear_dependents(node, {"maintenance": False})
    touch(node)
    history.record_request(session, node, "maintenance", "Maintenance was ended.", caller)


def remove(session: Session, node: Node) -> None:
    """
    Delete a node and all rows that belong to it, and release the children that it has reserved.

    Raises Conflict, NodeProtected, NodeLocked, NodeHeld.
    """
    if not node.maintenance and node.instance_uuid is not None:
        raise Conflict(f"Node {node.uuid} is associated with instance {node.instance_uuid}.")
    if node.protected:
        raise NodeProtected(node.uuid)
    removable_states = set(REMOVABLE)
    if runtime_of(session).settings.conductor.allow_deleting_available_nodes:
        removable_states.add(State.AVAILABLE)
    elif node.provision_state == State.AVAILABLE:
        raise Conflict(f"Node {node.uuid} is available and may not be deleted.")
    if not node.maintenance and node.provision_state not in removable_states:
        raise Conflict(
            f'Can not delete node "{node.uuid}" while it is in provision state'
            f' "{node.provision_state}". Valid provision states to perform deletion are:'
            f" {sorted(map(str, removable_states))}"
        )
    check_unlocked(node)
    holds.check(session, node, Effect.OPERATIONS)
    operations = select(Operation.id).where(Operation.node_id == node.id)
    on_children = Node.operation_id.in_(operations), Node.id != node.id
    session.execute(
        update(Node).where(*on_children).values(reservation=None, operation_id=None),
        execution_options={"synchronize_session": False},
    )
    session.execute(delete(OperationStep).where(OperationStep.operation_id.in_(operations)))
    event_subscriptions.depart(session, node, event_subscriptions.access_of(node))
    for model in OWNED_BY_NODE:
        session.execute(delete(model).where(model.node_id == node.id))
    session.delete(node)


def _check_allocation(session: Session, node: Node, values: Mapping[str, object]) -> None:
    """
    Check a change of an allocated node; removing its instance deletes the allocation, too.

    Raises Conflict.
    """
    removes_instance = "instance_uuid" in values and values["instance_uuid"] is None
    new_owner = values.get("owner", node.owner) != node.owner
    if not (removes_instance or new_owner):
        return
    allocation = session.scalar(select(Allocation).where(Allocation.node_id == node.id))
    if allocation is None:
        return
    if new_owner and allocation.owner is not None:
        raise Conflict(f"owner: node {node.uuid} is allocated to project {allocation.owner}")
    if removes_instance and node.provision_state not in node_rules.UNUSED and not node.maintenance:
        raise Conflict(
            f'instance_uuid: node {node.uuid} is allocated, and in state "{node.provision_state}"'
        )
    if removes_instance:
        release_allocation(session, node)


def check_unlocked(node: Node) -> None:
    """Raises NodeLocked: an operation holds the node."""
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)


def _set_interfaces(
    session: Session, node: Node, interfaces: Mapping[str, str | None], *, reset: bool = False
) -> None:
    """
    Set the chosen interfaces, and the driver's defaults for missing ones.

    The other interfaces are kept; with `reset`, they get the defaults, too.

    Raises Invalid: the driver does not have an interface.
    """
    drivers = runtime_of(session).drivers
    interface_names = {
        kind: interfaces[field] if field in interfaces else None if reset else getattr(node, field)
        for field, kind in INTERFACES.items()
    }
    try:
        driver = drivers.driver(node.driver, interface_names)
    except HardwareError as error:
        raise Invalid(str(error)) from error
    for field, kind in INTERFACES.items():
        setattr(node, field, driver.by_kind[kind].name)


def _name_instance(node: Node, old_name: str | None) -> None:
    """Copy a new display name of the instance to `instance_name`, unless it is set."""
    name = node.instance_info.get("display_name")
    if (
        name != old_name
        and isinstance(name, str)
        and 0 < len(name) < 256
        and not node.instance_name
    ):
        node.instance_name = name


def _clear_dependents(node: Node, values: Mapping[str, object]) -> None:
    """Clear the reasons of flags that are set to false."""
    if values.get("maintenance") is False:
        node.maintenance_reason = node.fault = None
    if values.get("protected") is False:
        node.protected_reason = None
    if values.get("retired") is False:
        node.retired_reason = None
