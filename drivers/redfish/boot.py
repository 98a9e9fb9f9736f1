"""
Redfish: booting the agent from virtual media: interface `redfish-virtual-media`.

`driver_info.deploy_iso` is an image that boots the agent and knows where this service is. The BMC
shows it to the machine as a CD.
"""

from urllib.parse import urlsplit

from drivers.errors import InvalidDriverInfo, NotSupported
from drivers.interfaces import Boot
from drivers.redfish import client
from drivers.target import Target


class RedfishVirtualMedia(Boot):
    """The agent boots from a CD that the BMC pretends to have."""

    name = "redfish-virtual-media"
    properties = client.PROPERTIES | {
        "deploy_iso": "URL of the image that boots the agent. Required.",
        "rescue_iso": "URL of the image that boots the rescue agent; deploy_iso when missing.",
    }

    def validate(self, target: Target) -> None:
        client.access(target)
        iso(target)

    def prepare_ramdisk(self, target: Target) -> None:
        url = iso(target)
        with client.turn(target, self.bmcs) as bmc:
            drive = next(bmc.drives(), None)
            if drive is None:
                raise NotSupported(f"the BMC of node {target.uuid} has no virtual CD drive")
            if not drive.inserted or drive.image != url:
                target.before_order()
                if drive.inserted:
                    drive.eject_media()
                drive.insert_media(url, inserted=True, write_protected=True)
        target.driver.management.set_boot_device(target, "cdrom", persistent=False)

    def clean_up_ramdisk(self, target: Target) -> None:
        """Whatever is in the CD drives is taken out."""
        with client.turn(target, self.bmcs) as bmc:
            for drive in bmc.drives():
                if drive.inserted:
                    target.before_order()
                    drive.eject_media()

    def prepare_instance(self, target: Target) -> None:
        self.clean_up_ramdisk(target)
        target.driver.management.set_boot_device(target, "disk", persistent=True)

    def clean_up_instance(self, target: Target) -> None:
        self.clean_up_ramdisk(target)


def iso(target: Target) -> str:
    """The image that boots the agent. Raises InvalidDriverInfo."""
    rescue = str(target.provision_state or "").startswith("rescu")
    field = "rescue_iso" if rescue and target.driver_info.get("rescue_iso") else "deploy_iso"
    url = str(target.need(field))
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidDriverInfo(f"driver_info/{field}: {url!r} is no http or https URL")
    return url
