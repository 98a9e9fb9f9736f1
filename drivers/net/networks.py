"""
Networks that conductors contact: for the URLs, agents and BMCs of nodes, and for webhooks.

Each has a pair of settings with allowed and denied networks. An IPv6 address that contains an IPv4
address is checked as both.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options

#: Settings of [agent] and of [bmc].
_OF_MACHINES = ("allowed_networks", "denied_networks")
#: Prefixes of IPv6 addresses that end with an IPv4 address: compatible and translated addresses
#: (RFC 4291, RFC 2765), NAT64 (RFC 6052, RFC 8215).
_ENDS_WITH_IPV4 = tuple(
    map(ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
)
#: NAT64 of a site, which may also have the IPv4 address after its 48 bits, around bits 64 to 71.
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
#: Third and fourth group of the interface identifiers that end with an IPv4 address (RFC 5214).
_ISATAP = (0x00005EFE, 0x02005EFE)

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Reach:
    """Networks that may be contacted for one purpose."""

    field: str  # field of the address, for errors
    allowed_by: str  # setting of `allowed`
    denied_by: str  # setting of `denied`
    allowed: tuple[str, ...]  # CIDR; empty: all but `denied`
    denied: tuple[str, ...]  # CIDR

    def refused_by(self, address: str) -> str | None:
        """
        Return the setting that refuses an IP address, or None if it may be contacted.

        Raises ValueError: it is no IP address.
        """
        addresses = _meanings(ip_address(address.partition("%")[0]))
        if any(
            candidate in network for candidate in addresses for network in _networks(self.denied)
        ):
            return self.denied_by
        allowed_networks = _networks(self.allowed)
        if allowed_networks and not any(
            candidate in network for candidate in addresses for network in allowed_networks
        ):
            return self.allowed_by
        return None

    def check(self, address: str) -> None:
        """
        Check an IP address that a connection leads to.

        Raises InvalidDriverInfo: a setting refuses it. The error does not disclose how a name
        resolves.
        """
        if setting := self.refused_by(address):
            raise InvalidDriverInfo(f"{self.field}: it leads to an address that {setting} refuses")

    def check_literal(self, host: str) -> None:
        """
        Check a host if it is an IP address; a name is only checked when it is resolved.

        Raises InvalidDriverInfo: a setting refuses the address.
        """
        try:
            ip_address(host.partition("%")[0])
        except ValueError:
            return
        self.check(host)

    def check_url(self, url: str) -> None:
        """
        Check the host of a URL if it is an IP address.

        Raises InvalidDriverInfo: a setting refuses the address.
        """
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:  # malformed: the caller refuses it with the reason
            return
        self.check_literal(host)


def of_urls(options: Options, field: str) -> Reach:
    """Return the reach of URLs of nodes: images, templates, calls of rules."""
    return _reach(options, field, "conductor", "fetch_allowed_networks", "fetch_denied_networks")


def of_webhooks(options: Options, *, project: bool) -> Reach:
    """Return the reach of the webhooks of projects, or of the system."""
    denied = "project_denied_networks" if project else "denied_networks"
    return _reach(options, "url", "webhooks", "allowed_networks", denied)


def of_agents(options: Options) -> Reach:
    """Return the reach of agents."""
    return _reach(options, "callback_url", "agent", *_OF_MACHINES)


def of_bmcs(options: Options, field: str) -> Reach:
    """Return the reach of BMCs. field: of `driver_info`, with the address."""
    return _reach(options, f"driver_info/{field}", "bmc", *_OF_MACHINES)


def _reach(options: Options, field: str, group: str, allowed_setting: str, denied: str) -> Reach:
    values = options[group]
    return Reach(
        field,
        f"[{group}]{allowed_setting}",
        f"[{group}]{denied}",
        tuple(values[allowed_setting]),
        tuple(values[denied]),
    )


def parse(cidrs: Iterable[str]) -> list[_Network]:
    """Parse networks in CIDR notation. Raises ValueError: names the wrong one."""
    return [_network(cidr) for cidr in cidrs]


def _network(cidr: str) -> _Network:
    try:
        return ip_network(cidr)
    except ValueError:
        pass
    try:
        network = ip_network(cidr, strict=False)
    except ValueError:
        raise ValueError(
            f"{cidr!r} is not a network: expected one such as 192.0.2.0/24 or 2001:db8::/32"
        ) from None
    raise ValueError(f"{cidr!r} is an address in the network {network}: expected {network}")


@lru_cache(maxsize=16)
def _networks(cidrs: tuple[str, ...]) -> list[_Network]:
    return parse(cidrs)


def _meanings(address: _Address) -> list[_Address]:
    """Return an address, and the IPv4 addresses in it."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    number, inner = int(address), [*filter(None, (address.sixtofour,)), *(address.teredo or ())]
    ends = any(address in network for network in _ENDS_WITH_IPV4) and number > 1
    if ends or (number >> 32 & 0xFFFFFFFF) in _ISATAP:
        inner.append(IPv4Address(number & 0xFFFFFFFF))
    if address in _LOCAL_NAT64:
        inner.append(IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF))
    return [address, *inner]
