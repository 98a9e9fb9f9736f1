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
                self.offer_disk(target)
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

    def root_url(self, target: Target) -> str:
        """Return the URL from which machines fetch files. Raises InvalidDriverInfo."""
        raise NotImplementedError

    def offer(self, target: Target, use: str, pair: Pair, line: str) -> None:
        """Write the boot files for a kernel with a ramdisk and command line."""
        raise NotImplementedError

    def offer_disk(self, target: Target) -> None:
        """Write a boot file that continues with the machine's disk."""
        raise NotImplementedError

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

    def place(self, target: Target, root: Path, use: str, texts: Mapping[str, str]) -> None:
        """
        Write a machine's files and their links. texts: template of the link's path -> content.

        Raises BadImage, InvalidDriverInfo.
        """
        folder = files.folder(target, root, use, secrets.token_urlsafe(16))
        self.fill(target, root, folder, {}, texts)

    def fill(
        self,
        target: Target,
        root: Path,
        folder: Path,
        cached_files: Mapping[str, Path],
        texts: Mapping[str, str],
    ) -> None:
        """
        Write files to a folder: copies of `cached_files` (name -> path), and `texts` with their
        links.
        """
        with files.naming_errors():
            for name, path in cached_files.items():
                cache.put(path, folder / name)
            loaders.publish(target.options)
        for number, (names, text) in enumerate(texts.items()):
            files.write(folder / f"config-{number}", text)
            for link_path in files.links(target.options, root, self._nics(target), names):
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

    def validate(self, target: Target) -> None:
        super().validate(target)
        if _boots_from_iscsi(target):
            _volumes(target)

    def root_url(self, target: Target) -> str:
        return service_addresses.of_files(target)

    def offer(self, target: Target, use: str, pair: Pair, line: str) -> None:
        root = files.http_root(target.options)
        cached_files = {
            _KERNEL: cache.get(target, pair.kernel),
            _RAMDISK: cache.get(target, pair.ramdisk),
        }
        folder = files.folder(target, root, use, secrets.token_urlsafe(16))
        url = f"{self.root_url(target)}/{folder.relative_to(root)}"
        timeout = int(target.options["pxe"]["ipxe_timeout"])
        text = scripts.ipxe(f"{url}/{_KERNEL}", f"{url}/{_RAMDISK}", line, timeout)
        self._write_first_script(target)
        paths = {name: cached_file.path for name, cached_file in cached_files.items()}
        self.fill(target, root, folder, paths, {self._names: text})

    def offer_ramdisk(self, target: Target) -> None:
        url = instance.boot_iso(target)
        if url:
            fetchable.check(target, url)
            self._script(target, scripts.ipxe_image(url))
        else:
            super().offer_ramdisk(target)

    def offer_disk(self, target: Target) -> None:
        self._script(target, scripts.LOCAL["ipxe"])

    def offer_volumes(self, target: Target) -> None:
        self._script(target, scripts.ipxe_volumes(*_volumes(target)))

    def _script(self, target: Target, text: str) -> None:
        self._write_first_script(target)
        self.place(target, files.http_root(target.options), files.INSTANCE, {self._names: text})

    def _write_first_script(self, target: Target) -> None:
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

    def root_url(self, target: Target) -> str:
        return ""

    def offer(self, target: Target, use: str, pair: Pair, line: str) -> None:
        root = self.root(target)
        cached_files = {
            _KERNEL: cache.get(target, pair.kernel),
            _RAMDISK: cache.get(target, pair.ramdisk),
        }
        folder = files.folder(target, root, use, secrets.token_urlsafe(16))
        tftp_folder = f"{self._path(target)}/{folder.relative_to(root)}"
        self._write_first_config(target)
        paths = {name: cached_file.path for name, cached_file in cached_files.items()}
        texts = self.configs(f"{tftp_folder}/{_KERNEL}", f"{tftp_folder}/{_RAMDISK}", line)
        self.fill(target, root, folder, paths, texts)

    def offer_disk(self, target: Target) -> None:
        self._write_first_config(target)
        self.place(target, self.root(target), files.INSTANCE, self.disk_configs)

    # Differences between TFTP and HTTP

    #: Template of a link's path -> configuration that boots the disk.
    disk_configs: ClassVar[Mapping[str, str]] = {
        _pxelinux: scripts.LOCAL["pxelinux"],
        _grub: scripts.LOCAL["grub"],
    }

    def root(self, target: Target) -> Path:
        """Return the folder that the loader sees as its root."""
        return files.tftp_root(target.options)

    def configs(self, kernel: str, ramdisk: str, line: str) -> dict[str, str]:
        """Return template of a link's path -> configuration for a kernel."""
        return {
            # pxelinux resolves names without a leading slash relative to its own folder
            self._pxelinux: scripts.pxelinux(kernel[1:], ramdisk[1:], line),
            self._grub: scripts.grub(kernel, [ramdisk], line, network=True),
        }

    def _path(self, target: Target) -> str:
        """Return the path of the root on the loader's server; empty if it is the server's root."""
        return urlsplit(self.root_url(target)).path

    def _write_first_config(self, target: Target) -> None:
        path = self.root(target) / scripts.GRUB_FIRST
        files.write(path, scripts.grub_first(self._path(target)))
        files.let_tftp_read(target.options, path)


class Http(Pxe):
    """Boots shim and GRUB, which UEFI fetches over HTTP; GRUB fetches all other files over HTTP."""

    name = "http"
    dhcp_boot = "http"
    devices = _UEFI_HTTP
    modes = (capabilities.UEFI,)
    disk_configs: ClassVar[Mapping[str, str]] = {Pxe._grub: scripts.LOCAL["grub"]}

    def root_url(self, target: Target) -> str:
        return service_addresses.of_files(target)

    def root(self, target: Target) -> Path:
        return files.http_root(target.options)

    def configs(self, kernel: str, ramdisk: str, line: str) -> dict[str, str]:
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
