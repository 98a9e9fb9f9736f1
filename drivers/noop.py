"""
Interfaces that do nothing.

`no-*`: the node has no such thing, and asking for it is refused. `noop`: nothing has to be done.
"""

from drivers.core.errors import NotSupported
from drivers.core.interface import Interface
from drivers.core.kinds import (
    Bios,
    Console,
    Deploy,
    Firmware,
    Inspect,
    Management,
    Network,
    Raid,
    Rescue,
    Storage,
    Vendor,
)
from drivers.core.steps import Done, Outcome, step
from drivers.core.target import Target


class _Absent(Interface):
    """What the `no-*` interfaces share: they do not validate."""

    def validate(self, target: Target) -> None:
        raise NotSupported(
            f"Driver {target.driver.hardware_type} does not support {self.kind} (disabled or not"
            " implemented)."
        )


class NoBios(_Absent, Bios):
    name = "no-bios"


class NoConsole(_Absent, Console):
    name = "no-console"


class NoFirmware(_Absent, Firmware):
    name = "no-firmware"


class NoInspect(_Absent, Inspect):
    name = "no-inspect"


class NoRaid(_Absent, Raid):
    name = "no-raid"


class NoRescue(_Absent, Rescue):
    name = "no-rescue"


class NoVendor(_Absent, Vendor):
    name = "no-vendor"


class NoopDeploy(Deploy):
    """
    The machine runs what it runs: nothing is written, booted or erased.

    For machines that are only to be watched and switched.
    """

    name = "noop"

    @step(deploy=100)
    def deploy(self, target: Target) -> Outcome:
        """Accepted and not done."""
        return Done()


class NoopManagement(Management):
    """The machine boots what it boots; nothing is ordered."""

    name = "noop"

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        """Accepted and not done."""


class NoopNetwork(Network):
    """The machine stays on the network that it is on."""

    name = "noop"
    keeps_vifs = False


class NoopStorage(Storage):
    """The machine boots from its own disks."""

    name = "noop"
    uses_volumes = False
