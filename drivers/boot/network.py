"""
Network boot: interfaces `ipxe`, `http-ipxe`, `pxe` and `http`.

DHCP makes a machine load iPXE, pxelinux or GRUB. The loader fetches the file of one of the
machine's MAC addresses, which names the kernel and the ramdisk. This module writes these files, and
publishes kernel and ramdisk as long as they are needed. DHCP and TFTP are served by dnsmasq or by
the site.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from drivers.boot import (
    command_line,
    dhcp_options,
    fetchable,
    kickstart,
    loaders,
    network_data,
    ramdisks,
    scripts,
)
from drivers.core import capabilities
from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.core.interface_kinds import Boot
from drivers.core.kinds import boot_settings
from drivers.core.steps import Outcome
from drivers.core.target import Nic, Target, run_parts
from drivers.images import cache, files, instance, script_text
from drivers.images.instance import Pair
from drivers.net import service_addresses

_KERNEL, _RAMDISK = "kernel", "ramdisk"
_PERSISTENT = {"always": True, "never": False}
#: IPMI has no boot device for HTTP boot: there, the firmware's network boot decides.
_UEFI_HTTP = ("uefihttp", "pxe")


class NetworkBoot(Boot):
    """Common part of the network boot interfaces."""

    #: Boot devices for the BMC to set: the first one that the management interface knows.
    devices: ClassVar[Sequence[str]] = ("pxe",)
    boots_again = True
    properties = ramdisks.PROPERTIES | {
        "force_persistent_boot_device": "Whether the boot device is set persistently: Always, Never"
        " or Default (only for instances)",
    }

    def validate(self, target: Target) -> None:
        super().validate(target)
        _is_persistent(target, persistent=False)
        ramdisks.of_agent(target)
        command_line.appended(target, "pxe")
        self.root_url(target)
        self._nics(target)
        if target.options["dhcp_server"]["backend"]:
            return  # the server of the conductors gives the machine these addresses
        network_data.refuse(
            target,
            f"boot_interface {self.name} has no medium for it, and gets its addresses by DHCP;"
            " redfish-virtual-media and redfish-https carry it",
        )

    def prepare_ramdisk(self, target: Target) -> Outcome:
        return run_parts(
            target, {"firmware": boot_settings.for_ramdisk, "boot": self._boot_ramdisk}
        )

    def _boot_ramdisk(self, target: Target) -> None:
        line = command_line.of_agent(target, "pxe", outside=False)
        self.offer(target, files.RAMDISK, ramdisks.of_agent(target), line)
        self._set_boot_device(target, self.devices, persistent=False)
        if target.agent.pregenerated:  # of a virtual medium; here lookup issues a new token
            target.report(agent_token=None)

    def clean_up_ramdisk(self, target: Target) -> None:
        files.withdraw(target, files.RAMDISK)

    def prepare_instance(self, target: Target) -> Outcome:
        firmware = boot_settings.for_instance
        if target.driver.deploy.boot_option == "kickstart":  # the installer is not the instance yet
            firmware = boot_settings.for_installer
        return run_parts(target, {"firmware": firmware, "boot": self._boot_instance})

    def _boot_instance(self, target: Target) -> None:
        files.withdraw(target, files.RAMDISK)
        option = target.driver.deploy.boot_option
        if option == "ramdisk":
            self.offer_ramdisk(target)
        elif option == "kickstart":
            self._offer_installer(target)
            return
        elif "iscsi_volume" in self.options and _boots_from_iscsi(target):
            self.offer_volumes(target)
        else:
            if target.options["pxe"]["enable_netboot_fallback"]:
                self.offer_texts(target, self.disk_texts)
            self._set_disk_boot(target)
            return
        self._set_boot_device(target, self.devices, persistent=True)

    def clean_up_instance(self, target: Target) -> Outcome:
        files.withdraw(target, files.INSTANCE, files.KICKSTART)
        return boot_settings.after_instance(target)

    def dhcp_options(self, target: Target) -> Sequence[Mapping[str, object]]:
        return dhcp_options.options(
            target, ipxe="ipxe" in self.name, http=self.devices is _UEFI_HTTP
        )

    # Differences between the interfaces

    #: template of a link's path -> text that boots the machine's disk
    disk_texts: ClassVar[Mapping[str, str]]

    def root_url(self, target: Target) -> str:
        """Return the URL from which machines fetch files. Raises InvalidDriverInfo."""
        raise NotImplementedError

    def root(self, target: Target) -> Path:
        """Return the folder that the loader sees as its root."""
        return files.http_root(target.options)

    def prefix(self, target: Target) -> str:
        """Return what the loader has to write before the path of a file below the root."""
        return self.root_url(target)

    def texts(self, target: Target, kernel: str, ramdisk: str, line: str) -> dict[str, str]:
        """Return template of a link's path -> text that boots a kernel; line: its command line."""
        raise NotImplementedError

    def write_first(self, target: Target) -> None:
        """Write the text that leads all machines to their own files."""
        raise NotImplementedError

    # Files of a machine

    def offer(self, target: Target, use: str, pair: Pair, line: str) -> None:
        """Publish a kernel and its ramdisk, and write the boot files for them."""
        copies = {
            _KERNEL: cache.get(target, pair.kernel).path,
            _RAMDISK: cache.get(target, pair.ramdisk).path,
        }
        folder = self._folder(target, use)
        place = f"{self.prefix(target)}/{folder.relative_to(self.root(target))}"
        texts = self.texts(target, f"{place}/{_KERNEL}", f"{place}/{_RAMDISK}", line)
        self._fill(target, folder, copies, texts)

    def offer_texts(self, target: Target, texts: Mapping[str, str]) -> None:
        """Write the boot files of an instance; texts: template of a link's path -> content."""
        self._fill(target, self._folder(target, files.INSTANCE), {}, texts)

    def offer_ramdisk(self, target: Target) -> None:
        """Write the boot files of a ramdisk instance."""
        line = command_line.of_instance(target, "pxe")
        self.offer(target, files.INSTANCE, instance.kernel_and_ramdisk(target), line)

    def offer_volumes(self, target: Target) -> None:
        """
        Write a boot file for the node's volumes.

        Raises NotSupported: the interface has no iSCSI.
        """
        raise NotSupported(f"boot_interface {self.name} does not support iSCSI")

    def _offer_installer(self, target: Target) -> None:
        url, token = kickstart.publish(target)
        target.report(agent_token=token)
        line = command_line.of_installer(target, "pxe", url)
        self.offer(target, files.INSTANCE, instance.kernel_and_ramdisk(target), line)
        self._set_boot_device(target, self.devices, persistent=False)

    def _folder(self, target: Target, use: str) -> Path:
        return files.folder(target, self.root(target), use, secrets.token_urlsafe(16))

    def _fill(
        self, target: Target, folder: Path, copies: Mapping[str, Path], texts: Mapping[str, str]
    ) -> None:
        """
        Write files to a folder: `copies` (name -> path of the original), and `texts` with links.

        Raises BadImage, InvalidDriverInfo.
        """
        self.write_first(target)
        with files.naming_errors():
            for name, path in copies.items():
                cache.put(path, folder / name)
            loaders.publish(target.options)
        root, nics = self.root(target), self._nics(target)
        for number, (names, text) in enumerate(texts.items()):
            files.write(folder / f"config-{number}", text)
            for link_path in files.links(target.options, root, nics, names):
                files.link(link_path, folder / f"config-{number}")
        files.let_tftp_read(target.options, *folder.iterdir())

    def _nics(self, target: Target) -> list[Nic]:
        nics = [nic for nic in target.nics if nic.pxe_enabled]
        if not nics:
            raise InvalidDriverInfo(
                f"boot_interface {self.name}: the node has no port with pxe_enabled; the boot"
                " server identifies a machine by the addresses of such ports"
            )
        return nics

    def _set_boot_device(self, target: Target, devices: Sequence[str], *, persistent: bool) -> None:
        """Set the first of these boot devices that the management interface supports."""
        forced, management = _is_persistent(target, persistent=persistent), target.driver.management
        *preferred, last_device = devices
        for device in preferred:
            with suppress(NotSupported):
                return management.set_boot_device(target, device, persistent=forced)
        return management.set_boot_device(target, last_device, persistent=forced)

    def _set_disk_boot(self, target: Target) -> None:
        with suppress(NotSupported):  # without another order the machine boots from its disk
            self._set_boot_device(target, ["disk"], persistent=True)


class Ipxe(NetworkBoot):
    """Boots iPXE, which fetches all files over HTTP."""

    name = "ipxe"
    options = frozenset({"boot_iso", "ramdisk", "kickstart", "iscsi_volume"})
    dhcp_boot = "ipxe"
    _names = "{subdir}/{mac}"
    disk_texts: ClassVar[Mapping[str, str]] = {_names: scripts.LOCAL["ipxe"]}

    def validate(self, target: Target) -> None:
        super().validate(target)
        if _boots_from_iscsi(target):
            _volumes(target)

    def root_url(self, target: Target) -> str:
        return service_addresses.of_files(target)

    def texts(self, target: Target, kernel: str, ramdisk: str, line: str) -> dict[str, str]:
        timeout = int(target.options["pxe"]["ipxe_timeout"])
        return {self._names: scripts.ipxe(kernel, ramdisk, line, timeout)}

    def offer_ramdisk(self, target: Target) -> None:
        url = instance.boot_iso(target)
        if url:
            fetchable.check(target, url)
            self.offer_texts(target, {self._names: scripts.ipxe_image(url)})
        else:
            super().offer_ramdisk(target)

    def offer_volumes(self, target: Target) -> None:
        self.offer_texts(target, {self._names: scripts.ipxe_volumes(*_volumes(target))})

    def write_first(self, target: Target) -> None:
        """
        Write the script that leads machines to their files, for TFTP and HTTP: iPXE may use either.
        """
        subdir = target.options["pxe"]["pxe_config_subdir"]
        text = scripts.ipxe_first(f"{self.root_url(target)}/{subdir}")
        for root in (files.http_root(target.options), files.tftp_root(target.options)):
            files.write(root / scripts.FIRST, text)
            files.let_tftp_read(target.options, root / scripts.FIRST)


class HttpIpxe(Ipxe):
    """Like `ipxe`, but UEFI fetches iPXE itself over HTTP, too."""

    name = "http-ipxe"
    devices = _UEFI_HTTP
    modes = (capabilities.UEFI,)


class Pxe(NetworkBoot):
    """Boots pxelinux (legacy BIOS) or GRUB (UEFI), which fetch all files over TFTP."""

    name = "pxe"
    options = frozenset({"ramdisk", "kickstart"})
    dhcp_boot = "pxe"
    _pxelinux, _grub = "{subdir}/{type}-{mac}", "{colons}.conf"
    disk_texts: ClassVar[Mapping[str, str]] = {
        _pxelinux: scripts.LOCAL["pxelinux"],
        _grub: scripts.LOCAL["grub"],
    }

    def root_url(self, target: Target) -> str:
        return ""

    def root(self, target: Target) -> Path:
        return files.tftp_root(target.options)

    def prefix(self, target: Target) -> str:
        return urlsplit(self.root_url(target)).path  # empty if it is the root of the server

    def texts(self, target: Target, kernel: str, ramdisk: str, line: str) -> dict[str, str]:
        return {
            # pxelinux resolves names without a leading slash relative to its own folder
            self._pxelinux: scripts.pxelinux(kernel[1:], ramdisk[1:], line),
            self._grub: scripts.grub(kernel, [ramdisk], line, network=True),
        }

    def write_first(self, target: Target) -> None:
        path = self.root(target) / scripts.GRUB_FIRST
        files.write(path, scripts.grub_first(self.prefix(target)))
        files.let_tftp_read(target.options, path)


class Http(Pxe):
    """Boots shim and GRUB, which UEFI fetches over HTTP; GRUB fetches all other files over HTTP."""

    name = "http"
    dhcp_boot = "http"
    devices = _UEFI_HTTP
    modes = (capabilities.UEFI,)
    disk_texts: ClassVar[Mapping[str, str]] = {Pxe._grub: scripts.LOCAL["grub"]}

    def root_url(self, target: Target) -> str:
        return service_addresses.of_files(target)

    def root(self, target: Target) -> Path:
        return files.http_root(target.options)

    def texts(self, target: Target, kernel: str, ramdisk: str, line: str) -> dict[str, str]:
        return {self._grub: scripts.grub(kernel, [ramdisk], line, network=True)}


def _boots_from_iscsi(target: Target) -> bool:
    return not target.driver.storage.should_write_image(target) and any(
        volume_target.volume_type == "iscsi" and volume_target.boot_index == 0
        for volume_target in target.volume_targets
    )


def _volumes(target: Target) -> tuple[list[scripts.Volume], str | None]:
    """Return the iSCSI volumes and the machine's initiator name. Raises InvalidDriverInfo."""
    volumes = [
        scripts.volume(volume_target.properties, f"volume target {volume_target.uuid}")
        for volume_target in target.volume_targets
        if volume_target.volume_type == "iscsi"
    ]
    initiator = next(
        (connector for connector in target.volume_connectors if connector.type == "iqn"), None
    )
    if initiator is None:
        return volumes, None
    field = f"volume connector {initiator.uuid}: connector_id"
    return volumes, script_text.word(initiator.connector_id, field)


def _is_persistent(target: Target, *, persistent: bool) -> bool:
    """
    Return whether to set the boot device persistently. persistent: the default.

    Raises InvalidDriverInfo: driver_info/force_persistent_boot_device is malformed.
    """
    value: Any = target.driver_info.get("force_persistent_boot_device", "Default")
    word = str(value).lower()
    if word not in (*_PERSISTENT, "default"):
        raise InvalidDriverInfo(
            f"driver_info/force_persistent_boot_device: {value!r} is not Always, Never or Default"
        )
    return _PERSISTENT.get(word, persistent)
