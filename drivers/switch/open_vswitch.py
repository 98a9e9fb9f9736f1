"""
Dialect of Open vSwitch on Linux, by `ovs-vsctl`.

Each order is one transaction of its database: a port has either its old mode or its new one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from drivers.core.errors import NotFound, Unexpected
from drivers.switch.dialects import Dialect, Modes, Session, Stage
from drivers.switch.port_modes import DISCONNECTED, PortMode, ranges

#: VLAN that IEEE 802.1Q reserves: a trunk of it alone carries nothing.
_NO_VLAN = 4095


@dataclass(frozen=True, slots=True)
class _Port:
    """A port of a bridge, which has one interface, or several if it is a bond."""

    name: str
    bridge: str
    mode: PortMode
    interfaces: Mapping[str, str]  # name -> type


class OpenVswitch(Dialect):
    """Open vSwitch."""

    refusal = r"ovs-vsctl:|command not found"
    needs_save = False

    def read(self, session: Session, ports: Sequence[str]) -> dict[str, PortMode]:
        by_interface = _ports(session)
        for port in ports:
            if port not in by_interface:
                raise NotFound(f"Open vSwitch has no port {port}")
        return {port: by_interface[port].mode for port in ports}

    def stages(self, session: Session, modes: Modes, current: Modes) -> Iterator[Stage]:
        by_interface = _ports(session)
        transactions: list[list[str]] = []
        bundles: dict[int, list[str]] = {}
        for port, mode in modes.items():
            place = by_interface[port]
            if mode.lag is not None:
                bundles.setdefault(mode.lag, []).append(port)
            elif place.name == port:
                transactions.append([_setting(port, mode)])
            else:  # a member of a bond: it becomes a port again
                transactions.append([
                    _removal(place.name),
                    f"add-port {quote(place.bridge)} {quote(port)}",
                    _setting(port, mode),
                    *_type(place, port),
                ])  # fmt: skip
        for lag, members in bundles.items():
            places = {port: by_interface[port] for port in members}
            names = dict.fromkeys(place.name for place in places.values())
            setting = _setting(f"lag{lag}", modes[members[0]])
            if [*names] == [f"lag{lag}"]:
                transactions.append([setting])
                continue
            bridge = quote(places[members[0]].bridge)
            transactions.append([
                *map(_removal, names),
                f"add-bond {bridge} lag{lag} {' '.join(map(quote, members))} lacp=active",
                setting,
                *(part for port in members for part in _type(places[port], port)),
            ])  # fmt: skip
        commands = [f"ovs-vsctl --timeout=20 {' -- '.join(parts)}" for parts in transactions]
        yield Stage(commands, modes)


def _removal(name: str) -> str:
    return f"--if-exists del-port {quote(name)}"


def _type(place: _Port, interface: str) -> list[str]:
    """Return the command that gives an interface its type again, which a new port lacks."""
    name, kind = quote(interface), place.interfaces[interface]
    return [f"set interface {name} type={quote(kind)}"] if kind else []


def _setting(name: str, mode: PortMode) -> str:
    """Return the command that sets the VLANs of a port."""
    name = quote(name)
    if mode == DISCONNECTED:
        return f"set port {name} vlan_mode=trunk trunks={_NO_VLAN} 'tag=[]'"
    if not mode.tagged:
        return f"set port {name} vlan_mode=access tag={mode.vlan} 'trunks=[]'"
    vlans = ",".join(map(str, mode.tagged))
    if mode.vlan is None:
        return f"set port {name} vlan_mode=trunk trunks={vlans} 'tag=[]'"
    return f"set port {name} vlan_mode=native-untagged tag={mode.vlan} trunks={vlans}"


def _ports(session: Session) -> dict[str, _Port]:
    """Return the ports of all bridges by the names of their interfaces."""
    interfaces = {
        row["_uuid"]: (str(row["name"]), str(row["type"]))
        for row in _table(session, "interface", "_uuid,name,type")
    }
    bridges = {
        port: str(bridge["name"])
        for bridge in _table(session, "bridge", "name,ports")
        for port in _set(bridge["ports"])
    }
    by_interface = {}
    for row in _table(session, "port", "_uuid,name,interfaces,tag,trunks,vlan_mode,lacp"):
        members = dict(
            interfaces[ident] for ident in _set(row["interfaces"]) if ident in interfaces
        )
        port = _Port(str(row["name"]), bridges.get(row["_uuid"], ""), _mode(row), members)
        by_interface.update(dict.fromkeys(members, port))
    return by_interface


def _mode(row: Mapping[str, Any]) -> PortMode:
    tags, trunks = _set(row["tag"]), tuple(sorted(_set(row["trunks"])))
    vlan = tags[0] if tags else None
    kind = next(iter(_set(row["vlan_mode"])), "")
    name, lacp = str(row["name"]), _set(row["lacp"])
    digits = name.removeprefix("lag")
    lag = (
        int(digits) if name.startswith("lag") and digits.isdigit() and lacp == ["active"] else None
    )
    if kind == "trunk" and trunks == (_NO_VLAN,) and vlan is None:
        return PortMode(lag=lag, up=False)
    if kind in ("access", "") and vlan is not None and not trunks:
        return PortMode(vlan, lag=lag)
    if kind in ("trunk", "") and vlan is None and trunks:
        return PortMode(None, trunks, lag)
    if kind == "native-untagged" and vlan is not None and trunks:
        return PortMode(vlan, trunks, lag)
    if vlan is None and not trunks:
        return PortMode(other="a trunk of all VLANs")
    return PortMode(other=f"vlan_mode {kind or 'none'}, tag {vlan}, trunks {ranges(trunks)}")


def _table(session: Session, table: str, columns: str) -> list[dict[str, object]]:
    """Return the rows of a table, with UUIDs as texts."""
    output = session.show(f"ovs-vsctl --timeout=20 --format=json --columns={columns} list {table}")
    try:
        document = json.loads(output[output.index("{") : output.rindex("}") + 1])
        return [
            dict(zip(document["headings"], map(_value, row), strict=True))
            for row in document["data"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise Unexpected(f"ovs-vsctl list {table}: {output.strip()[:200]!r}") from error


def _value(value: object) -> object:
    """Return a value of OVSDB's JSON (RFC 7047): UUIDs as texts, sets as lists."""
    if isinstance(value, list) and len(value) == 2:
        kind, content = value
        if kind == "uuid":
            return content
        if kind == "set":
            return [_value(item) for item in content]
    return value


def _set(value: object) -> list[Any]:
    """Return the members of a set; OVSDB writes a set of one member as the member."""
    return value if isinstance(value, list) else [value]
