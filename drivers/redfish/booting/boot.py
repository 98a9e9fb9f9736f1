"""
Redfish: boot from an image URL: interfaces `redfish-virtual-media` and `redfish-https`.

`driver_info/deploy_iso` is an image that boots the agent and has the URL of this service. Without
it, an image is made for the node from `deploy_kernel` and `deploy_ramdisk`.
"""

from drivers.boot import command_line, fetchable, iso, media, network_data, ramdisks
from drivers.core import capabilities
from drivers.core.interface_kinds import Boot
from drivers.core.kinds import boot_settings
from drivers.core.steps import Done, Outcome
from drivers.core.target import Target, run_parts
from drivers.images import files
from drivers.net.service_addresses import of_files
from drivers.redfish.booting import boot_device, oem_boot, quirks, virtual_media
from drivers.redfish.booting.quirks import Difference
from drivers.redfish.transport import access, client


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
        super().validate(target)
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

    def prepare_ramdisk(self, target: Target) -> Outcome:
        return run_parts(
            target, {"firmware": boot_settings.for_ramdisk, "boot": self._boot_ramdisk}
        )

    def clean_up_ramdisk(self, target: Target) -> Outcome:
        outcome = self.clear_image(target, required=False)
        if isinstance(outcome, Done):
            files.withdraw(target, files.RAMDISK)
        return outcome

    def prepare_instance(self, target: Target) -> Outcome:
        boot = self._boot_from_disk
        if target.driver.deploy.boot_option == "ramdisk":
            boot = self._boot_instance_image
        return run_parts(target, {"firmware": boot_settings.for_instance, "boot": boot})

    def clean_up_instance(self, target: Target) -> Outcome:
        return run_parts(
            target, {"medium": self._remove_instance, "firmware": boot_settings.after_instance}
        )

    def set_image(self, target: Target, url: str, *, persistent: bool) -> Outcome:
        """Part: set the image to boot at the next start, or at every start if `persistent`."""
        raise NotImplementedError

    def clear_image(self, target: Target, *, required: bool) -> Outcome:
        """Part: undo `set_image`. required: whether an image that stays fails the step."""
        raise NotImplementedError

    def _boot_ramdisk(self, target: Target) -> Outcome:
        url, token = ramdisks.iso(target), None
        if url is None:
            url, token = media.of_agent(
                target, ramdisks.of_agent(target), capabilities.boot_mode(target)
            )
        fetchable.check(target, url)
        outcome = self.set_image(target, url, persistent=False)
        if token or target.agent.pregenerated:
            target.report(agent_token=token)
        return outcome

    def _boot_instance_image(self, target: Target) -> Outcome:
        iso_url = target.instance_info.get("boot_iso")
        url = str(iso_url) if iso_url else media.of_instance(target, capabilities.boot_mode(target))
        fetchable.check(target, url)
        return self.set_image(target, url, persistent=True)

    def _boot_from_disk(self, target: Target) -> Outcome:
        # required: the tenant's machine must not boot the agent
        outcome = self.clear_image(target, required=True)
        if isinstance(outcome, Done):
            files.withdraw(target, files.RAMDISK)
            target.driver.management.set_boot_device(target, "disk", persistent=True)
        return outcome

    def _remove_instance(self, target: Target) -> Outcome:
        outcome = self.clear_image(target, required=False)
        if isinstance(outcome, Done):
            files.withdraw(target, files.INSTANCE)
        return outcome


class RedfishVirtualMedia(RedfishImage):
    """Boot from a virtual CD of the BMC."""

    name = "redfish-virtual-media"

    def set_image(self, target: Target, url: str, *, persistent: bool) -> Outcome:
        return run_parts(
            target,
            {
                "medium": lambda part: virtual_media.insert(part, self.bmcs, "cdrom", url),
                "device": lambda part: self._boot_from_medium(part, persistent=persistent),
            },
        )

    def clear_image(self, target: Target, *, required: bool) -> Outcome:
        """Eject all virtual CDs."""
        return virtual_media.eject(target, self.bmcs, ("cdrom",), required=required)

    def _boot_from_medium(self, target: Target, *, persistent: bool) -> Outcome:
        with client.turn(target, self.bmcs) as bmc:
            is_oem = quirks.of(bmc, {Difference.OEM_VIRTUAL_CD})
        if is_oem:
            return oem_boot.choose_virtual_cd(target, self.bmcs, persistent=persistent)
        target.driver.management.set_boot_device(target, "cdrom", persistent=persistent)
        return Done()


class RedfishHttps(RedfishImage):
    """Boot by UEFI HTTP boot, from a URL set through the BMC."""

    name = "redfish-https"
    modes = (capabilities.UEFI,)

    def set_image(self, target: Target, url: str, *, persistent: bool) -> Outcome:
        with client.turn(target, self.bmcs) as bmc:
            boot_device.choose(target, bmc, "uefihttp", persistent=persistent, url=url)
        return Done()

    def clear_image(self, target: Target, *, required: bool) -> Outcome:
        """Do nothing: the next boot device replaces a pending one-time override."""
        return Done()
