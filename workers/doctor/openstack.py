"""
Checks of services of OpenStack: Neutron's networks, and power updates for Nova.
"""

from collections.abc import Iterator

from sqlalchemy import select

from app.models import PowerUpdateCursor
from drivers.builtin import unusable_networks
from workers.doctor.checks import Finding, Installation


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
