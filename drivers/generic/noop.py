"""
Interfaces without a function.

`no-*`: the node lacks the function, and requests for it are refused. `noop`: requests are accepted,
and nothing is done.
"""

from drivers.core.errors import NotSupported
from drivers.core.interface import Interface
from drivers.core.interface_kinds import (
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
    """Base class of the `no-*` interfaces: validation refuses the node."""

    absent = True

    def validate(self, target: Target) -> None:
        raise NotSupported(
            f"Driver {target.driver.hardware_type} does not support {self.kind} (disabled or not"
            f" implemented): the {self.kind}_interface of the node is {self.name}."
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
    Write, boot and erase nothing.

    For machines of which only power and health are managed.
    """

    name = "noop"

    @step(deploy=100)
    def deploy(self, target: Target) -> Outcome:
        """Do nothing; the machine keeps its system."""
        return Done()


class NoopManagement(Management):
    """Leave the machine's boot settings as they are."""

    name = "noop"

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        """Accept the request, and do nothing."""


class NoopNetwork(Network):
    """Leave the machine on its network."""

    name = "noop"
    keeps_vifs = False


class NoopStorage(Storage):
    """No remote volumes: the machine boots from local disks."""

    name = "noop"
    uses_volumes = False
