"""Addresses of clients: of the connection, or as a trusted proxy in front reports it."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

FORWARDED = "HTTP_X_FORWARDED_FOR"
#: Variables of headers that a proxy adds, or passes on.
_OF_PROXIES = (FORWARDED, "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")
#: Address with a port, as some proxies add them: a client chooses its ports freely.
_WITH_PORT = re.compile(r"([\d.]+):\d+|\[([^]]*)\](?::\d+)?", re.ASCII)
#: Prefix of IPv6 addresses that counts as one client: a host chooses the rest freely.
IPV6_PREFIX = 64


class Clients:
    """Finds the client of a request. trusted: networks of proxies, whose header is believed."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted: list[IPv4Network | IPv6Network] = [
            ip_network(network) for network in trusted
        ]

    def key_of(self, environ: Mapping[str, object]) -> str:
        """Return the client's address, of an IPv6 address the network."""
        client_address = self.address_of(environ)
        try:
            address = ip_address(client_address)
        except ValueError:
            return client_address[:IPV6_PREFIX]
        if isinstance(address, IPv6Address):
            return str(ip_network((int(address), IPV6_PREFIX), strict=False))
        return client_address

    def address_of(self, environ: Mapping[str, object]) -> str:
        """
        Return the client's address.

        X-Forwarded-For is read from its end, as long as the address before is a trusted proxy's:
        clients can forge all other entries.
        """
        chain = _chain(environ)
        client_address = _unmapped(environ.get("REMOTE_ADDR") or "")
        while chain and self._is_trusted(client_address):
            client_address = chain.pop()
        return _unmapped(client_address)

    def sender_of(self, environ: Mapping[str, object]) -> str | None:
        """
        Return the address that no other client can have, if the request tells it.

        That is the address of the connection, if no proxy was passed, or the one that a trusted
        proxy has added. A trusted proxy that adds none passes on its clients' headers: a client
        without headers, as agents are, then cannot be distinguished from another one.
        """
        peer = _unmapped(environ.get("REMOTE_ADDR") or "")
        if self._is_trusted(peer):
            if not _chain(environ):
                return None
        elif any(environ.get(name) for name in _OF_PROXIES):
            return None
        try:
            return str(ip_address(self.address_of(environ)))
        except ValueError:
            return None

    def _is_trusted(self, text: str) -> bool:
        try:
            address = ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self._trusted)


def _chain(environ: Mapping[str, Any]) -> list[str]:
    """Return the addresses in X-Forwarded-For, without ports, the nearest client last."""
    entries = (entry.strip() for entry in environ.get(FORWARDED, "").split(","))
    return [_without_port(entry) for entry in entries if entry]


def _without_port(entry: str) -> str:
    match = _WITH_PORT.fullmatch(entry)
    return match[1] or match[2] if match else entry


@lru_cache(maxsize=1024)
def _unmapped(text: str) -> str:
    """Return the IPv4 address inside of an IPv6 address; any other text unchanged."""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return text
