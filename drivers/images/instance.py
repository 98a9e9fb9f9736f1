"""
Images of instances that the agent does not write to a disk: ISO images, ramdisks, installers.

All functions read `instance_info` and raise InvalidDriverInfo that names the wrong field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options, Target
from drivers.images import references, script_text
from drivers.net import urls


@dataclass(frozen=True, slots=True)
class Pair:
    """URLs of a kernel and its ramdisk."""

    kernel: str
    ramdisk: str


def pair(
    options: Options, info: Mapping[str, Any], kernel: str, ramdisk: str, prefix: str
) -> Pair | None:
    """Return a kernel and its ramdisk from two fields; None if both are empty."""
    if not info.get(kernel) and not info.get(ramdisk):
        return None
    for field in (kernel, ramdisk):
        url = info.get(field)
        if not url:
            raise InvalidDriverInfo(f"{prefix}{field} is required and missing")
        references.readable(options, url, f"{prefix}{field}")
    return Pair(str(info[kernel]), str(info[ramdisk]))


def kernel_and_ramdisk(target: Target) -> Pair:
    """Return the kernel and ramdisk of the instance or its installer."""
    image_pair = pair(target.options, target.instance_info, "kernel", "ramdisk", "instance_info/")
    if image_pair is None:
        raise InvalidDriverInfo("instance_info/kernel and ramdisk are required and missing")
    return image_pair


def kernel_arguments(target: Target) -> str | None:
    """Return the kernel arguments of a ramdisk instance; None if the instance has none."""
    arguments = target.instance_info.get("ramdisk_kernel_arguments")
    return (
        None
        if arguments is None
        else script_text.line(arguments, "instance_info/ramdisk_kernel_arguments")
    )


def boot_iso(target: Target) -> str | None:
    """Return the URL of the ISO image that the instance boots."""
    iso_url = target.instance_info.get("boot_iso")
    return script_text.url(iso_url, "instance_info/boot_iso") if iso_url else None


def installer_source(target: Target) -> str:
    """Return the URL of the system to install."""
    return script_text.url(
        target.instance_info["image_source"], "instance_info/image_source", urls.ALL
    )


def installer_stage2(target: Target) -> str:
    """Return the URL of the installer's second stage."""
    return script_text.url(target.instance_info["stage2"], "instance_info/stage2", urls.ALL)


def kickstart_template(target: Target) -> str | None:
    """Return the URL of the instance's kickstart template. File URLs are refused."""
    template_url = target.instance_info.get("ks_template")
    return urls.checked(template_url, "instance_info/ks_template") if template_url else None
