"""
Checks of services of OpenStack: Neutron's networks, and power updates for Nova.
"""

from collections.abc import Iterator

from sqlalchemy import select

from app.models import PowerUpdateCursor
from drivers.core.errors import HardwareError
from drivers.neutron.interfaces import NETWORKS
from workers.doctor.checks import Finding, Installation


def networks(installation: Installation) -> Iterator[Finding]:
    """Find a Neutron that does not answer, or that lacks a network of the settings."""
    enabled = installation.runtime.settings.default.enabled_network_interfaces or ()
    if not {"flat", "neutron"}.intersection(enabled):
        return
    from drivers.neutron.service import connect  # imports openstacksdk's parts, which take long

    options = installation.runtime.settings.options()["neutron"]
    for setting, _ in NETWORKS.values():
        if not options[setting]:
            continue
        try:
            connect(options).network(str(options[setting]), f"[neutron]{setting}")
        except HardwareError as error:
            yield Finding(f"[neutron]{setting}", str(error))


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
