"""
Known machines: the ports of nodes, each with its way to boot and its fixed address.

An address is fixed by `network_data` of the node: that of the IPv4 network on the link with the
port's MAC address.
"""

from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import Any, NamedTuple

from sqlalchemy import select

from app.models import Node, Port
from app.observe import log
from app.runtime import Runtime
from drivers.core.errors import HardwareError

logger = log.get(__name__)
seldom = log.RateLimited(logger)


class KnownMachine(NamedTuple):
    """A port of a node."""

    mac: str
    boot: str | None  # `Boot.dhcp_boot` of its node; None: it does not boot from this port
    address: str | None  # fixed; None: one of the ranges


def read(runtime: Runtime) -> list[KnownMachine]:
    """
    Return the ports of the nodes in the conductor group of this conductor, by MAC address.

    Raises SQLAlchemyError.
    """
    query = (
        select(
            Port.address, Port.pxe_enabled, Node.driver, Node.boot_interface, Node.network_data,
            Node.uuid,
        )
        .join(Node, Node.id == Port.node_id)
        .where(Node.conductor_group == runtime.settings.conductor.conductor_group)
        .order_by(Port.address)
    )  # fmt: skip
    machines, holders = [], dict[str, str]()
    with runtime.reading() as session:
        for row in session.execute(query):
            address = fixed_address(row.network_data, row.address)
            if address is not None and holders.setdefault(address, row.uuid) != row.uuid:
                seldom.warning(
                    "dhcp.address_taken", node=row.uuid, address=address, holder=holders[address]
                )
                address = None
            boot = _boot(runtime, row.driver, row.boot_interface) if row.pxe_enabled else None
            machines.append(KnownMachine(row.address, boot, address))
    return machines


def fixed_address(network_data: Mapping[str, Any], mac: str) -> str | None:
    """Return the IPv4 address that a node's network_data gives to a MAC address, if it has one."""
    links = {
        link.get("id")
        for link in network_data.get("links") or ()
        if str(link.get("ethernet_mac_address", "")).lower() == mac
    }
    for network in network_data.get("networks") or ():
        if network.get("type") == "ipv4" and network.get("link") in links:
            try:
                return str(IPv4Address(str(network.get("ip_address", "")).partition("/")[0]))
            except AddressValueError:
                continue
    return None


def _boot(runtime: Runtime, driver: str, interface: str | None) -> str | None:
    try:
        boot = runtime.drivers.driver(driver, {"boot": interface}).boot
    except HardwareError:  # not loaded here: another conductor has it
        return None
    return boot.dhcp_boot
