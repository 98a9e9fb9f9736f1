"""
Ports: the network interfaces of nodes.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db import now
from app.errors import Conflict, Invalid, NodeLocked, NotFound
from app.models import Node, Port
from app.services import nodes, unique
from app.states import State

#: What a field is when it is removed; all others become None.
DEFAULTS: Mapping[str, Any] = {
    "extra": {}, "local_link_connection": {}, "pxe_enabled": True, "is_smartnic": False,
    "available_for_dynamic_portgroup": True,
}  # fmt: skip
#: Changes of these need a node that is not in use.
WIRING = {"pxe_enabled", "local_link_connection", "physical_network"}
REWIRABLE = {State.ENROLL, State.INSPECTING, State.INSPECT_WAIT, State.MANAGEABLE}


def find(session: Session, ident: str, *, by_name: bool = True) -> Port:
    """A port by UUID, or by name. Raises NotFound."""
    if nodes.is_uuid(ident):
        condition = Port.uuid == str(UUID(ident))
    elif by_name:
        condition = Port.name == ident
    else:
        raise NotFound("port", ident)
    port = session.scalar(select(Port).where(condition))
    if port is None:
        raise NotFound("port", ident)
    return port


def create(session: Session, node_ident: str, fields: Mapping[str, Any]) -> Port:
    """A new port of a node, which may be locked. Raises Invalid, AlreadyExists."""
    values = {key: _or_default(key, value) for key, value in fields.items()}
    port = Port(**{key: _or_default(key, None) for key in DEFAULTS} | values)
    port.uuid = values.get("uuid") or str(uuid4())
    port.node_id = _node_id(session, node_ident)
    _check_smartnic(port)
    with unique.checked(session, "port", port):
        session.add(port)
    return port


def change(
    session: Session, port: Port, values: Mapping[str, Any], *, inspecting_counts: bool
) -> None:
    """
    Change fields of a port. values: field -> its new value, None for removed; node_uuid moves it.

    Raises Invalid, Conflict, NodeLocked, AlreadyExists.
    """
    values = {key: _or_default(key, value) for key, value in values.items()}
    node = _lock_node(session, port)
    state = State(node.provision_state)
    if state is State.INSPECTING and inspecting_counts:
        raise Conflict(f"Node {node.uuid} is being inspected; its ports cannot be changed.")
    changed = {key for key, value in values.items() if value != getattr(port, key, value)}
    if changed & WIRING and state not in REWIRABLE and not node.maintenance:
        raise Conflict(
            f"{', '.join(sorted(changed & WIRING))}: cannot be changed while node {node.uuid} is in"
            f' state "{state}" and not in maintenance'
        )
    in_use = state is State.ACTIVE or node.instance_uuid is not None
    if "address" in changed and in_use and not node.maintenance:
        raise Conflict(f"address: node {node.uuid} is in use and not in maintenance")
    if "node_uuid" in values:
        port.node_id = _node_id(session, values.pop("node_uuid"))
    with unique.checked(session, "port", port):
        for key, value in values.items():
            setattr(port, key, value)
        _check_smartnic(port)
        port.updated_at = now()


def remove(session: Session, port: Port) -> None:
    """Forget a port. Raises NodeLocked."""
    _lock_node(session, port)
    session.delete(port)


def _lock_node(session: Session, port: Port) -> Node:
    node = session.get_one(Node, port.node_id, with_for_update=True)
    if node.reservation is not None:
        raise NodeLocked(node.uuid, node.reservation)
    return node


def _node_id(session: Session, ident: str) -> int:
    found = session.scalar(select(Node.id).where(nodes.identified(ident)))
    if found is None:
        raise Invalid(f"There is no node {ident}.")
    return found


def _check_smartnic(port: Port) -> None:
    link = port.local_link_connection
    if port.is_smartnic and link and not ("port_id" in link and "hostname" in link):
        raise Invalid("local_link_connection: a smart NIC needs port_id and hostname")


def _or_default(field: str, value: Any) -> Any:
    if value is not None or field not in DEFAULTS:
        return value
    default = DEFAULTS[field]
    return dict(default) if isinstance(default, dict) else default
