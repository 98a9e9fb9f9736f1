"""
Ports: create, update and delete network interfaces of nodes.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.errors import Conflict, Invalid
from app.inventory import owned_resources
from app.inventory.connectivity import vifs
from app.lifecycle.provision_states import State
from app.models import Port, Portgroup
from app.rows import row_changes
from drivers.core.vif_places import TENANT_VIF

#: Columns that may change only while the node is not in use -> their API fields.
WIRING = {
    "pxe_enabled": "pxe_enabled",
    "local_link_connection": "local_link_connection",
    "physical_network": "physical_network",
    "portgroup_id": "portgroup_uuid",
}


def create(session: Session, node_ident: str, fields: Mapping[str, Any]) -> Port:
    """
    Create a port of a node, which may be reserved for an operation.

    Raises Invalid, Conflict, AlreadyExists.
    """
    values = _by_column(session, {**fields, "node_uuid": node_ident})
    port = row_changes.make(Port, values)
    _check_smartnic(port)
    _check_group(session, port, values.keys() | WIRING.keys())
    return row_changes.add(session, port)


def change(
    session: Session, port: Port, values: Mapping[str, Any], *, inspecting_counts: bool
) -> None:
    """
    Update a port.

    values: field -> its new value, or None to remove it. A new node_uuid moves the port.

    Raises Invalid, Conflict, NodeLocked, AlreadyExists.
    """
    node = owned_resources.lock_node(session, port, inspecting_counts=inspecting_counts)
    values = row_changes.with_defaults(Port, _by_column(session, dict(values)))
    changed_fields = owned_resources.changed(port, values)
    owned_resources.check_rewirable(node, (WIRING[name] for name in changed_fields & WIRING.keys()))
    in_use = node.provision_state == State.ACTIVE or node.instance_uuid is not None
    if "address" in changed_fields and in_use and not node.maintenance:
        raise Conflict(f"address: node {node.uuid} is in use and not in maintenance")
    vif = port.internal_info.get(TENANT_VIF)
    if "address" in changed_fields and vif and vifs.interface(session, node).remote_vifs:
        raise Conflict(
            f"address: VIF {vif} is connected with the present one; detach it from node {node.uuid}"
            " first"
        )
    row_changes.change(session, port, values)
    _check_smartnic(port)
    _check_group(session, port, changed_fields)


def remove(session: Session, port: Port) -> None:
    """
    Delete a port.

    Raises NodeLocked.
    Raises Conflict: it is bound to a VIF.
    """
    node = owned_resources.lock_node(session, port)
    vif = vifs.bound(port)
    if vif is not None and not node.maintenance:
        raise Conflict(f"Port {port.uuid} is bound to VIF {vif}; detach that first.")
    session.delete(port)


def _by_column(session: Session, values: dict[str, Any]) -> dict[str, Any]:
    """
    Return column values: UUIDs of node and port group are replaced by ids.

    The port group's row is locked, so that it is not deleted meanwhile.

    Raises Invalid: the node or the port group does not exist.
    """
    if "portgroup_uuid" in values:
        uuid = values.pop("portgroup_uuid")
        query = select(Portgroup.id).where(Portgroup.uuid == uuid).with_for_update()
        group_id = session.scalar(query)
        if uuid is not None and group_id is None:
            raise _no_group(uuid)
        values["portgroup_id"] = group_id
    return owned_resources.by_column(session, values)


def _no_group(uuid: str) -> Invalid:
    """Return the error of a port group that is unknown, or that of another, concealed node."""
    return Invalid(
        f"Portgroup {uuid} could not be found (portgroup_uuid) among those of the port's node"
    )


def _check_smartnic(port: Port) -> None:
    link = port.local_link_connection
    if port.is_smartnic and link and not ("port_id" in link and "hostname" in link):
        raise Invalid("local_link_connection: a smart NIC needs port_id and hostname")


def _check_group(session: Session, port: Port, changed_fields: set[str]) -> None:
    """
    Check that a port fits its port group.

    Raises Invalid: the port group belongs to another node.
    Raises Conflict: pxe_enabled or physical_network do not fit.
    """
    if port.portgroup_id is None or not changed_fields & {*WIRING, "node_id"}:
        return
    group = session.get_one(Portgroup, port.portgroup_id, with_for_update=True)
    if group.node_id != port.node_id:
        raise _no_group(group.uuid)
    if changed_fields & {"pxe_enabled", "portgroup_id"}:
        _check_standalone(port, group)
    if changed_fields & {"physical_network", "portgroup_id"}:
        _join_network(session, port, group)


def _check_standalone(port: Port, group: Portgroup) -> None:
    if port.pxe_enabled and not group.standalone_ports_supported:
        raise Conflict(
            f"pxe_enabled: must be false for a port of port group {group.uuid}, which does not"
            " support standalone ports"
        )


def _join_network(session: Session, port: Port, group: Portgroup) -> None:
    """Check that all ports of a group have the same physical network; the first port sets it."""
    query = select(Port.physical_network).where(Port.portgroup_id == group.id, Port.id != port.id)
    networks = set(session.scalars(query)) or {group.physical_network} - {None}
    if not networks:
        group.physical_network = port.physical_network
    elif port.physical_network not in networks:
        network_names = ", ".join(sorted(network or "none" for network in networks))
        raise Conflict(
            f"physical_network: must be that of port group {group.uuid}, which is {network_names}"
        )
