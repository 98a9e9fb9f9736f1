"""
VIFs of tenants: bind Neutron's ports to a machine, and unbind them.

Every function may be repeated after a crash at any of its requests. A port that Neutron has bound
to another host in the meantime is left alone.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drivers.core.errors import InvalidDriverInfo, NotFound
from drivers.core.target import Target
from drivers.neutron import places
from drivers.neutron.places import Place

if TYPE_CHECKING:
    from drivers.neutron.service import NetworkService

_UNBOUND: Mapping[str, object] = {"binding:host_id": "", "binding:profile": {}}
#: Names of the DHCP options that lead a machine to its loader.
_BOOT_OPTION = re.compile(r"(tag:!?ipxe6?,)?(59|60|66|67|150|255|server-ip-address)")


def bind(
    target: Target,
    service: "NetworkService",
    vif: str,
    place: Place,
    *,
    profile: Mapping[str, object] | None = None,
    options: Sequence[Mapping[str, Any]] = (),
) -> None:
    """
    Bind a VIF to a machine, with the MAC address of the port or port group.

    profile: of the binding; None: kept. options: of DHCP, besides those of the port.

    Raises InvalidDriverInfo: Neutron has no such port, or it is in use elsewhere.
    """
    port = service.port(vif)
    if port is None:
        raise InvalidDriverInfo(
            f"Neutron has no port {vif}, the VIF of {places.named(place)}: detach the VIF"
        )
    host = port["binding:host_id"]
    if host not in ("", None, target.uuid):
        raise InvalidDriverInfo(
            f"Neutron has bound port {vif}, the VIF of {places.named(place)}, to host {host}:"
            " detach the VIF here, or there"
        )
    refuse_subport(port)
    fields: dict[str, Any] = {**places.BAREMETAL, "binding:host_id": target.uuid}
    if place.address and port["mac_address"] != place.address:
        if host:  # Neutron refuses another MAC address for a bound port
            target.before_order()
            service.update(vif, _UNBOUND)
        fields["mac_address"] = place.address
    if profile is not None:
        fields["binding:profile"] = profile
    if all_options := [*options, *places.client_id(place)]:
        fields["extra_dhcp_opts"] = all_options
    target.before_order()
    service.update(vif, fields)


def unbind(target: Target, service: "NetworkService", vif: str, place: Place) -> None:
    """
    Unbind a VIF from a machine, and give Neutron's port a MAC address of its own.

    Also the DHCP options that lead to a boot loader are removed. A port that is deleted, or bound
    to another host, counts as unbound.
    """
    port = service.port(vif)
    if port is None or port["binding:host_id"] not in ("", None, target.uuid):
        return
    try:
        if port["binding:host_id"] or port["binding:profile"]:
            target.before_order()
            port = service.update(vif, {**_UNBOUND, **_without_boot_options(port)})
        # apart: Neutron refuses another MAC address for a bound port
        if place.address and port["mac_address"] == place.address:
            target.before_order()
            service.update(vif, {"mac_address": None})
    except NotFound:  # deleted since it was read
        return


def unbind_all(target: Target, service: "NetworkService") -> None:
    """Unbind all VIFs of the tenant."""
    for vif, place in places.tenants(target):
        unbind(target, service, vif, place)


def unbind_switched(target: Target, service: "NetworkService") -> None:
    """
    Unbind those VIFs of the tenant that connect the machine's switch ports.

    An agent must not run in a tenant's network.
    """
    for vif, place in places.tenants(target):
        port = service.port(vif)
        if port and (port["binding:profile"] or {}).get("local_link_information"):
            unbind(target, service, vif, place)


def physical_networks(service: "NetworkService", vif: str, project: str | None) -> list[str]:
    """
    Return the physical networks of a VIF; empty if any will do.

    project: of the caller, who may use the ports of the project and of its networks; None: all.

    Raises InvalidDriverInfo: there is no such port that the caller may use.
    """
    port = service.port(vif)
    network = service.network_of(port) if port else {}
    owners = (port.get("project_id"), network.get("project_id")) if port else ()
    if port is None or (project is not None and project not in owners):
        raise InvalidDriverInfo(f"Unable to attach VIF {vif}: Neutron has no such port")
    refuse_subport(port)
    segments = network.get("segments")
    if not segments:
        segments = [network]
    for fixed in port.get("fixed_ips") or () if len(segments) > 1 else ():
        if segment := service.segment_of(fixed):
            segments = [segment]
            break
    names = (segment.get("provider:physical_network") for segment in segments)
    return sorted({name for name in names if name})


def refuse_subport(port: Mapping[str, object]) -> None:
    """Raise InvalidDriverInfo: the port is a part of a trunk, which is attached by its parent."""
    if port.get("device_owner") == "trunk:subport":
        raise InvalidDriverInfo(
            f"VIF {port['id']} is a subport of a trunk: attach the parent port of the trunk"
        )


def _without_boot_options(port: Mapping[str, Any]) -> dict[str, Any]:
    removed = [
        {
            "opt_name": option["opt_name"],
            "opt_value": None,
            "ip_version": option.get("ip_version", 4),
        }
        for option in port.get("extra_dhcp_opts") or ()
        if _BOOT_OPTION.fullmatch(str(option["opt_name"]))
    ]
    return {"extra_dhcp_opts": removed} if removed else {}
