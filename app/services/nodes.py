"""
Nodes: found, enrolled, changed, put into maintenance, removed.

Functions that change a node run in the caller's transaction and lock its row first.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.db import now, retrying
from app.errors import (
    Conflict,
    Invalid,
    NodeLocked,
    NodeProtected,
    NotFound,
    Unavailable,
)
from app.models import (
    AgentRecord,
    Allocation,
    BiosSetting,
    Chassis,
    FirmwareComponent,
    InspectionReport,
    Node,
    NodeHistory,
    NodeInventory,
    NodeTrait,
    Operation,
    OperationStep,
    Port,
    Portgroup,
    VolumeConnector,
    VolumeTarget,
)
from app.runtime import Runtime, of
from app.services import conductors, rows, unique
from app.services.patch import Change
from app.services.turns import given_away
from app.states import State
from drivers.agent.image import wanted_boot_mode
from drivers.errors import HardwareError
from drivers.interfaces import KINDS

T = TypeVar("T")

INTERFACES = {f"{kind}_interface": kind for kind in KINDS}
#: Names that would be taken for a route.
RESERVED_NAMES = {
    "maintenance", "management", "states", "vendor_passthru", "detail", "validate",
}  # fmt: skip
#: What is forgotten with a node, beside the steps of its operations.
OF_A_NODE = (
    Operation, NodeHistory, AgentRecord, NodeTrait, Allocation, Port, Portgroup,
    VolumeConnector, VolumeTarget, BiosSetting, FirmwareComponent, NodeInventory,
    InspectionReport,
)  # fmt: skip
#: States under way to a target in which fields may be changed all the same.
CHANGEABLE = {
    State.DEPLOY_FAIL, State.INSPECTING, State.INSPECT_FAIL, State.INSPECT_WAIT, State.CLEAN_FAIL,
    State.ERROR, State.VERIFYING, State.ADOPT_FAIL, State.RESCUE_FAIL, State.UNRESCUE_FAIL,
    State.SERVICE_HOLD, State.SERVICE_FAIL,
}  # fmt: skip
#: States in which interfaces and the resource class may be changed.
UNUSED = {State.ENROLL, State.INSPECTING, State.INSPECT_WAIT, State.MANAGEABLE, State.AVAILABLE}
REMOVABLE = {State.MANAGEABLE, State.ENROLL, State.ADOPT_FAIL}
RETIREMENT = {"retired", "retired_reason"}

_COLUMNS = Node.__table__.c
_USUAL = re.compile("[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


def is_uuid(ident: str) -> bool:
    return _uuid(ident) is not None


def _uuid(ident: str) -> str | None:
    """A UUID in its usual form; None for what is none."""
    if _USUAL.fullmatch(ident):
        return ident
    if len(ident) not in (32, 36):
        return None
    try:
        return str(UUID(ident))
    except ValueError:
        return None


def key_of(ident: str, *, by_name: bool = True) -> tuple[str, str]:
    """The unique column that a UUID or name is looked for in, and its value. Raises NotFound."""
    if uuid := _uuid(ident):
        return "uuid", uuid
    if not by_name:
        raise NotFound("node", ident)
    return "name", ident


def identified(ident: str, *, by_name: bool = True) -> Any:
    """The condition that a node is the one meant by a UUID or name. Raises NotFound."""
    column, value = key_of(ident, by_name=by_name)
    return _COLUMNS[column] == value


def find(session: Session, ident: str) -> Node:
    """A node by UUID or name. Raises NotFound."""
    node = session.scalar(select(Node).where(identified(ident)))
    if node is None:
        raise NotFound("node", ident)
    return node


def lock(session: Session, ident: str) -> Node:
    """The same, its row locked until the transaction ends."""
    node = session.scalar(select(Node).where(identified(ident)).with_for_update())
    if node is None:
        raise NotFound("node", ident)
    return node


def when_free(runtime: Runtime, work: Callable[[Session], T]) -> T:
    """
    Run `work` in a transaction; again, a little later, when the node is locked.

    Raises NodeLocked when it stays so for `[conductor]node_locked_retry_attempts` tries, or when
    too many other requests wait for something already.
    """

    def attempt() -> T:
        with runtime.transaction() as session:
            return work(session)

    settings = runtime.settings.conductor
    for _ in range(settings.node_locked_retry_attempts - 1):
        try:
            return retrying(attempt)
        except NodeLocked as locked:
            try:
                with given_away():
                    time.sleep(settings.node_locked_retry_interval)
            except Unavailable:  # too many wait already: tell at once what is the matter
                raise locked from None
    return retrying(attempt)


def create(session: Session, fields: Mapping[str, Any], state: State) -> Node:
    """Enroll a node. fields: API names, checked for their types. Raises Invalid, AlreadyExists."""
    settings = of(session).settings
    node = rows.make(Node, fields)
    node.provision_state = state
    if not node.resource_class:
        node.resource_class = settings.default.default_resource_class
    group = node.conductor_group or settings.default.default_conductor_group
    node.conductor_group = group.lower()
    check_name(node.name)
    _check_served(session, node)
    node.parent_node = _resolve_parent(session, node.parent_node, node.uuid)
    _check_chassis(session, node.chassis_uuid)
    if node.retired_reason and not node.retired:
        raise Invalid("retired_reason: only a node that is retired has one")
    _check_boot_mode(session, node.properties)
    _set_interfaces(session, node, {})
    with unique.checked(session, "node", node):
        session.add(node)
    return node


def change(
    session: Session,
    node: Node,
    changes: Sequence[Change],
    values: Mapping[str, Any],
    *,
    inspecting_counts: bool,
    reset_interfaces: bool = False,
) -> None:
    """
    Change fields of a node whose row is locked.

    changes: as asked for. values: field -> its new value, None for removed. inspecting_counts:
    the caller's API version knows that a node under inspection is not to be changed.
    Raises Invalid, Conflict, NodeLocked, AlreadyExists.
    """
    values = rows.filled(Node, values)
    _check_state(node, changes, values.keys(), inspecting_counts)
    if "name" in values:
        check_name(values["name"])
    if "conductor_group" in values:
        values["conductor_group"] = values["conductor_group"].lower()
    if values.get("driver", node.driver) != node.driver and node.console_enabled:
        raise Conflict(f"Node {node.uuid}: stop the console before you change the driver.")
    if "parent_node" in values:
        values["parent_node"] = _resolve_parent(session, values["parent_node"], node.uuid)
    _check_chassis(session, values.get("chassis_uuid"))
    _check_boot_mode(session, values.get("properties", {}))
    _check_protection(node, values)
    _check_retirement(node, values)
    _check_use(node, values)
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)
    _check_allocation(session, node, values)
    served = (node.driver, node.conductor_group)
    display_name = node.instance_info.get("display_name")
    chosen = {key: values.pop(key) for key in tuple(values) if key in INTERFACES}
    with unique.checked(session, "node", node):
        for key, value in values.items():
            setattr(node, key, value)
        _clear_dependents(node, values)
        if "instance_info" in values and "instance_name" not in values:
            _name_instance(node, display_name)
        if served != (node.driver, node.conductor_group):
            _check_served(session, node)
        if chosen or served[0] != node.driver:
            _set_interfaces(session, node, chosen, reset=reset_interfaces)
        touch(node)


def touch(node: Node) -> None:
    node.updated_at = now()


def give_back(session: Session, node: Node) -> None:
    """The node's allocation, if it has one, is over."""
    session.execute(delete(Allocation).where(Allocation.node_id == node.id))
    info = node.instance_info
    node.instance_info = {key: value for key, value in info.items() if key != "traits"}


def set_maintenance(node: Node, reason: str | None) -> None:
    """Nothing is done to the node unless somebody asks. Raises NodeLocked."""
    _free(node)
    node.maintenance, node.maintenance_reason = True, reason
    touch(node)


def clear_maintenance(node: Node) -> None:
    """Also forgets the reason and the fault. Raises NodeLocked."""
    _free(node)
    node.maintenance = False
    _clear_dependents(node, {"maintenance": False})
    touch(node)


def remove(session: Session, node: Node) -> None:
    """Forget a node and all that belongs to it. Raises Conflict, NodeProtected, NodeLocked."""
    if not node.maintenance and node.instance_uuid is not None:
        raise Conflict(f"Node {node.uuid} is associated with instance {node.instance_uuid}.")
    if node.protected:
        raise NodeProtected(node.uuid)
    allowed = set(REMOVABLE)
    if of(session).settings.conductor.allow_deleting_available_nodes:
        allowed.add(State.AVAILABLE)
    elif node.provision_state == State.AVAILABLE:
        raise Conflict(f"Node {node.uuid} is available and may not be deleted.")
    if not node.maintenance and node.provision_state not in allowed:
        raise Conflict(
            f'Can not delete node "{node.uuid}" while it is in provision state'
            f' "{node.provision_state}".'
        )
    _free(node)
    operations = select(Operation.id).where(Operation.node_id == node.id)
    session.execute(delete(OperationStep).where(OperationStep.operation_id.in_(operations)))
    for model in OF_A_NODE:
        session.execute(delete(model).where(model.node_id == node.id))
    session.delete(node)


def _check_allocation(session: Session, node: Node, values: Mapping[str, Any]) -> None:
    """Who takes away the instance of an allocated node gives the node back."""
    leaves = "instance_uuid" in values and values["instance_uuid"] is None
    new_owner = values.get("owner", node.owner) != node.owner
    if not (leaves or new_owner):
        return
    allocation = session.scalar(select(Allocation).where(Allocation.node_id == node.id))
    if allocation is None:
        return
    if new_owner and allocation.owner is not None:
        raise Conflict(f"owner: node {node.uuid} is allocated to project {allocation.owner}")
    if leaves and node.provision_state not in UNUSED and not node.maintenance:
        raise Conflict(
            f'instance_uuid: node {node.uuid} is allocated, and in state "{node.provision_state}"'
        )
    if leaves:
        give_back(session, node)


def _free(node: Node) -> None:
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)


def check_name(name: str | None) -> None:
    """Raises Invalid for a name that would be taken for something else."""
    if name is not None and (name in RESERVED_NAMES or is_uuid(name)):
        raise Invalid(f"name: {name!r} is reserved")


def _check_served(session: Session, node: Node) -> None:
    """Some live conductor has loaded the node's driver and serves its group."""
    timeout = of(session).settings.conductor.heartbeat_timeout
    alive = conductors.alive(session, timeout)
    group = [each for each in alive if each.group == node.conductor_group]
    if any(node.driver in each.drivers for each in group):
        return
    if any(node.driver in each.drivers for each in alive) or (node.conductor_group and not group):
        raise Invalid(
            f"conductor_group: no live conductor of group {node.conductor_group!r} serves driver"
            f" {node.driver!r}"
        )
    known = sorted({driver for each in alive for driver in each.drivers})
    raise Invalid(
        f"driver: no live conductor has loaded {node.driver!r}; loaded are"
        f" {', '.join(known) or 'none'}"
    )


def _resolve_parent(session: Session, ident: str | None, own: str) -> str | None:
    if ident is None:
        return None
    parent = session.scalar(select(Node.uuid).where(identified(ident)))
    if parent is None:
        raise Invalid(f"parent_node: there is no node {ident}")
    if parent == own:
        raise Invalid("parent_node: a node cannot be its own parent")
    return parent


def _check_boot_mode(session: Session, properties: Mapping[str, Any]) -> None:
    mode = wanted_boot_mode(properties)
    if mode in of(session).settings.api.disallowed_enrollment_boot_modes:
        raise Invalid(
            f"properties/capabilities: no node may have boot mode {mode}"
            " ([api]disallowed_enrollment_boot_modes)"
        )


def _check_chassis(session: Session, uuid: str | None) -> None:
    """There is such a chassis, and will be until the transaction ends. Raises Invalid."""
    query = select(Chassis.id).where(Chassis.uuid == uuid).with_for_update(read=True)
    if uuid is not None and session.scalar(query) is None:
        raise Invalid(f"chassis_uuid: there is no chassis {uuid}")


def _set_interfaces(
    session: Session, node: Node, chosen: Mapping[str, str | None], *, reset: bool = False
) -> None:
    """
    Set what is chosen, keep the rest (or not, with `reset`), and fill in the driver's defaults.

    Raises Invalid for an interface that the driver does not have.
    """
    drivers = of(session).drivers
    wanted = {
        kind: chosen[field] if field in chosen else None if reset else getattr(node, field)
        for field, kind in INTERFACES.items()
    }
    try:
        driver = drivers.driver(node.driver, wanted)
    except HardwareError as error:
        raise Invalid(str(error)) from error
    for field, kind in INTERFACES.items():
        setattr(node, field, driver.by_kind[kind].name)


def _name_instance(node: Node, before: str | None) -> None:
    """A new display name of the instance is its name, unless it has one."""
    name = node.instance_info.get("display_name")
    if name != before and isinstance(name, str) and 0 < len(name) < 256 and not node.instance_name:
        node.instance_name = name


def _clear_dependents(node: Node, values: Mapping[str, Any]) -> None:
    """What makes no sense any more once a switch is off."""
    if values.get("maintenance") is False:
        node.maintenance_reason = node.fault = None
    if values.get("protected") is False:
        node.protected_reason = None
    if values.get("retired") is False:
        node.retired_reason = None


def _check_state(
    node: Node, changes: Sequence[Change], touched: Any, inspecting_counts: bool
) -> None:
    if node.maintenance and [(each.op, each.path) for each in changes] == [
        ("remove", ("instance_uuid",))
    ]:
        return
    if touched <= RETIREMENT:  # spec node-retirement: in any state but available
        return
    state = State(node.provision_state)
    under_way = node.target_provision_state is not None and state not in CHANGEABLE
    if under_way or (state is State.INSPECTING and inspecting_counts):
        raise Conflict(
            f"Node {node.uuid} can not be updated while a state transition is in progress: it is"
            f' in state "{state}".'
        )


def _check_protection(node: Node, values: Mapping[str, Any]) -> None:
    if values.get("protected") and node.provision_state not in (State.ACTIVE, State.RESCUE):
        raise Conflict(f"protected: node {node.uuid} is neither active nor in rescue")
    if values.get("protected_reason") and not values.get("protected", node.protected):
        raise Invalid("protected_reason: only a node that is protected has one")


def _check_retirement(node: Node, values: Mapping[str, Any]) -> None:
    if values.get("retired") and node.provision_state == State.AVAILABLE:
        raise Conflict(f"retired: node {node.uuid} is available; make it manageable first")
    if values.get("retired_reason") and not values.get("retired", node.retired):
        raise Invalid("retired_reason: only a node that is retired has one")


def _check_use(node: Node, values: Mapping[str, Any]) -> None:
    """What a node in use must keep."""
    unused = node.provision_state in UNUSED
    for field in INTERFACES:
        new = values.get(field, getattr(node, field))
        if new != getattr(node, field) and not (unused or node.maintenance):
            raise Conflict(
                f"{field}: cannot be changed while node {node.uuid} is in state"
                f' "{node.provision_state}"'
            )
    instance = values.get("instance_uuid")
    if instance and node.instance_uuid and instance != node.instance_uuid:
        raise Conflict(f"Node {node.uuid} is associated with instance {node.instance_uuid}.")
    resource_class = values.get("resource_class", node.resource_class)
    if node.resource_class and resource_class != node.resource_class and not unused:
        raise Conflict(
            f"resource_class: cannot be changed while node {node.uuid} is in state"
            f' "{node.provision_state}"'
        )
