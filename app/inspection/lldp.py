"""
Parser for the LLDP packets that the ramdisk has captured from switches.

A packet is a list of [type, value in hex]. Truncated or malformed values are ignored.
"""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

#: One fact of a packet: name, value, and whether a packet may have several of this name.
Fact = tuple[str, object, bool]
Parser = Callable[[bytes], Iterable[Fact]]

#: OUIs of organizationally specific values (type 127).
_DOT1, _DOT3 = bytes.fromhex("0080c2"), bytes.fromhex("00120f")
_CAPABILITIES = (
    "Repeater", "Bridge", "WLAN", "Router", "Telephone", "DOCSIS cable device", "Station only",
    "C-Vlan", "S-Vlan", "TPMR",
)  # fmt: skip
#: Media that a port can negotiate, by bit, from the second highest one down.
_MEDIA = (
    "10BASE-T hdx", "10BASE-T fdx", "10BASE-T4", "100BASE-TX hdx", "100BASE-TX fdx",
    "100BASE-T2 hdx", "100BASE-T2 fdx", "PAUSE fdx", "Asym PAUSE fdx", "Sym PAUSE fdx",
    "Asym and Sym PAUSE fdx", "1000BASE-X hdx", "1000BASE-X fdx", "1000BASE-T hdx",
    "1000BASE-T fdx",
)  # fmt: skip
#: Medium in use, by number (RFC 4836, dot3MauType).
_MAU = (
    "Unknown", "AUI", "10BASE-5", "FOIRL", "10BASE-2", "10BASE-T duplex mode unknown", "10BASE-FP",
    "10BASE-FB", "10BASE-FL duplex mode unknown", "10BROAD36", "10BASE-T half duplex",
    "10BASE-T full duplex", "10BASE-FL half duplex", "10BASE-FL full duplex", "100 BASE-T4",
    "100BASE-TX half duplex", "100BASE-TX full duplex", "100BASE-FX half duplex",
    "100BASE-FX full duplex", "100BASE-T2 half duplex", "100BASE-T2 full duplex",
    "1000BASE-X half duplex", "1000BASE-X full duplex", "1000BASE-LX half duplex",
    "1000BASE-LX full duplex", "1000BASE-SX half duplex", "1000BASE-SX full duplex",
    "1000BASE-CX half duplex", "1000BASE-CX full duplex", "1000BASE-T half duplex",
    "1000BASE-T full duplex", "10GBASE-X", "10GBASE-LX4", "10GBASE-R", "10GBASE-ER", "10GBASE-LR",
    "10GBASE-SR", "10GBASE-W", "10GBASE-EW", "10GBASE-LW", "10GBASE-SW", "10GBASE-CX4", "2BASE-TL",
    "10PASS-TS", "100BASE-BX10D", "100BASE-BX10U", "100BASE-LX10", "1000BASE-BX10D",
    "1000BASE-BX10U", "1000BASE-LX10", "1000BASE-PX10D", "1000BASE-PX10U", "1000BASE-PX20D",
    "1000BASE-PX20U",
)  # fmt: skip


def facts(packet: Iterable[Any]) -> dict[str, Any]:
    """
    Return the facts of a packet by Ironic's names (`switch_port_id`, ...); the first of a name
    wins.
    """
    facts_by_name: dict[str, Any] = {}
    for name, value, repeatable in _facts(packet):
        if repeatable:
            facts_by_name.setdefault(name, []).append(value)
        else:
            facts_by_name.setdefault(name, value)
    return facts_by_name


def neighbour(packet: Iterable[Any]) -> dict[str, str]:
    """
    Return the switch and port that sent a packet, as fields of a port's local_link_connection.
    """
    facts_by_name = facts(packet)
    return {
        key: facts_by_name[name]
        for key, name in (
            ("switch_id", "switch_chassis_id"),
            ("port_id", "switch_port_id"),
            ("switch_info", "switch_system_name"),
        )
        if facts_by_name.get(name)
    }


def _facts(packet: Iterable[Any]) -> Iterator[Fact]:
    for item in packet:
        try:
            kind, text = item
            yield from list(_PARSERS[kind](bytes.fromhex(text)))
        except (ValueError, TypeError, LookupError):
            continue


def _identity(name: str, mac: int, address: int) -> Parser:
    """Return the parser of an identifier. mac, address: subtypes that are no text."""

    def parse(value: bytes) -> Iterator[Fact]:
        if value[0] == mac:
            yield name, _address(6, value[1:]), False
        elif value[0] == address:
            yield name, _address(value[1], value[2:]), False
        else:
            yield name, _text(value[1:]), False

    return parse


def _address(family: int, value: bytes) -> str:
    """Return an address of a family: IPv4, IPv6 or MAC. Raises LookupError, ValueError."""
    length = {1: 4, 2: 16, 6: 6}[family]
    if len(value) < length:
        raise ValueError("truncated")
    value = value[:length]
    return value.hex(":") if family == 6 else str(ipaddress.ip_address(value))


def _text(value: bytes, *, lines: bool = False) -> str:
    text = value.decode("utf-8")
    if not ("".join(text.split()) if lines else text).isprintable():
        raise ValueError("no text")
    return text


def _texts(name: str, *, lines: bool = False) -> Parser:
    return lambda value: [(name, _text(value, lines=lines), False)]


def _number(name: str) -> Parser:
    return lambda value: [(name, _uint(value, 2), False)]


def _uint(value: bytes, length: int) -> int:
    if len(value) < length:
        raise ValueError("truncated")
    return int.from_bytes(value[:length], "big")


def _capabilities(value: bytes) -> Iterator[Fact]:
    for kind, flags in (("support", _uint(value, 2)), ("enabled", _uint(value[2:], 2))):
        capability_names = [name for bit, name in enumerate(_CAPABILITIES, 1) if flags >> bit & 1]
        yield f"switch_capabilities_{kind}", capability_names, False


def _management_address(value: bytes) -> Iterator[Fact]:
    yield "switch_mgmt_addresses", _address(value[1], value[2:]), True


def _protocol_vlan(value: bytes) -> Iterator[Fact]:
    yield "switch_port_protocol_vlan_enabled", bool(value[0] & 4), False
    yield "switch_port_protocol_vlan_support", bool(value[0] & 2), False
    yield "switch_port_protocol_vlan_ids", _uint(value[1:], 2), True


def _vlan(value: bytes) -> Iterator[Fact]:
    name = _text(value[3 : 3 + value[2]])
    yield "switch_port_vlans", {"name": name, "id": _uint(value, 2)}, True


def _protocol(value: bytes) -> Iterator[Fact]:
    yield "switch_protocol_identities", value[1 : 1 + value[0]].hex(), True


def _aggregation(value: bytes) -> Iterator[Fact]:
    number = _uint(value[1:], 4)
    yield "switch_port_link_aggregation_enabled", bool(value[0] & 2), False
    yield "switch_port_link_aggregation_support", bool(value[0] & 1), False
    yield "switch_port_link_aggregation_id", number, False


def _medium(value: bytes) -> Iterator[Fact]:
    bits, mau = _uint(value[1:], 2), _MAU[_uint(value[3:], 2)]
    media = sorted(name for bit, name in enumerate(_MEDIA) if bits >> 14 - bit & 1)
    yield "switch_port_autonegotiation_enabled", bool(value[0] & 2), False
    yield "switch_port_autonegotiation_support", bool(value[0] & 1), False
    yield "switch_port_physical_capabilities", media, False
    yield "switch_port_mau_type", mau, False


def _of_organization(value: bytes) -> Iterable[Fact]:
    return _OF_ORGANIZATIONS[value[:3], value[3]](value[4:])


_OF_ORGANIZATIONS: Mapping[tuple[bytes, int], Parser] = {
    (_DOT1, 1): _number("switch_port_untagged_vlan_id"),
    (_DOT1, 2): _protocol_vlan,
    (_DOT1, 3): _vlan,
    (_DOT1, 4): _protocol,
    (_DOT1, 6): _number("switch_port_management_vlan_id"),
    (_DOT1, 7): _aggregation,
    (_DOT3, 1): _medium,
    (_DOT3, 3): _aggregation,
    (_DOT3, 4): _number("switch_port_mtu"),
}
_PARSERS: Mapping[int, Parser] = {
    1: _identity("switch_chassis_id", 4, 5),
    2: _identity("switch_port_id", 3, 4),
    4: _texts("switch_port_description"),
    5: _texts("switch_system_name"),
    6: _texts("switch_system_description", lines=True),
    7: _capabilities,
    8: _management_address,
    127: _of_organization,
}
