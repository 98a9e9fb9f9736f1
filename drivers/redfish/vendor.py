"""Redfish: vendor functions."""

from drivers.errors import InvalidDriverInfo
from drivers.interfaces import Vendor
from drivers.passthru import passthru
from drivers.redfish.interface import Redfish
from drivers.redfish.management import MEDIA
from drivers.target import Target


class RedfishVendor(Redfish, Vendor):
    """What Ironic has for every Redfish BMC, and what makes sense beside virtual media."""

    @passthru(
        "POST",
        asynchronous=False,
        description="Eject a virtual media device (boot_device: cd, floppy, usb); all if none",
    )
    def eject_vmedia(self, target: Target, boot_device: str | None = None) -> None:
        """Take the images out of the BMC's drives of a kind."""
        kinds = {"cd": "cdrom", "dvd": "cdrom", "floppy": "floppy", "usb": "disk"}
        if boot_device is not None and boot_device not in kinds:
            raise InvalidDriverInfo(
                f"boot_device: {boot_device!r} is not one of {', '.join(kinds)}"
            )
        wanted = list(MEDIA) if boot_device is None else [kinds[boot_device]]
        target.driver.management.detach_virtual_media(target, wanted)
