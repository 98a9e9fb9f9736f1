"""
VIFs: attach virtual network interfaces to ports and port groups, and detach them.

A network interface without VIFs (`noop`) accepts attachments and stores nothing, as in Ironic. One
with remote VIFs (`neutron`) connects them by a conductor: `app.engine.vif_calls` records the VIF on
its port before, so that a crash leaves nothing that is not recorded.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.clock import now
from app.errors import Conflict, Invalid
from app.hardware import targets
from app.inventory import nodes
from app.models import Node, Port, Portgroup
from app.models.base import kind_of
from app.runtime import runtime_of
from drivers.core.errors import HardwareError
from drivers.core.interface_kinds import Network
from drivers.core.vif_places import AGENT_VIFS, TENANT_VIF, is_wired

Place = Port | Portgroup

#: Keys of a request that select the port or port group of the VIF.
PLACES = ("port_uuid", "portgroup_uuid")
#: Key of `internal_info` of a place whose VIF is recorded, and perhaps not connected yet.
PENDING = "vif_is_connecting"


def bound(place: Place) -> str | None:
    """Return the VIF of a port or port group, the tenant's or the service's, if it has one."""
    vif_ids = (place.internal_info.get(key) for key in (TENANT_VIF, *AGENT_VIFS.values()))
    return next((str(vif) for vif in vif_ids if vif), None)


def attached(session: Session, node: Node) -> list[str]:
    """Return the ids of the tenant's VIFs of a node."""
    if not interface(session, node).keeps_vifs:
        return []
    return [vif for place in _places(session, node) if (vif := place.internal_info.get(TENANT_VIF))]


def attach(
    session: Session,
    node: Node,
    vif: Mapping[str, object],
    networks: Collection[str] | None = None,
) -> None:
    """
    Attach a VIF to the best free port or port group of a node, whose row is locked.

    `vif` has an `id`; `port_uuid` or `portgroup_uuid` to select the place; and keys of the network
    interface. networks: physical networks of a remote VIF, which is then pending; it may be
    attached again until `complete`. None: the network interface has no remote VIFs.

    Raises Invalid: no port or port group that fits is free.
    Raises NodeLocked.
    Raises Conflict: the VIF is attached already. Nova takes every 409 for this, and continues, so
    no other error may be a Conflict.
    """
    nodes.check_unlocked(node)
    network = interface(session, node)
    if not network.keeps_vifs:
        return
    places = _places(session, node)
    for place in places:
        if place.internal_info.get(TENANT_VIF) == vif["id"]:
            if networks is not None and PENDING in place.internal_info:
                return
            raise Conflict(
                f"Unable to attach VIF because VIF {vif['id']} is already attached to Ironic"
                f" {_named(place)}."
            )
    best = _best_place(node, network, places, vif, networks)
    pending = {} if networks is None else {PENDING: True}
    best.internal_info = {**best.internal_info, TENANT_VIF: vif["id"], **pending}
    best.updated_at = now()


def _best_place(
    node: Node,
    network: Network,
    places: Collection[Place],
    vif: Mapping[str, object],
    networks: Collection[str] | None,
) -> Place:
    """
    Return the best free place of a node for a VIF.

    networks: physical networks of the VIF, if the network interface does not name them.

    Raises Invalid: no place is free, or none is on one of the networks.
    """
    members: Mapping[int, list[Port]] = _members(places)
    free_places = [place for place in _free(places, members) if _may_hold(place, vif)]
    if network.needs_links:
        free_places = [place for place in free_places if _is_linked(place, members)]
    if not free_places:
        linked = " with local_link_connection" if network.needs_links else ""
        raise _no_port(
            vif, f"node {node.uuid} needs a free port or port group{linked} that may have it"
        )
    physical_networks = network.physical_networks(vif) if networks is None else networks
    fitting = [
        place
        for place in free_places
        if _fits(_physical_network(place, members), physical_networks)
    ]
    if not fitting:
        names = ", ".join(sorted(physical_networks))
        raise _no_port(vif, f"no free one of node {node.uuid} is on physical network {names}")
    return max(fitting, key=lambda place: _preference(place, members))


def complete(session: Session, node: Node, vif: str) -> None:
    """Record that a remote VIF is connected, unless it was detached meanwhile."""
    for place in _places(session, node):
        if place.internal_info.get(TENANT_VIF) == vif:
            _drop(place, PENDING)


def detach(session: Session, node: Node, vif: str) -> None:
    """
    Detach a VIF from a node, whose row is locked.

    Raises Invalid: the VIF is not attached to the node.
    Raises NodeLocked.
    """
    if (place := attachment(session, node, vif)) is not None:
        _drop(place, TENANT_VIF, PENDING)


def attachment(session: Session, node: Node, vif: str) -> Place | None:
    """
    Return the place of an attached VIF; None: the network interface keeps none.

    Raises Invalid: the VIF is not attached to the node.
    Raises NodeLocked.
    """
    nodes.check_unlocked(node)
    if not interface(session, node).keeps_vifs:
        return None
    for place in _places(session, node):
        if place.internal_info.get(TENANT_VIF) == vif:
            return place
    raise Invalid(
        f"Unable to detach VIF {vif} from node {node.uuid} because it is not attached to it."
    )


def detach_all(session: Session, node: Node) -> None:
    """Detach all VIFs of a node whose instance is removed; they are disconnected."""
    for place in _places(session, node):
        if TENANT_VIF in place.internal_info:
            _drop(place, TENANT_VIF, PENDING)


def _drop(place: Place, *keys: str) -> None:
    info = {key: value for key, value in place.internal_info.items() if key not in keys}
    if info != place.internal_info:
        place.internal_info, place.updated_at = info, now()


def _no_port(vif: Mapping[str, object], reason: str) -> Invalid:
    return Invalid(f"Unable to attach VIF {vif['id']}, not enough free physical ports: {reason}.")


def interface(session: Session, node: Node) -> Network:
    """Return the network interface of a node. Raises Invalid: it is not loaded."""
    try:
        return targets.driver_of(runtime_of(session), node).network
    except HardwareError as error:
        raise Invalid(str(error)) from error


def _places(session: Session, node: Node) -> list[Place]:
    places: list[Place] = []
    for model in (Port, Portgroup):
        query = select(model).where(model.node_id == node.id).order_by(model.id)
        places += session.scalars(query)
    return places


def _members(places: Collection[Place]) -> Mapping[int, list[Port]]:
    """Return the ports of each port group, by the group's id."""
    members = defaultdict(list)
    for place in places:
        if isinstance(place, Port) and place.portgroup_id is not None:
            members[place.portgroup_id].append(place)
    return members


def _free(places: Collection[Place], members: Mapping[int, list[Port]]) -> list[Place]:
    """
    Return ports without a group, and groups without VIFs at their ports.

    If a port of a group has a VIF, the group's other ports are free one by one, provided that the
    group supports standalone ports.
    """
    free_places: list[Place] = []
    for place in places:
        if TENANT_VIF in place.internal_info:
            continue
        if isinstance(place, Port):
            if place.portgroup_id is None:
                free_places.append(place)
            continue
        ports = members.get(place.id, [])
        free_ports = [port for port in ports if TENANT_VIF not in port.internal_info]
        if len(free_ports) < len(ports):
            free_places += free_ports if place.standalone_ports_supported else []
        elif ports:
            free_places.append(place)
    return free_places


def _may_hold(place: Place, vif: Mapping[str, object]) -> bool:
    """Whether the request selects this port or port group, or none."""
    selectors = {key: vif[key] for key in PLACES if key in vif}
    return not selectors or selectors.get(f"{kind_of(type(place))}_uuid") == place.uuid


def _is_linked(place: Place, members: Mapping[int, list[Port]]) -> bool:
    """Whether the switch ports of a place are known, and none belongs to a smart NIC."""
    ports = members[place.id] if isinstance(place, Portgroup) else [place]
    return all(is_wired(port) and not port.is_smartnic for port in ports)


def _physical_network(place: Place, members: Mapping[int, list[Port]]) -> str | None:
    if isinstance(place, Portgroup) and place.physical_network is None:
        return members[place.id][0].physical_network
    return place.physical_network


def _fits(physical_network: str | None, physical_networks: Collection[str]) -> bool:
    return (
        not physical_networks or physical_network is None or physical_network in physical_networks
    )


def _preference(place: Place, members: Mapping[int, list[Port]]) -> tuple[bool, bool, bool]:
    """Sort key: with a physical network before without one; port groups before ports; PXE first."""
    on_network = _physical_network(place, members) is not None
    if isinstance(place, Portgroup):
        return on_network, True, True
    return on_network, False, place.pxe_enabled


def _named(place: Place) -> str:
    return f"{kind_of(type(place))} {place.uuid}"
