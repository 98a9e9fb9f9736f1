"""
Redfish: serial console of a system, by the service that its BMC names in `SerialConsole`.

Redfish has no console of its own: `ComputerSystem.SerialConsole` names the ports of SSH and IPMI
(schema ComputerSystem 1.13), and the older `Manager.SerialConsole` only the kinds of services.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from drivers.core.consoles import Program, ProgramConsole
from drivers.core.errors import NotSupported
from drivers.core.target import Target
from drivers.ipmi import console as ipmi_console
from drivers.ipmi.credentials import Credentials
from drivers.net.child_environment import without_settings
from drivers.redfish.interface import Redfish
from drivers.redfish.transport import client
from drivers.redfish.transport.access import Access, access
from drivers.redfish.transport.conversions import entry, text
from drivers.redfish.transport.documents import Documents

SSH, IPMI = "SSH", "IPMI"
PORTS = {SSH: 22, IPMI: 623}
#: Printed by `LocalCommand` of `ssh` when the login has succeeded.
GREETING = "[SSH session operational]"
#: Program that `ssh` gets the password from; the variable that it prints.
ASKPASS, VARIABLE = Path(__file__).with_name("askpass.sh"), "BMC_PASSWORD"
#: Most characters of a command that enters the console.
LONGEST_COMMAND = 200


class RedfishSerial(Redfish, ProgramConsole):
    """
    Serial console that the BMC offers by SSH, or else by IPMI, as its documents say.

    The login is that of Redfish. The key of an SSH server is kept at the first connection of a
    conductor, and any other one is refused later.
    """

    name = "redfish-serial"

    def program(self, target: Target) -> Program:
        bmc_access = access(target)
        with client.turn(target, self.bmcs) as bmc:
            documents = Documents(bmc)
            system = entry(documents.system, "SerialConsole")
            managers = documents.members(documents.system, "Links", "ManagedBy")
            offers = services(system, [entry(manager, "SerialConsole") for manager in managers])
        if SSH in offers and shutil.which("ssh"):
            return _by_ssh(target, bmc_access, offers[SSH])
        if IPMI in offers:
            return _by_ipmi(bmc_access, offers[IPMI])
        if SSH in offers:
            raise NotSupported("console: the program ssh is not installed on this conductor")
        raise NotSupported(
            f"BMC {bmc_access.address} offers no serial console by SSH or IPMI in SerialConsole;"
            " its firmware may have it switched off"
        )


def services(system: object, managers: list[object]) -> dict[str, tuple[int, str]]:
    """
    Return kind of service -> (port, command that enters the console), of the usable ones.

    system: `SerialConsole` of the system. managers: those of its managers, for older BMCs.
    """
    offers = {}
    for kind, usual in PORTS.items():
        service = entry(system, kind)
        if entry(service, "ServiceEnabled") is True:
            port = entry(service, "Port")
            is_port = isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536
            command = text(entry(service, "ConsoleEntryCommand")) or ""
            offers[kind] = (port if is_port else usual, command)
    for console in managers:
        kinds = entry(console, "ConnectTypesSupported")
        if entry(console, "ServiceEnabled") is True and isinstance(kinds, list) and IPMI in kinds:
            offers.setdefault(IPMI, (PORTS[IPMI], ""))  # its SSH is a command line
    return offers


def _by_ipmi(bmc: Access, service: tuple[int, str]) -> Program:
    host = urlsplit(bmc.address).hostname or ""
    login = Credentials(
        host, service[0], bmc.username or "", bmc.password or "", reach=bmc.reach
    ).resolved()
    return ipmi_console.of_bmc(replace(login, cipher_suite=None))


def _by_ssh(target: Target, bmc: Access, service: tuple[int, str]) -> Program:
    """Raises NotSupported: the command that the BMC names cannot be passed on."""
    port, command = service
    host = urlsplit(bmc.address).hostname or ""
    if command and (
        not (command.isascii() and command.isprintable())
        or command.startswith("-")
        or len(command) > LONGEST_COMMAND
    ):
        raise NotSupported(
            f"BMC {bmc.address}: its ConsoleEntryCommand {command[:80]!r} is no command"
        )
    options: Mapping[str, Any] = {
        "UserKnownHostsFile": _known_hosts(target),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "accept-new",
        "PreferredAuthentications": "keyboard-interactive,password",
        "NumberOfPasswordPrompts": 1,
        "ConnectTimeout": 20,
        "ServerAliveInterval": 15,
        "ServerAliveCountMax": 3,
        "PermitLocalCommand": "yes",
        "LocalCommand": f"echo '{GREETING}'",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "LogLevel": "ERROR",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    user = ("-l", bmc.username) if bmc.username else ()
    arguments = ("ssh", "-F", "none", "-tt", "-e", "none", *words, "-p", str(port), *user, host)
    environment = {
        **without_settings(),
        "TERM": "vt100",
        "SSH_ASKPASS": str(ASKPASS),
        "SSH_ASKPASS_REQUIRE": "force",
        VARIABLE: bmc.password or "",
    }
    return Program(
        arguments=(*arguments, command) if command else arguments,
        environment=environment,
        greeting=GREETING.encode(),
        secrets=(bmc.password or "",),
    )


def _known_hosts(target: Target) -> Path:
    """Return the file with the keys of the node's BMC; its folder is created."""
    data = target.options["DEFAULT"]["data_dir"] or "/var/lib/ingot"
    folder = Path(data, "bmc_host_keys")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / target.uuid
