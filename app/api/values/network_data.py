"""Validation of `network_data`, OpenStack's document of links, networks and services."""

from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from marshmallow import ValidationError

from app.agents.lookup import normalize_mac

Check = Callable[[object], bool]
Checks = Mapping[str, Check]


def _text(value: object) -> bool:
    return isinstance(value, str)


def _number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _mac(value: Any) -> bool:
    return _text(value) and ":" in value.replace("-", ":") and normalize_mac(value) is not None


def _mtu(value: Any) -> bool:
    return value is None or (_number(value) and 1 <= value <= 65535)


def _one_of(*words: str) -> Check:
    return lambda value: value in words


def _address(kind: type[IPv4Address | IPv6Address]) -> Check:
    def check(value: object) -> bool:
        try:
            return _text(value) and bool(kind(value))
        except ValueError:
            return False

    return check


def _list_of(item: Check) -> Check:
    return lambda value: isinstance(value, list) and all(item(member) for member in value)


_V4, _V6 = _address(IPv4Address), _address(IPv6Address)
_NAMED = {"id": _text, "type": _text}
_BOND_MODES = (
    "802.3ad", "balance-rr", "active-backup", "balance-xor", "broadcast", "balance-tlb",
    "balance-alb",
)  # fmt: skip
_PLAIN = {**_NAMED, "ethernet_mac_address": _mac}
_BOND = {**_PLAIN, "bond_mode": _one_of(*_BOND_MODES), "bond_links": _list_of(_text)}
_VLAN = {**_NAMED, "vlan_mac_address": _mac, "vlan_link": _text, "vlan_id": _number}
_PLAIN_TYPES = ("bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif", "phy")
_NETWORK = {**_NAMED, "link": _text, "network_id": _text}
_ROUTE = ("network", "netmask", "gateway")


def _route(address: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(address(value.get(key)) for key in _ROUTE)


def _optional(address: Check) -> Checks:
    return {"ip_address": address, "netmask": address, "routes": _list_of(_route(address))}


#: section -> type of its items -> checks of their required and optional members
_SECTIONS: Mapping[str, Mapping[str, tuple[Checks, Checks]]] = {
    "links": {
        **{name: (_PLAIN, {"mtu": _mtu, "vif_id": _text}) for name in _PLAIN_TYPES},
        "bond": (_BOND, {"mtu": _mtu, "vif_id": _text}),
        "vlan": (_VLAN, {"mtu": _mtu, "vif_id": _text}),
    },
    "networks": {
        **{name: (_NETWORK, _optional(_V4)) for name in ("ipv4", "ipv4_dhcp")},
        **{name: (_NETWORK, _optional(_V6)) for name in ("ipv6", "ipv6_dhcp", "ipv6_slaac")},
    },
    "services": {"dns": ({"address": lambda value: _V4(value) or _V6(value)}, {})},
}


def check(document: Mapping[str, Any]) -> None:
    """
    Check that a document is empty, or complete and valid.

    Raises ValidationError.
    """
    if not document:
        return
    for name in document.keys() - _SECTIONS.keys():
        raise ValidationError(f"{name!r} is not one of {', '.join(_SECTIONS)}.")
    for section, types in _SECTIONS.items():
        items = document.get(section)
        if not isinstance(items, list):
            raise ValidationError(f"{section} is required, a list.")
        for index, item in enumerate(items):
            for problem in _problems(item, types):
                raise ValidationError(f"{section}/{index}: {problem}.")


def _problems(item: Any, types: Mapping[str, tuple[Checks, Checks]]) -> Iterator[str]:
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str) or kind not in types:
        yield f"an object is required whose type is one of {', '.join(types)}"
        return
    required, optional = types[kind]
    for name, is_valid in {**required, **optional}.items():
        if name not in item and name in required:
            yield f"{name} is missing"
        elif name in item and not is_valid(item[name]):
            yield f"{name}: {item[name]!r} is invalid"
