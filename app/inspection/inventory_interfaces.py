"""Network interfaces of an inventory: those with a name and a MAC address, and their addresses."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from drivers.net.mac_addresses import station

Interface = dict[str, object]
_LOOPBACK = "lo"


def pxe_mac(inventory: Mapping[str, Any]) -> str | None:
    """Return the MAC address of the interface that booted; pxelinux prefixes it with 01-."""
    mac_text = str((inventory.get("boot") or {}).get("pxe_interface") or "").lower()
    if "-" in mac_text:
        mac_text = mac_text.partition("-")[2] if mac_text.count("-") > 5 else mac_text
        mac_text = mac_text.replace("-", ":")
    return mac_text or None


def interfaces_of(inventory: Mapping[str, Any]) -> tuple[dict[str, Interface], dict[str, str]]:
    """
    Return the interfaces with a name and the MAC address of a station, by name; and why others are
    ignored, by name.

    `pxe_enabled` of an interface: the machine booted from it, or the boot interface is unknown.
    """
    pxe = pxe_mac(inventory)
    usable: dict[str, Interface] = {}
    refused_interfaces: dict[str, str] = {}
    for interface in inventory.get("interfaces") or ():
        name = interface.get("name")
        if not name or name == _LOOPBACK:
            continue
        reported_mac = interface.get("mac_address")
        try:
            mac = station(reported_mac)
        except ValueError as error:
            if reported_mac:
                refused_interfaces[name] = f"its MAC address {str(reported_mac)[:64]!r} {error}"
            continue
        address = str(interface.get("ipv6_address") or "").partition("%")[0] or None
        usable[name] = {
            **interface,
            "mac_address": mac,
            "ipv6_address": address,
            "pxe_enabled": pxe is None or mac == pxe,
        }
    return usable, refused_interfaces


def reasons_of(refused_interfaces: Mapping[str, str]) -> str:
    """Return the refused interfaces with their reasons, for the end of a message."""
    return "".join(f"; {name}: {reason}" for name, reason in refused_interfaces.items())


def addresses_of(
    interface: Mapping[str, Any],
) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the IP addresses of an interface, without malformed ones."""
    addresses = []
    for name in ("ipv4_address", "ipv6_address"):
        try:
            addresses.append(ipaddress.ip_address(interface.get(name) or ""))
        except ValueError:
            continue
    return addresses


def is_local(interface: Mapping[str, object]) -> bool:
    """Whether an interface has an address of the loopback network."""
    return any(address.is_loopback for address in addresses_of(interface))
