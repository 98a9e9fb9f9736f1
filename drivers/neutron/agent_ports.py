"""
Ports of Neutron for the agent: one for each port of the machine in the network of a purpose.

A port is created with its MAC address, so that Neutron lets there be only one, and so that a
step finds it again after a lost answer, or a crash before its id was recorded.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from drivers.core.errors import HardwareError, InvalidDriverInfo, Refused, Unexpected, Unreachable
from drivers.core.target import Nic, Target
from drivers.core.vif_places import AGENT_VIFS
from drivers.neutron import places

if TYPE_CHECKING:
    from drivers.neutron.service import NetworkService

#: Owner of these ports in Neutron, as of Ironic's.
OWNER = "baremetal:none"


def create(
    target: Target, service: "NetworkService", purpose: str, network: str, fields: Mapping[str, Any]
) -> list[str]:
    """
    Create the ports in a network, instead of any that the machine has; return their ids.

    network: its UUID. fields: further fields of the ports.

    Raises InvalidDriverInfo: the node has no port for it.
    """
    nics = _connected(target)
    if not nics:
        raise InvalidDriverInfo(
            f"the node has no port with pxe_enabled that could be in the network for {purpose}"
        )
    remove(target, service)
    options = boot_options(target)
    created_ports = []
    for nic in nics:
        described = {
            **places.BAREMETAL,
            **fields,
            "network_id": network,
            "admin_state_up": True,
            "device_id": target.record.get("instance_uuid") or target.uuid,
            "device_owner": OWNER,
            "mac_address": nic.address,
            "binding:host_id": target.uuid,
            "binding:profile": places.profile(target, nic),
        }
        if not nic.pxe_enabled:
            described["fixed_ips"] = []
        if all_options := [*options, *places.client_id(nic)]:
            described["extra_dhcp_opts"] = all_options
        target.before_order()
        port = _created(service, described)
        target.report(port_internal_info={nic.uuid: {AGENT_VIFS[purpose]: port["id"]}})
        created_ports.append(str(port["id"]))
    return created_ports


def remove(target: Target, service: "NetworkService") -> None:
    """Delete the agent's ports in all networks, also those whose ids were never recorded."""
    addresses = [nic.address for nic in target.nics]
    if addresses:
        for port in service.ports(mac_address=addresses, device_owner=OWNER):
            target.before_order()
            service.delete(port["id"])
    for nic in target.nics:
        target.report(port_internal_info={nic.uuid: dict.fromkeys(AGENT_VIFS.values())})


def boot_options(target: Target) -> Sequence[Mapping[str, object]]:
    """Return the DHCP options that lead the machine to its loader, if Neutron provides them."""
    if target.options["dhcp"]["dhcp_provider"] != "neutron":
        return ()
    return target.driver.boot.dhcp_options(target)


def _connected(target: Target) -> list[Nic]:
    """Return the ports of the machine that its agent gets: all, or those that boot from DHCP."""
    boots_from_network = target.driver.boot.has("dhcp_options")
    if target.options["neutron"]["add_all_ports"] or not boots_from_network:
        return list(target.nics)
    return [nic for nic in target.nics if nic.pxe_enabled]


def _created(service: "NetworkService", fields: Mapping[str, object]) -> dict[str, object]:
    """
    Create a port, or return the one that an earlier request has created without an answer.

    Raises Refused: names the port that has the MAC address.
    """
    try:
        return service.create(fields)
    except (Refused, Unexpected, Unreachable) as error:
        of_same_address = []
        with suppress(HardwareError):
            of_same_address = service.ports(
                network_id=fields["network_id"], mac_address=fields["mac_address"]
            )
        for port in of_same_address:
            if (port["device_owner"], port["device_id"]) == (OWNER, fields["device_id"]):
                return port
            raise Refused(
                f"{error} Port {port['id']} of device {port['device_id'] or 'none'}"
                f" ({port['device_owner'] or 'no owner'}) has MAC address {port['mac_address']}"
                " in this network: delete it, or detach it"
            ) from error
        raise
