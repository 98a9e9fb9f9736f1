"""
Redfish: boot from an image URL: interfaces `redfish-virtual-media` and `redfish-https`.

`driver_info/deploy_iso` is an image that boots the agent and has the URL of this service. Without
it, an image is made for the node from `deploy_kernel` and `deploy_ramdisk`.
"""

from drivers.agent import image
from drivers.boot import command_line, fetchable, iso, media, network_data, ramdisks
from drivers.core.errors import NotSupported
from drivers.core.kinds import Boot
from drivers.core.target import Target
from drivers.images import files
from drivers.images.addresses import of_files
from drivers.redfish import access, boot_device, client


class RedfishImage(Boot):
    """Base class: chooses the image, and publishes it as long as it is needed."""

    options = frozenset({"boot_iso", "ramdisk"})
    properties = (
        access.PROPERTIES
        | ramdisks.PROPERTIES
        | {
            "deploy_iso": "URL of an image that boots the agent, instead of kernel and ramdisk",
            "rescue_iso": "URL of the image that boots the rescue agent",
            "inspect_iso": "URL of the image that boots the agent with"
            " ipa-inspection-callback-url; deploy_iso when missing",
            "bootloader": "URL of an image of an EFI system partition, for images that are made"
            " here; else [conductor]bootloader_by_arch or bootloader",
            "external_http_url": "[deploy]http_url as the node's BMC reaches it",
        }
    )

    def validate(self, target: Target) -> None:
        access.access(target)
        for field in filter(target.driver_info.get, ramdisks.ISO_FIELDS):
            network_data.refuse(
                target,
                f"driver_info/{field} names an image that is not made here, so it cannot be added;"
                " put the configuration into that image, or name kernel and ramdisk instead",
            )
        if ramdisks.iso(target) is None:
            ramdisks.of_agent(target)
            command_line.appended(target, "redfish")
            iso.partition_url(target)
            of_files(target, outside=True)

    def prepare_ramdisk(self, target: Target) -> None:
        url, token = ramdisks.iso(target), None
        if url is None:
            url, token = media.of_agent(target, ramdisks.of_agent(target), image.boot_mode(target))
        fetchable.check(target, url)
        self.set_image(target, url, persistent=False)
        if token or target.agent.pregenerated:
            target.report(agent_token=token)

    def clean_up_ramdisk(self, target: Target) -> None:
        self.clear_image(target)
        files.withdraw(target, files.RAMDISK)

    def prepare_instance(self, target: Target) -> None:
        if target.driver.deploy.boot_option == "ramdisk":
            given = target.instance_info.get("boot_iso")
            url = str(given) if given else media.of_instance(target, image.boot_mode(target))
            fetchable.check(target, url)
            self.set_image(target, url, persistent=True)
            return
        self.clean_up_ramdisk(target)
        target.driver.management.set_boot_device(target, "disk", persistent=True)

    def clean_up_instance(self, target: Target) -> None:
        self.clear_image(target)
        files.withdraw(target, files.INSTANCE)

    def set_image(self, target: Target, url: str, *, persistent: bool) -> None:
        """Set the image to boot at the next start, or at every start if `persistent`."""
        raise NotImplementedError

    def clear_image(self, target: Target) -> None:
        """Undo `set_image`."""
        raise NotImplementedError


class RedfishVirtualMedia(RedfishImage):
    """Boot from a virtual CD of the BMC."""

    name = "redfish-virtual-media"

    def set_image(self, target: Target, url: str, *, persistent: bool) -> None:
        with client.turn(target, self.bmcs) as bmc:
            drive = next(bmc.drives(), None)
            if drive is None:
                raise NotSupported(f"the BMC of node {target.uuid} has no virtual CD drive")
            if not drive.inserted or drive.image != url:
                target.before_order()
                if drive.inserted:
                    drive.eject_media()
                drive.insert_media(url, inserted=True, write_protected=True)
        target.driver.management.set_boot_device(target, "cdrom", persistent=persistent)

    def clear_image(self, target: Target) -> None:
        """Eject all virtual CDs."""
        with client.turn(target, self.bmcs) as bmc:
            for drive in bmc.drives():
                if drive.inserted:
                    target.before_order()
                    drive.eject_media()


class RedfishHttps(RedfishImage):
    """Boot by UEFI HTTP boot, from a URL set through the BMC."""

    name = "redfish-https"

    def set_image(self, target: Target, url: str, *, persistent: bool) -> None:
        with client.turn(target, self.bmcs) as bmc:
            boot_device.choose(target, bmc, "uefihttp", persistent=persistent, url=url)

    def clear_image(self, target: Target) -> None:
        """Do nothing: the next boot device replaces a pending one-time override."""
