"""
Ports and port groups of a machine, as requests to Neutron describe them.

A VIF is a port of Neutron. `internal_info` of a port or port group here has the VIF of the tenant,
and those of the networks in which the agent runs.
"""

from collections.abc import Iterator
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Nic, NicGroup, Target
from drivers.core.vif_places import CLIENT_ID, TENANT_VIF

Place = Nic | NicGroup

#: Type of Neutron's ports for machines.
BAREMETAL = {"binding:vnic_type": "baremetal"}
_CLIENT_ID_OPTION = "61"


def tenants(target: Target) -> Iterator[tuple[str, Place]]:
    """Yield the tenant's VIFs, each with its port or port group."""
    all_places: tuple[Place, ...] = (*target.nics, *target.nic_groups)
    for place in all_places:
        if vif := place.internal_info.get(TENANT_VIF):
            yield str(vif), place


def of_vif(target: Target, vif: str) -> Place:
    """
    Return the port or port group of a tenant's VIF.

    Raises InvalidDriverInfo: the VIF is not attached.
    """
    for attached, place in tenants(target):
        if attached == vif:
            return place
    raise InvalidDriverInfo(f"VIF {vif} is not attached to node {target.uuid}")


def members(target: Target, place: Place) -> tuple[Nic, ...]:
    """Return the ports of a port group; a port itself."""
    if isinstance(place, Nic):
        return (place,)
    return tuple(nic for nic in target.nics if nic.group == place.uuid)


def profile(target: Target, place: Place) -> dict[str, object]:
    """Return the binding profile: the switch ports of a place, and the bond of a port group."""
    nics = members(target, place)
    binding: dict[str, object] = {
        "local_link_information": [dict(nic.local_link_connection) for nic in nics]
    }
    networks = (place.physical_network, *(nic.physical_network for nic in nics))
    if network := next(filter(None, networks), None):
        binding["physical_network"] = network
    if isinstance(place, NicGroup):
        binding["local_group_information"] = {
            "id": place.uuid,
            "name": place.name,
            "bond_mode": place.mode,
            "bond_properties": dict(_bond_properties(place)),
        }
    return binding


def _bond_properties(group: NicGroup) -> Iterator[tuple[str, object]]:
    """Yield the options of a bond, named as by the kernel's bonding driver with `bond_` before."""
    for name, value in group.properties.items():
        name = name.replace("-", "_")
        yield name if name.startswith("bond") else f"bond_{name}", value


def named(place: Place) -> str:
    """Return kind and UUID of a place, for messages."""
    kind = "port" if isinstance(place, Nic) else "port group"
    return f"{kind} {place.uuid}"


def client_id(place: Place) -> list[dict[str, Any]]:
    """Return the DHCP option with the client ID of a place; empty: it has none."""
    ident = place.extra.get(CLIENT_ID)
    return [{"opt_name": _CLIENT_ID_OPTION, "opt_value": ident}] if ident else []
