"""
Validation of node fields, and of their changes in the node's current state.

All functions raise Invalid or Conflict with the name of the field.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.cluster import conductors
from app.errors import Conflict, Invalid
from app.lifecycle.flows import FLOWS, INSPECT
from app.lifecycle.provision_states import WITHOUT_INSTANCE, Kind, State, of_kind
from app.models import Chassis, Node
from app.rows.json_patch import Change
from app.rows.uuid_or_name import identified, is_uuid
from app.runtime import runtime_of
from drivers.core import capabilities
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface_kinds import KINDS

INTERFACES = {f"{kind}_interface": kind for kind in KINDS}
#: Names that would be ambiguous in URLs.
RESERVED_NAMES = {
    "maintenance", "management", "states", "vendor_passthru", "detail", "validate",
}  # fmt: skip
#: Provision states with a target that allow changes of fields.
CHANGEABLE = (of_kind(Kind.FAILED) | {State.ERROR}).union(
    *(flow.states(flow.changeable) for flow in FLOWS)
)
#: Provision states that allow changes of interfaces and of the resource class.
UNUSED = WITHOUT_INSTANCE.union(INSPECT.under_way.values())
RETIREMENT = {"retired", "retired_reason"}
RETIRED_REASON = "The retired_reason field can only be set when retired is True"


def check_name(name: str | None) -> None:
    """Check that a name is neither reserved nor a UUID."""
    if name is not None and (name in RESERVED_NAMES or is_uuid(name)):
        raise Invalid(
            f"The word {name!r} is reserved and can not be used as a node name. Reserved words are:"
            f" {', '.join(sorted(RESERVED_NAMES))}, and all UUIDs"
        )


def check_served(session: Session, node: Node) -> None:
    """Check that a live conductor of the node's group has loaded its driver."""
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    live_conductors = conductors.alive(session, timeout)
    group = [conductor for conductor in live_conductors if conductor.group == node.conductor_group]
    if any(node.driver in conductor.drivers for conductor in group):
        return
    available_drivers = {
        f"{driver} in group {conductor.group!r}"
        for conductor in live_conductors
        for driver in conductor.drivers
    }
    names = {driver for conductor in live_conductors for driver in conductor.drivers}
    nearest = get_close_matches(node.driver, names - {node.driver}, 1)
    hint = f" The nearest driver is {nearest[0]}." if nearest else ""
    raise Invalid(
        "No valid host was found. Reason: No conductor service registered which supports driver"
        f' {node.driver} for conductor group "{node.conductor_group}". Ensure the driver is valid'
        f" and enabled: the live conductors have {', '.join(sorted(available_drivers)) or 'none'}."
        + hint
    )


def check_instance_interfaces(session: Session, node: Node) -> None:
    """Check that the node's driver has the interfaces named in `instance_info`."""
    interfaces = runtime_of(session).drivers.types.get(node.driver, {})
    for field, kind in INTERFACES.items():
        name = node.instance_info.get(field)
        if name and kind in interfaces and not (isinstance(name, str) and name in interfaces[kind]):
            raise Invalid(
                f"instance_info/{field}: driver {node.driver} has no {kind} interface {name!r}; it"
                f" has {', '.join(interfaces[kind])}"
            )


def parent(session: Session, ident: str | None, child_uuid: str) -> str | None:
    """
    Return the UUID of a parent node, given by UUID or name. `child_uuid` is the UUID of the child.
    """
    if ident is None:
        return None
    parent_uuid = session.scalar(select(Node.uuid).where(identified(ident)))
    if parent_uuid is None:
        raise _invalid_value("parent_node", ident, "there is no such node")
    if parent_uuid == child_uuid:
        raise _invalid_value("parent_node", ident, "a node cannot be its own parent")
    return parent_uuid


def _invalid_value(field: str, value: str, reason: str) -> Invalid:
    return Invalid(
        f"Unable to apply the requested {field} {value!r}. Requested value was invalid: {reason}"
    )


def check_boot_mode(session: Session, properties: Mapping[str, Any]) -> None:
    disallowed = runtime_of(session).settings.api.disallowed_enrollment_boot_modes
    if not disallowed:
        return
    try:
        values = capabilities.parsed(properties.get("capabilities"), "properties/capabilities")
    except InvalidDriverInfo as error:
        raise Invalid(str(error)) from error
    if (mode := values.get("boot_mode")) in disallowed:
        raise Invalid(
            f"properties/capabilities: no node may have boot mode {mode}"
            " ([api]disallowed_enrollment_boot_modes)"
        )


def check_chassis(session: Session, uuid: str | None) -> None:
    """Check that a chassis exists; its row stays locked, so that it is not deleted meanwhile."""
    if uuid is None:
        return
    query = select(Chassis.id).where(Chassis.uuid == uuid).with_for_update(read=True)
    if session.scalar(query) is None:
        raise Invalid(f"Chassis {uuid} could not be found (chassis_uuid)")


def check_state(
    node: Node, changes: Sequence[Change], changed_fields: Any, inspecting_counts: bool
) -> None:
    """
    Check that the node's provision state permits a change.

    `changed_fields`: names of the changed fields. `inspecting_counts`: refuse changes during
    inspection, as API versions with the state `inspect wait` do.
    """
    if node.maintenance and [(change.op, change.path) for change in changes] == [
        ("remove", ("instance_uuid",))
    ]:
        return
    if changed_fields <= RETIREMENT:  # spec node-retirement: in any state but available
        return
    state = State(node.provision_state)
    under_way = node.target_provision_state is not None and state not in CHANGEABLE
    if under_way or (state is State.INSPECTING and inspecting_counts):
        raise Conflict(
            f"Node {node.uuid} can not be updated while a state transition is in progress: it is"
            f' in state "{state}".'
        )


def check_protection(node: Node, values: Mapping[str, object]) -> None:
    if values.get("protected") and node.provision_state not in (State.ACTIVE, State.RESCUE):
        raise Conflict(
            f"Node {node.uuid} can only be made protected in provision states 'active' or"
            f" 'rescue', the current state is '{node.provision_state}'"
        )
    if values.get("protected_reason") and not values.get("protected", node.protected):
        raise Invalid("The protected_reason field can only be set when protected is True")


def check_retirement(node: Node, values: Mapping[str, object]) -> None:
    if values.get("retired") and node.provision_state == State.AVAILABLE:
        raise Conflict(
            f"Node {node.uuid} can not have 'retired' set in provision state 'available', the"
            " current state is 'available': make it manageable first"
        )
    if values.get("retired_reason") and not values.get("retired", node.retired):
        raise Invalid(RETIRED_REASON)


def check_use(node: Node, values: Mapping[str, object]) -> None:
    """Check that a node in use keeps its interfaces, its resource class and its instance."""
    is_unused = node.provision_state in UNUSED
    for field in INTERFACES:
        new_value = values.get(field, getattr(node, field))
        if new_value != getattr(node, field) and not (is_unused or node.maintenance):
            raise Conflict(
                f"{field}: cannot be changed while node {node.uuid} is in state"
                f' "{node.provision_state}"'
            )
    instance = values.get("instance_uuid")
    if instance and node.instance_uuid and instance != node.instance_uuid:
        raise Conflict(f"Node {node.uuid} is associated with instance {node.instance_uuid}.")
    resource_class = values.get("resource_class", node.resource_class)
    if node.resource_class and resource_class != node.resource_class and not is_unused:
        raise Conflict(
            f"resource_class: cannot be changed while node {node.uuid} is in state"
            f' "{node.provision_state}"'
        )
