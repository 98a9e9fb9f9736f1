"""
Networks and switches: create, update and delete them.

A network is for tenants if it has an owner or is public, else for agents. Networks of different
projects, and those of agents, have no VLAN in common.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.errors import Conflict, Invalid
from app.hardware.switching import contains
from app.models import Network, Port, Portgroup, Switch
from app.rows import row_changes
from drivers.builtin import switch_ports
from drivers.core.vif_places import AGENT_VIFS, TENANT_VIF

#: Fields that say which switch ports carry what; fixed while the network is in use.
_FIXED = {"name", "vlan", "tagged_vlans", "physical_network", "owner", "public"}


def create(session: Session, fields: Mapping[str, Any]) -> Network:
    """
    Create a network. `fields` have the API's names, and were validated against its schema.

    Raises Invalid, AlreadyExists.
    Raises Conflict: another network has one of the VLANs.
    """
    network = row_changes.make(Network, fields)
    _check(session, network)
    return row_changes.add(session, network)


def change(session: Session, network: Network, values: Mapping[str, Any]) -> None:
    """
    Update a network, whose row is locked.

    Raises Invalid, AlreadyExists.
    Raises Conflict: another network has one of the VLANs, or a node is in the network.
    """
    changes = row_changes.with_defaults(Network, values)
    fixed = sorted(
        name for name in changes.keys() & _FIXED if changes[name] != getattr(network, name)
    )
    if fixed and (place := _used_by(session, network)):
        raise Conflict(
            f"{', '.join(fixed)}: cannot be changed while {place} is in network {network.name}"
        )
    row_changes.change(session, network, values)
    _check(session, network)


def remove(session: Session, network: Network) -> None:
    """
    Delete a network, whose row is locked.

    Raises Conflict: a node is in the network.
    """
    if place := _used_by(session, network):
        raise Conflict(f"network {network.name} cannot be deleted while {place} is in it")
    session.delete(network)


def create_switch(session: Session, fields: Mapping[str, object]) -> Switch:
    """
    Create a switch. `fields` have the API's names, and were validated against its schema.

    Raises Invalid, AlreadyExists.
    """
    switch = row_changes.make(Switch, fields)
    _check_login(switch)
    return row_changes.add(session, switch)


def change_switch(session: Session, switch: Switch, values: Mapping[str, object]) -> None:
    """
    Update a switch, whose row is locked.

    Raises Invalid, AlreadyExists.
    """
    row_changes.change(session, switch, values)
    _check_login(switch)


def remove_switch(session: Session, switch: Switch) -> None:
    """
    Delete a switch, whose row is locked.

    Raises Conflict: a port of a node is in a network there.
    """
    record = contains(Port.internal_info, f'"{switch_ports.ORDERED}"')
    for uuid, info in session.execute(select(Port.uuid, Port.internal_info).where(record)):
        ordered = info.get(switch_ports.ORDERED) or {}
        if ordered.get("switch") == switch.name and ordered.get("network"):
            raise Conflict(
                f"switch {switch.name} cannot be deleted while port {uuid} is in network"
                f" {ordered['network']} there"
            )
    session.delete(switch)


def _check_login(switch: Switch) -> None:
    if not (switch.password or switch.private_key):
        raise Invalid("password, private_key: one of them is needed to log in to the switch")


def _check(session: Session, network: Network) -> None:
    vlans = _vlans(network)
    if not vlans:
        raise Invalid("vlan, tagged_vlans: a network needs at least one VLAN")
    if network.vlan in network.tagged_vlans:
        raise Invalid(f"tagged_vlans: {network.vlan} is the untagged one already, in vlan")
    if network.owner is not None and network.public:
        raise Invalid("owner, public: a public network has no owner")
    other_networks = select(Network).where(Network.uuid != network.uuid).order_by(Network.id)
    for other in session.scalars(other_networks):
        common_vlans = vlans & _vlans(other)
        has_same_users = (network.owner, network.public) == (other.owner, other.public)
        if common_vlans and not has_same_users and _may_meet(network, other):
            raise Conflict(
                f"vlan, tagged_vlans: VLAN {min(common_vlans)} is one of network {other.name},"
                f" which {_users(other)} may use: their machines would be in one network"
            )


def _may_meet(network: Network, other: Network) -> bool:
    """Whether both may be at one switch."""
    names = (network.physical_network, other.physical_network)
    return None in names or names[0] == names[1]


def _users(network: Network) -> str:
    if network.public:
        return "every project"
    return f"project {network.owner}" if network.owner is not None else "agents alone"


def _vlans(network: Network) -> set[int]:
    return {*network.tagged_vlans, *(() if network.vlan is None else (network.vlan,))}


def _used_by(session: Session, network: Network) -> str | None:
    """Name a port or port group that is in the network, or shall be; None: there is none."""
    idents = {network.uuid, network.name}
    for model, noun in ((Port, "port"), (Portgroup, "port group")):
        texts = [contains(model.internal_info, f'"{ident}"') for ident in sorted(idents)]
        rows = session.execute(select(model.uuid, model.internal_info).where(or_(*texts)))
        for uuid, info in rows:
            if idents & {info.get(key) for key in (TENANT_VIF, *AGENT_VIFS.values())}:
                return f"{noun} {uuid}"
    return None
