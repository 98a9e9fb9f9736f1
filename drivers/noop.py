"""
Interfaces that do nothing.

`no-*`: the node has no such thing, and asking for it is refused. `noop`: nothing has to be done.
"""

from drivers.errors import NotSupported
from drivers.interfaces import (
    Bios,
    Console,
    Firmware,
    Inspect,
    Interface,
    Management,
    Network,
    Raid,
    Rescue,
    Storage,
    Vendor,
)
from drivers.target import Target


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


class NoopManagement(Management):
    """The machine boots what it boots; nothing is ordered."""

    name = "noop"

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        """Accepted and not done."""


class NoopNetwork(Network):
    """The machine stays on the network that it is on."""

    name = "noop"


class NoopStorage(Storage):
    """The machine boots from its own disks."""

    name = "noop"
