"""
Checks of systems beside the service: the vault, Neutron's networks, power updates for Nova, and for
network interface `switch` the networks of the settings and the logins to switches.
"""

from collections.abc import Iterator

from sqlalchemy import select

from app.hardware import switching
from app.models import Network, PowerUpdateCursor, Switch
from drivers.builtin import switch_ports, unusable_networks
from drivers.core.errors import HardwareError, SecretsUnavailable
from drivers.core.vif_places import AGENT_VIFS
from drivers.net.vault import Missing
from workers.doctor.checks import Finding, Installation


def unusable_vault(installation: Installation) -> Iterator[Finding]:
    """Find a vault in which secrets cannot be created, read and destroyed."""
    vault = installation.runtime.vault
    if vault is None:
        return
    try:
        vault.examine()
    except SecretsUnavailable as error:
        yield Finding("[vault]", str(error))
    except Missing:
        yield Finding("[vault]", "a secret that was created cannot be read: is it a replica?")


def networks(installation: Installation) -> Iterator[Finding]:
    """Find a Neutron that does not answer, or that lacks a network of the settings."""
    enabled = installation.runtime.settings.default.enabled_network_interfaces or ()
    if not {"flat", "neutron"}.intersection(enabled):
        return
    options = installation.runtime.settings.options()["neutron"]
    for setting, reason in unusable_networks(options):
        yield Finding(f"[neutron]{setting}", reason)


def late_power_updates(installation: Installation) -> Iterator[Finding]:
    """Find changes of the power that Nova does not take."""
    if not installation.runtime.settings.nova.is_on:
        return
    with installation.runtime.reading() as session:
        error = session.scalar(select(PowerUpdateCursor.last_error))
    if error:
        yield Finding(
            "power updates",
            f"{error}. Until Nova takes them, it may switch machines back: see the settings [nova]",
        )


def unusable_switches(installation: Installation) -> Iterator[Finding]:
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
