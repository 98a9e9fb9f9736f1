"""
Wiring: the switch ports of a machine, the modes that they shall have, and the orders for them.

An order reads a port, changes it if it differs, and reads it back: a mode that this module reports
was seen at the switch. An order that died anywhere is given again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from drivers.core.errors import InvalidDriverInfo, NotFound, WithoutEffect
from drivers.core.switching import Switch
from drivers.core.target import Nic, Target
from drivers.switch import port_modes, sessions
from drivers.switch.port_modes import ABSENT, PortMode

#: Key of `internal_info` of a port: the last order for its switch port, which was seen there.
ORDERED = "switch_port"
#: Key of `internal_info` of a port: a sentence about a later change of its switch port.
DRIFT = "switch_drift"
#: Group of settings.
GROUP = "switch"
#: Names of switch ports. They become a part of commands, and LLDP packets may be forged.
_PORT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9/_.:-]{0,62}( [0-9][0-9/.:]{0,20})?")


@dataclass(frozen=True, slots=True)
class Place:
    """A port of a machine, and its switch port."""

    nic: Nic
    switch: Switch
    port: str  # name of the switch port

    def __str__(self) -> str:
        return f"{self.switch.name} {self.port}"


def places(target: Target) -> list[Place]:
    """
    Return the ports of the machine that are wired, with their switch ports.

    Raises InvalidDriverInfo: a `local_link_connection` names no switch port of the service.
    """
    return [place(target, nic) for nic in target.nics if nic.local_link_connection]


def place(target: Target, nic: Nic) -> Place:
    """
    Return a port of the machine with its switch port.

    Raises InvalidDriverInfo: its `local_link_connection` names no switch, no port of it, one that
        the service may not configure, or one that another node has, too.
    """
    link, subject = nic.local_link_connection, f"local_link_connection of port {nic.uuid}"
    switch = target.switched_networks.switch(link)
    if switch is None:
        raise InvalidDriverInfo(
            f"{subject}: no switch at /v1/switches has the switch_id {link.get('switch_id')!r}, or"
            " the name in switch_info"
        )
    name = str(link.get("port_id") or "")
    if not _PORT_NAME.fullmatch(name):
        raise InvalidDriverInfo(
            f"{subject}: port_id {name[:80]!r} is not the name of a switch port, such as"
            " Ethernet1/7"
        )
    if not any(fnmatchcase(name, pattern) for pattern in switch.ports):
        raise InvalidDriverInfo(
            f"{subject}: port_id {name} is none of the ports of switch {switch.name} that the"
            f" service may configure: {', '.join(switch.ports)}"
        )
    if claims := target.switched_networks.claims(link):
        raise InvalidDriverInfo(
            f"{subject}: {', '.join(claims)} has a port at {switch.name} {name}, too; correct one"
            " of them"
        )
    return Place(nic, switch, name)


def order(target: Target, modes: Mapping[str, PortMode], networks: Mapping[str, str]) -> list[str]:
    """
    Give the switch ports of the machine their modes, and report them; return them in words.

    modes: by the UUID of the machine's port. networks: UUID of the machine's port -> name or UUID
    of its network, if it is in one.

    Raises Unreachable, Refused, WithoutEffect: of the switch; LeaseLost.
    """
    summaries = []
    wired_places = [place(target, nic) for nic in target.nics if nic.uuid in modes]
    for switch, switch_places in _by_switch(wired_places):
        wanted_modes = {item.port: modes[item.nic.uuid] for item in switch_places}
        sessions.run(
            switch,
            target.options[GROUP],
            partial(
                carry_out,
                modes=wanted_modes,
                before_order=target.before_order,
                save=target.resumed,
            ),
        )
        for item in switch_places:
            mode = modes[item.nic.uuid]
            network = networks.get(item.nic.uuid)
            record = {"switch": switch.name, "port": item.port, "mode": mode.document()}
            target.report(
                port_internal_info={item.nic.uuid: {
                    ORDERED: record | ({"network": network} if network else {}), DRIFT: None,
                }}
            )  # fmt: skip
            summaries.append(f"{item}: {mode}")
    return summaries


def carry_out(
    session: sessions.SwitchSession,
    modes: Mapping[str, PortMode],
    before_order: Callable[[], None],
    *,
    save: bool,
) -> None:
    """
    Give ports of a switch their modes, stage by stage, and read each stage back.

    save: save the configuration also if no port has changed: an attempt before this one may have
    died in between.

    Raises WithoutEffect: a port has another mode than the commands should have given it.
    """
    ports = sorted(modes)
    current = session.dialect.read(session, ports)
    differing = {port: modes[port] for port in ports if current[port] != modes[port]}
    if differing:
        for stage in session.dialect.stages(session, differing, current):
            before_order()
            session.configure(stage.commands)
            modes_now = session.dialect.read(session, sorted(stage.expected))
            for port, mode in stage.expected.items():
                if modes_now[port] != mode:
                    raise WithoutEffect(
                        f"Switch {session.switch.name} has accepted the commands for port {port},"
                        f" which has {modes_now[port]} and not {mode}"
                    )
    if session.switch.saves and session.dialect.needs_save and (differing or save):
        before_order()
        session.save()


def read(options: Mapping[str, Any], switch: Switch, ports: Iterable[str]) -> dict[str, PortMode]:
    """
    Return the modes of ports of a switch; `ABSENT` for those that it does not have.

    options: settings [switch]. Raises Unreachable, Refused, Unexpected.
    """
    return sessions.run(switch, options, partial(_read, ports=sorted(set(ports))))


def _read(session: sessions.SwitchSession, ports: Sequence[str]) -> dict[str, PortMode]:
    try:
        return session.dialect.read(session, ports)
    except NotFound:
        if len(ports) == 1:
            return {ports[0]: ABSENT}
        return {port: mode for name in ports for port, mode in _read(session, [name]).items()}


def drift(ordered: Mapping[str, Any], mode: PortMode) -> str | None:
    """
    Describe how a switch port differs from its order; None: it does not.

    ordered: as reported under `ORDERED`.
    """
    ordered_port_mode = port_modes.from_document(ordered["mode"])
    if mode == ordered_port_mode:
        return None
    network = f" (network {ordered['network']})" if ordered.get("network") else ""
    return (
        f"{ordered['switch']} {ordered['port']} has {mode}, and {ordered_port_mode}{network} was"
        " ordered"
    )


def inspected(target: Target, modes: Mapping[str, PortMode] | None = None) -> list[dict[str, Any]]:
    """
    Compare the switch ports of the machine with modes, and change nothing.

    modes: by the UUID of the machine's port; None: those that were ordered last.

    Returns for each wired port {port_uuid, switch, port_id, ordered, actual, commands}; commands:
    those that would be sent to the switch to give the port its mode.
    """
    documents = []
    for switch, switch_places in _by_switch(places(target)):
        wanted_modes = {
            item.port: ordered_mode(item.nic) if modes is None else modes.get(item.nic.uuid)
            for item in switch_places
        }
        actual, commands = sessions.run(
            switch, target.options[GROUP], partial(_rehearsed, modes=wanted_modes)
        )
        for item in switch_places:
            mode = wanted_modes[item.port]
            documents.append({
                "port_uuid": item.nic.uuid,
                "switch": switch.name,
                "port_id": item.port,
                "ordered": None if mode is None else str(mode),
                "actual": str(actual[item.port]),
                "agrees": mode is None or actual[item.port] == mode,
                "commands": commands[item.port],
            })  # fmt: skip
    return documents


def ordered_mode(nic: Nic) -> PortMode | None:
    """Return the mode that was ordered last for a port of the machine; None: none was."""
    record = nic.internal_info.get(ORDERED)
    return port_modes.from_document(record["mode"]) if record else None


def _rehearsed(
    session: sessions.SwitchSession, modes: Mapping[str, PortMode | None]
) -> tuple[dict[str, PortMode], dict[str, list[str]]]:
    """Return the modes that ports have, and the commands that would give them others."""
    actual = session.dialect.read(session, sorted(modes))
    commands: dict[str, list[str]] = {}
    for port, mode in modes.items():
        differs = mode is not None and actual[port] != mode
        stages = session.dialect.stages(session, {port: mode}, actual) if differs and mode else ()
        commands[port] = [command for stage in stages for command in stage.commands]
    return actual, commands


def _by_switch(items: Sequence[Place]) -> list[tuple[Switch, list[Place]]]:
    """Group places by their switches, in the order of names: each switch has one session."""
    by_uuid: dict[str, tuple[Switch, list[Place]]] = {}
    for item in items:
        by_uuid.setdefault(item.switch.uuid, (item.switch, []))[1].append(item)
    return sorted(by_uuid.values(), key=lambda group: group[0].name)
