"""The management interface: boot device and mode, sensors, indicators, virtual media."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from drivers.core.errors import HardwareError, NotSupported
from drivers.core.interface import Interface
from drivers.core.kinds import boot_settings
from drivers.core.steps import Outcome
from drivers.core.target import Options, Target

#: Reads the sensors of a target, as `Management.sensors` does; returns an error.
ReadSensors = Callable[[Target], Awaitable[list[dict[str, object]] | HardwareError]]
#: From the options of the service and the number of connections.
SensorReader = Callable[[Options, int], AbstractAsyncContextManager[ReadSensors]]


class Management(Interface):
    """Boot device, boot mode and other settings of the machine."""

    kind = "management"
    #: opens a reader for the sensor sweep, which reads many machines in one event loop; without
    #: it, the sweep calls `sensors` in threads
    sensor_reader: SensorReader | None = None

    def mac_addresses(self, target: Target) -> list[str]:
        """
        Return the MAC addresses that the BMC lists; empty if it lists none.

        Raises HardwareError.
        """
        return []

    def supported_boot_devices(self, target: Target) -> list[str]:
        """Return the supported devices of Ironic's list: pxe, disk, cdrom, bios, safe, ..."""
        return []

    def get_boot_device(self, target: Target) -> dict[str, object]:
        """
        Return {"boot_device": name or None, "persistent": bool or None}; None stands for unknown.
        """
        return {"boot_device": None, "persistent": None}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        """
        Set the boot device of the next start, or of every start if `persistent`.

        Raises NotSupported: the machine lacks the device.
        """
        raise NotSupported(f"{self.name} management cannot set a boot device")

    def before_start(self, target: Target) -> None:
        """Prepare a start or reset; each power interface calls it right before its command."""

    def get_boot_mode(self, target: Target) -> str | None:
        """
        Return `uefi` or `bios`; None if the machine does not report it.

        Raises HardwareError.
        """
        return None

    def set_boot_mode(self, target: Target, mode: str) -> None:
        """
        Set the boot mode of the next start.

        Raises NotSupported: the machine lacks the mode.
        """
        raise NotSupported(f"{self.name} management cannot set the boot mode")

    def change_boot_mode(self, target: Target, mode: str) -> Outcome | None:
        """Change the boot mode, and report it; a step of its own operation."""
        return boot_settings.change(target, boot_settings.BOOT_MODE, mode)

    def get_secure_boot(self, target: Target) -> bool | None:
        """Whether secure boot is on; None if the machine does not report it."""
        return None

    def set_secure_boot(self, target: Target, state: bool) -> None:
        """Switch secure boot on or off for the next start."""
        raise NotSupported(f"{self.name} management cannot change secure boot")

    def change_secure_boot(self, target: Target, state: bool) -> Outcome | None:
        """Change secure boot, and report it; a step of its own operation."""
        return boot_settings.change(target, boot_settings.SECURE_BOOT, state)

    def inject_nmi(self, target: Target) -> None:
        """Inject a non-maskable interrupt, on which the operating system writes a dump."""
        raise NotSupported(f"{self.name} management cannot inject an NMI")

    def indicators(self, target: Target) -> list[dict[str, Any]]:
        """
        Return the indicator LEDs: [{name, component, readonly, states}].

        component: chassis, system, disk, power or nic. states: of on, off, blinking, unknown.
        """
        raise NotSupported(f"{self.name} management has no indicators")

    def get_indicator(self, target: Target, component: str, name: str) -> str:
        """
        Return the state of an indicator.

        Raises NotSupported: there is no such indicator.
        """
        raise NotSupported(f"{self.name} management has no indicators")

    def set_indicator(self, target: Target, component: str, name: str, state: str) -> None:
        """
        Set the state of an indicator.

        Raises NotSupported: there is no such indicator, or it lacks the state.
        """
        raise NotSupported(f"{self.name} management has no indicators")

    def sensors(self, target: Target) -> list[dict[str, Any]]:
        """
        Return the sensors of the machine: [{name, kind, reading, unit, health}].

        kind: temperature, fan, voltage or power. reading: a number, or None without a current
        value.
        health: ok, warning, critical or unknown.

        Raises NotSupported: the BMC lists no sensor.
        """
        raise NotSupported(f"{self.name} management has no sensors")

    def read_inventory(self, target: Target) -> Outcome | None:
        """
        Read the inventory of the machine, and report it as `inventory`, a `BmcInventory`; a step of
        its own operation. No order is sent, and the machine goes on with its work.

        Raises HardwareError: the BMC does not answer, or shows no machine.
        """
        raise NotSupported(f"{self.name} management has no inventory")

    def read_documents(self, target: Target, paths: list[str]) -> list[dict[str, object]]:
        """
        Return the BMC's answers to GET requests for some of the paths: [{path, status, headers,
        encoding, body}]. No order is sent.
        """
        raise NotSupported(f"{self.name} management has no documents to record")

    def virtual_media(self, target: Target) -> list[dict[str, Any]]:
        """Return the virtual media of the BMC: [{media_types, inserted, image}]."""
        raise NotSupported(f"{self.name} management has no virtual media")

    def attach_virtual_media(
        self, target: Target, device_type: str, image_url: str
    ) -> Outcome | None:
        """Insert an image into a cdrom, disk or floppy; a step of its own operation."""
        raise NotSupported(f"{self.name} management has no virtual media")

    def detach_virtual_media(self, target: Target, device_types: list[str]) -> Outcome | None:
        """Eject all media of these types; a step of its own operation."""
        raise NotSupported(f"{self.name} management has no virtual media")
