"""
Redfish: graphical console of a system, by a VNC server that has a documented way to it.

Redfish says in `GraphicalConsole` (schema ComputerSystem 1.13, and Manager before) that there is a
console, and names no protocol that a client could speak. So the ways are: a VNC server of the BMC
that the node's settings name, as those of iDRAC and iBMC; the one that OpenBMC has at its web
server; and a program of the operator's that shows the vendor's page (`[vnc]launcher`).
"""

import json
import shlex
import shutil
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from drivers.core.consoles import LOOPBACK, GraphicalConsole, Program, Screen, free_port
from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.core.references import is_reference
from drivers.core.target import Target
from drivers.net import tls
from drivers.net.child_environment import without_settings
from drivers.net.networks import of_bmcs
from drivers.redfish.interface import Redfish
from drivers.redfish.transport import access as accesses
from drivers.redfish.transport import client
from drivers.redfish.transport.access import Access, access
from drivers.redfish.transport.conversions import elements, entry, text
from drivers.redfish.transport.documents import Documents

HOST, PORT, PASSWORD, TLS = "vnc_host", "vnc_port", "vnc_password", "vnc_tls"
#: Model of the manager of OpenBMC, and path of its screen: RFB in a WebSocket.
OPENBMC, KVM = "OpenBmc", "/kvm/0"
#: Name of the console for containers that show vendors' pages, as Ironic passes it.
APP = "redfish-graphical"
#: Most bytes of a password of VNC authentication, which ignores further ones.
LONGEST_PASSWORD = 8


class RedfishGraphical(Redfish, GraphicalConsole):
    """
    Screen, keys and pointer of a machine, by a VNC server.

    It is that of `vnc_port`; else that of OpenBMC; else `[vnc]launcher` starts one. BMCs without
    any of them are refused.
    """

    name = "redfish-graphical"
    properties = {
        **accesses.PROPERTIES,
        PORT: "TCP port of the BMC's VNC server, such as 5901. Optional.",
        HOST: "Host of the VNC server; default is that of redfish_address. Optional.",
        PASSWORD: "Password of the VNC server, of at most 8 bytes. Optional.",
        TLS: "true: the VNC server speaks TLS, with a certificate as redfish_verify_ca says."
        " Default: false.",
    }

    def validate(self, target: Target) -> None:
        _of_settings(target, access(target))

    def screen(self, target: Target) -> Screen:
        bmc = access(target)
        if (screen := _of_settings(target, bmc)) is not None:
            return screen
        with client.turn(target, self.bmcs) as turn:
            documents = Documents(turn)
            system = entry(documents.system, "GraphicalConsole")
            managers = list(documents.members(documents.system, "Links", "ManagedBy"))
        if any(_has_kvm(manager) for manager in managers):
            return _of_openbmc(bmc)
        if launcher := target.options["vnc"]["launcher"]:
            return _launched(target, bmc, launcher)
        kinds = _kinds([system, *(entry(manager, "GraphicalConsole") for manager in managers)])
        names = f"names a graphical console ({kinds})" if kinds else "names no graphical console"
        raise NotSupported(
            f"BMC {bmc.address} {names}, and no protocol for it that is documented: set"
            f" driver_info/{PORT} if it has a VNC server, or [vnc]launcher"
        )


def _of_settings(target: Target, bmc: Access) -> Screen | None:
    """
    Return the VNC server that the settings of a node name; None: they name none.

    Raises InvalidDriverInfo: names the field.
    """
    info = target.driver_info
    password, host = info.get(PASSWORD), info.get(HOST)
    if password is not None and not (
        (isinstance(password, str) and 0 < len(password.encode()) <= LONGEST_PASSWORD)
        or is_reference(password)
    ):
        raise InvalidDriverInfo(
            f"driver_info/{PASSWORD}: must be a text of 1 to {LONGEST_PASSWORD} bytes, since VNC"
            " authentication ignores further ones"
        )
    if host is not None and not (isinstance(host, str) and host):
        raise InvalidDriverInfo(f"driver_info/{HOST}: must be a host name or an IP address")
    number = str(info.get(PORT) or "")
    if not number:
        if host or password:
            raise InvalidDriverInfo(
                f"driver_info/{PORT} is missing beside {HOST if host else PASSWORD}"
            )
        return None
    if not (number.isascii() and number.isdigit() and 0 < int(number[:6]) < 65536):
        raise InvalidDriverInfo(
            f"driver_info/{PORT}: must be a number from 1 to 65535, not {info[PORT]!r}"
        )
    uses_tls = tls.trust(info.get(TLS) or False)
    if not isinstance(uses_tls, bool):
        raise InvalidDriverInfo(f"driver_info/{TLS}: must be true or false, not {info[TLS]!r}")
    host = host or urlsplit(bmc.address).hostname or ""
    reach = of_bmcs(target.options, HOST if info.get(HOST) else "redfish_address")
    reach.check_literal(host)
    return Screen(host, int(number), password, bmc.verify if uses_tls else None, reach.check)


def _has_kvm(manager: Mapping[str, Any]) -> bool:
    """Whether a manager is OpenBMC's, with the screen at its web server, and not switched off."""
    console = entry(manager, "GraphicalConsole")
    is_enabled = entry(console, "ServiceEnabled") is not False
    return text(entry(manager, "Model")) == OPENBMC and console is not None and is_enabled


def _of_openbmc(bmc: Access) -> Screen:
    url = urlsplit(bmc.address)
    uses_tls = url.scheme == "https"
    port = url.port or (443 if uses_tls else 80)
    login = (bmc.username, bmc.password or "") if bmc.username else None
    verify = bmc.verify if uses_tls else None
    host = url.hostname or ""
    return Screen(host, port, None, verify, bmc.reach.check, path=KVM, login=login)


def _launched(target: Target, bmc: Access, launcher: str) -> Screen:
    """
    Return the server that the operator's program starts.

    Raises NotSupported: it is not installed.
    """
    port = free_port()
    words = [
        word.replace("{port}", str(port)).replace("{node}", target.uuid)
        for word in shlex.split(launcher)
    ]
    if shutil.which(words[0]) is None:
        raise NotSupported(f"[vnc]launcher: the program {words[0]} is not on this conductor")
    info = {
        "address": bmc.address,
        "root_prefix": bmc.root,
        "system_id": bmc.system,
        "username": bmc.username,
        "password": bmc.password,
        "verify_ca": bmc.verify,
        "auth_type": bmc.auth,
        "node_uuid": target.uuid,
    }
    environment = {**without_settings(), "APP": APP, "APP_INFO": json.dumps(info)}
    program = Program(tuple(words), environment, secrets=(bmc.password or "",))
    return Screen(LOOPBACK, port, program=program)


def _kinds(consoles: list[object]) -> str:
    """Return the kinds of graphical consoles that a BMC names, as far as they are texts."""
    kinds: dict[str, None] = {}
    for console in consoles:
        names = elements(console, "ConnectTypesSupported")
        kinds |= dict.fromkeys(kind[:40] for kind in names if isinstance(kind, str))
    return ", ".join(list(kinds)[:5])
