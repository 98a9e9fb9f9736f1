"""IPMI: serial console over the network (SOL, IPMI 2.0 chapter 15), by the program `ipmitool`."""

import shutil
from typing import Any

from drivers.core.consoles import Program, ProgramConsole
from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.core.target import Target
from drivers.ipmi import credentials, ipmitool
from drivers.ipmi.credentials import Credentials

PORT = "ipmi_terminal_port"
#: Output of `ipmitool sol activate` when the BMC has accepted the session.
GREETING = b"[SOL Session operational"
#: Option of `ipmitool` that leaves it without an escape character, so that no input can end or
#: suspend it: the character is NUL, which no caller can type.
WITHOUT_ESCAPE = ("-e", "")


class IpmitoolSocat(ProgramConsole):
    """
    Serial over LAN of an IPMI BMC, by the program ipmitool.

    The conductor offers it at a TCP port, as Ironic does by the program socat.
    """

    name = "ipmitool-socat"
    properties = {
        **credentials.PROPERTIES,
        PORT: "TCP port of the console on its conductor; default is a free one of"
        " [console]port_range. Optional.",
    }

    def validate(self, target: Target) -> None:
        _credentials(target)
        _port(target)

    def program(self, target: Target) -> Program:
        return of_bmc(_credentials(target).resolved(), _port(target))


class IpmitoolShellinabox(IpmitoolSocat):
    """`ipmitool-socat` under the name of an interface of older releases of Ironic."""

    name = "ipmitool-shellinabox"


def of_bmc(bmc: Credentials, port: int | None = None) -> Program:
    """
    Return the program for the console of a BMC; it ends another session of the BMC's console first.

    A BMC has one session, which outlives a client that has died.

    Raises InvalidDriverInfo: the key of the BMC cannot be passed to the program.
    Raises NotSupported: the program is not installed.
    """
    if shutil.which(ipmitool.PROGRAM) is None:
        raise NotSupported(
            f"console: the program {ipmitool.PROGRAM} is not installed on this conductor"
        )
    login = (ipmitool.PROGRAM, *ipmitool.options(bmc))
    return Program(
        arguments=(*login, *WITHOUT_ESCAPE, "sol", "activate"),
        environment=ipmitool.environment(bmc),
        preparation=(*login, "sol", "deactivate"),
        greeting=GREETING,
        secrets=(bmc.password, bmc.kg.decode() if bmc.kg else ""),
        port=port,
    )


def _credentials(target: Target) -> Credentials:
    bmc = credentials.read(target)
    if bmc.protocol != "2.0":
        raise InvalidDriverInfo(
            "driver_info/ipmi_protocol_version: a console needs IPMI 2.0, as serial over LAN is a"
            " part of it"
        )
    return bmc


def _port(target: Target) -> int | None:
    value: Any = target.driver_info.get(PORT)
    if value in (None, ""):
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and 1024 <= int(text[:6]) <= 65535):
        raise InvalidDriverInfo(
            f"driver_info/{PORT}: must be a number from 1024 to 65535, not {value!r}"
        )
    return int(text)
