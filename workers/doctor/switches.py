"""
Checks of network interface `switch`: the networks of the settings, and the logins to switches.
"""

from collections.abc import Iterator

from sqlalchemy import select

from app.hardware import switching
from app.models import Network, Switch
from drivers.builtin import switch_ports
from drivers.core.errors import HardwareError
from drivers.core.vif_places import AGENT_VIFS
from workers.doctor.checks import Finding, Installation


def unusable(installation: Installation) -> Iterator[Finding]:
    """Find networks that the settings name and agents cannot use, and switches without a login."""
    if "switch" not in (installation.runtime.settings.default.enabled_network_interfaces or ()):
        return
    options = installation.runtime.settings.options()[switch_ports.GROUP]
    with installation.runtime.reading() as session:
        networks = list(session.scalars(select(Network)))
        switches = list(session.scalars(select(Switch).order_by(Switch.name)))
    for setting in (f"{purpose}_network" for purpose in AGENT_VIFS):
        if ident := options[setting]:
            network = next((row for row in networks if ident in (row.uuid, row.name)), None)
            if network is None:
                yield Finding(f"[switch]{setting}", f"there is no network {ident!r}: create it")
            elif network.public or network.owner is not None:
                yield Finding(f"[switch]{setting}", f"network {network.name} is one of tenants")
    for row in switches:
        try:
            switch_ports.read(options, switching.of_row(row), ())
        except HardwareError as error:
            yield Finding(f"switch {row.name}", str(error))
