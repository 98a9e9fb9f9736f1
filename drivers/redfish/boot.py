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

#: how the states of a flow begin -> the field of an image of its own
_OWN = {"rescu": "rescue_iso", "inspect": "inspect_iso"}


class RedfishVirtualMedia(Boot):
    """The agent boots from a CD that the BMC pretends to have."""

    name = "redfish-virtual-media"
    properties = client.PROPERTIES | {
        "deploy_iso": "URL of the image that boots the agent. Required.",
        "rescue_iso": "URL of the image that boots the rescue agent; deploy_iso when missing.",
        "inspect_iso": "URL of the image that boots the agent with ipa-inspection-callback-url;"
        " deploy_iso when missing.",
    }
    options = frozenset({"boot_iso"})

    def validate(self, target: Target) -> None:
        client.access(target)
        iso(target)

    def prepare_ramdisk(self, target: Target) -> None:
        self._show(target, iso(target))
        target.driver.management.set_boot_device(target, "cdrom", persistent=False)

    def _show(self, target: Target, url: str) -> None:
        """The first CD drive holds this image."""
        with client.turn(target, self.bmcs) as bmc:
            drive = next(bmc.drives(), None)
            if drive is None:
                raise NotSupported(f"the BMC of node {target.uuid} has no virtual CD drive")
            if not drive.inserted or drive.image != url:
                target.before_order()
                if drive.inserted:
                    drive.eject_media()
                drive.insert_media(url, inserted=True, write_protected=True)

    def clean_up_ramdisk(self, target: Target) -> None:
        """Whatever is in the CD drives is taken out."""
        with client.turn(target, self.bmcs) as bmc:
            for drive in bmc.drives():
                if drive.inserted:
                    target.before_order()
                    drive.eject_media()

    def prepare_instance(self, target: Target) -> None:
        if target.driver.deploy.boot_option == "ramdisk":
            self._show(target, str(target.instance_info["boot_iso"]))
            target.driver.management.set_boot_device(target, "cdrom", persistent=True)
            return
        self.clean_up_ramdisk(target)
        target.driver.management.set_boot_device(target, "disk", persistent=True)

    def clean_up_instance(self, target: Target) -> None:
        self.clean_up_ramdisk(target)


def iso(target: Target) -> str:
    """The image that boots the agent. Raises InvalidDriverInfo."""
    state = str(target.provision_state or "")
    own = next((name for flow, name in _OWN.items() if state.startswith(flow)), "deploy_iso")
    field = own if target.driver_info.get(own) else "deploy_iso"
    url = str(target.need(field))
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidDriverInfo(f"driver_info/{field}: {url!r} is no http or https URL")
    return url
