"""
The programs of the server with their files: dnsmasq, twice, for DHCP and for TFTP, whose transfers
go on while the first one starts again.

Files of settings are written when the programs start, and the known machines whenever they change.
Then the programs that use them get a signal, and those that end by it are started again.
"""

import getpass
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from drivers.builtin import dnsmasq, machine_files
from drivers.core.target import Options
from workers.dhcp.known_machines import KnownMachine

Command = Sequence[str]

#: Program -> signal after which it uses the known machines that were written last. It starts again
#: for each change: releases up to 2.90 crash when they read the file of machines again (SIGHUP)
#: after they have served one of them, as its tags are freed twice.
RENEWAL: Mapping[str, signal.Signals] = {"dhcp": signal.SIGTERM}


def prepare(folder: Path, options: Options) -> Mapping[str, Command]:
    """Write the settings to a folder; return the command of each program. Raises OSError."""
    machine_files.tftp_root(options).mkdir(parents=True, exist_ok=True)
    texts = {
        "dhcp": dnsmasq.dhcp_server(options, str(_hosts(folder)), str(folder / "leases")),
        "tftp": dnsmasq.tftp_server(options),
    }
    commands = {}
    for name, text in texts.items():
        path = folder / f"{name}.conf"
        machine_files.write(path, text)
        commands[name] = [
            options["dhcp_server"]["program"],
            "--keep-in-foreground",
            f"--conf-file={path}",
            "--pid-file=",
            "--log-facility=-",
            f"--user={getpass.getuser()}",  # as the files are private to the service's user
        ]
    return commands


def write(folder: Path, machines: Sequence[KnownMachine]) -> None:
    """Write the known machines atomically. Raises OSError."""
    lines = (f"{dnsmasq.host_line(*machine)}\n" for machine in machines)
    machine_files.write(_hosts(folder), "".join(lines))


def _hosts(folder: Path) -> Path:
    return folder / "hosts"
