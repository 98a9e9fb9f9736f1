"""
Booting the agent over the network: interface `ipxe`.

The site's own boot server hands out the ramdisk; this interface only points the machine at the
network for one start, and at its disk afterwards. Works with every management interface.
"""

from drivers.errors import NotSupported
from drivers.interfaces import Boot
from drivers.target import Target


class Ipxe(Boot):
    """The machine boots from the network once, then from its disk."""

    name = "ipxe"

    def prepare_ramdisk(self, target: Target) -> None:
        target.driver.management.set_boot_device(target, "pxe", persistent=False)

    def prepare_instance(self, target: Target) -> None:
        try:
            target.driver.management.set_boot_device(target, "disk", persistent=True)
        except NotSupported:  # it boots from its disk when nothing else is ordered
            return
