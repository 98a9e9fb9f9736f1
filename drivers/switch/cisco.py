"""
Dialect of Cisco IOS, and of switches with similar commands: NX-OS, Arista EOS.

A port is shut down while it is changed, and comes up once it was read back. So a port between two
networks, or one whose order was interrupted, carries nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from drivers.core.errors import NotFound, Unexpected
from drivers.switch.dialects import Dialect, Modes, Session, Stage
from drivers.switch.port_modes import PortMode, numbers, ranges

_CHANNEL_GROUP = re.compile(r"channel-group (\d+)\b.*")
_DEFAULT_VLAN = 1


class CiscoIos(Dialect):
    """Cisco IOS and IOS XE."""

    refusal = r"^\s*%\s*(Invalid|Incomplete|Ambiguous|Error|Bad|Unrecognized|Cannot)|rejected"
    #: mode of a port whose configuration names none
    default_mode: ClassVar[str] = "dynamic auto"

    def read(self, session: Session, ports: Sequence[str]) -> dict[str, PortMode]:
        return {port: self._mode(session, port) for port in ports}

    def stages(self, session: Session, modes: Modes, current: Modes) -> Iterator[Stage]:
        commands: list[str] = []
        for port, mode in modes.items():
            commands += [f"interface {port}", "shutdown"]
            if current[port].lag not in (None, mode.lag):
                commands.append("no channel-group")
            if mode.lag is None or current[port].lag != mode.lag:  # a member follows its LAG
                commands += _switchport(mode)
        lags = {mode.lag: mode for mode in modes.values() if mode.lag is not None}
        for lag, mode in lags.items():
            commands += [f"interface port-channel{lag}", "shutdown", *_switchport(mode)]
        for port, mode in modes.items():
            if mode.lag is not None and current[port].lag != mode.lag:
                commands += [f"interface {port}", f"channel-group {mode.lag} mode active"]
        yield Stage(commands, {port: replace(mode, up=False) for port, mode in modes.items()})
        upped_ports = [port for port, mode in modes.items() if mode.up]
        names = [*(f"port-channel{lag}" for lag in lags), *upped_ports]
        if names:
            yield Stage([c for name in names for c in (f"interface {name}", "no shutdown")], modes)

    def _mode(self, session: Session, port: str) -> PortMode:
        lines = self._lines(session, port)
        mode = self._parsed(port, lines)
        groups = filter(None, map(_CHANNEL_GROUP.fullmatch, lines))
        lag = next((int(group[1]) for group in groups), None)
        if lag is None:
            return mode
        name = f"port-channel{lag}"
        bundle = self._parsed(name, self._lines(session, name))
        return replace(bundle, lag=lag, up=mode.up and bundle.up)

    def _lines(self, session: Session, interface: str) -> list[str]:
        """Return the lines of the configuration of an interface."""
        output = session.show(f"show running-config interface {interface}")
        lines = [line.strip() for line in output.splitlines()]
        starts = [at for at, line in enumerate(lines) if line.lower().startswith("interface ")]
        if not starts:
            raise NotFound(
                f"the switch has no port {interface}: {output.strip()[:200] or 'silence'}"
            )
        return lines[starts[0] + 1 :]

    def _parsed(self, interface: str, lines: Sequence[str]) -> PortMode:
        if "no switchport" in lines:
            return PortMode(other="a routed port, not of a VLAN")
        values = _values(lines)
        up = "shutdown" not in lines
        mode = values.get("mode", self.default_mode)
        if mode == "access":
            access = values.get("access vlan")
            vlan = int(access) if access else _DEFAULT_VLAN if up else None
            return PortMode(vlan, up=up)
        if mode != "trunk":
            return PortMode(other=f"mode {mode}", up=up)
        if "trunk allowed vlan" not in values:
            return PortMode(other="a trunk of all VLANs", up=up)
        try:
            allowed = numbers(values["trunk allowed vlan"].replace("none", ""))
            native = int(values.get("trunk native vlan", _DEFAULT_VLAN))
        except ValueError as error:
            raise Unexpected(f"the VLANs of {interface} are not understood: {error}") from error
        return PortMode(
            native if native in allowed else None, tuple(sorted(allowed - {native})), up=up
        )


class CiscoNxos(CiscoIos):
    """Cisco NX-OS."""

    default_mode = "access"


class AristaEos(CiscoIos):
    """Arista EOS."""

    default_mode = "access"


def _switchport(mode: PortMode) -> list[str]:
    """Return the commands that set the VLANs of an interface."""
    if mode.tagged:
        vlans = ranges({*mode.tagged, *(() if mode.vlan is None else (mode.vlan,))})
        native = "switchport trunk native vlan"
        return [
            "switchport mode trunk",
            f"no {native}" if mode.vlan is None else f"{native} {mode.vlan}",
            f"switchport trunk allowed vlan {vlans}",
        ]
    access = "switchport access vlan"
    vlan = f"no {access}" if mode.vlan is None else f"{access} {mode.vlan}"
    return ["switchport mode access", vlan]


_SWITCHPORT = re.compile(
    r"switchport (mode|access vlan|trunk native vlan|trunk allowed vlan)( add)? (.+)"
)


def _values(lines: Sequence[str]) -> Mapping[str, str]:
    """Return the values of the commands `switchport`, by the rest of their names."""
    values: dict[str, str] = {}
    for line in lines:
        if match := _SWITCHPORT.fullmatch(line):
            name, added, value = match.groups()
            values[name] = f"{values[name]},{value}" if added and name in values else value
    return values
