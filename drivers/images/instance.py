"""
The images that instance_info names for an instance that is not written to a disk by the agent: an
ISO image, a kernel and a ramdisk, the parts of an installer.

Each function raises InvalidDriverInfo that names the field which is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivers import urls
from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options, Target
from drivers.images import words


@dataclass(frozen=True, slots=True)
class Pair:
    """URLs of a kernel and its ramdisk."""

    kernel: str
    ramdisk: str


def pair(
    options: Options, info: Mapping[str, Any], kernel: str, ramdisk: str, where: str
) -> Pair | None:
    """Read a kernel and its ramdisk from two fields; None when both are empty."""
    if not info.get(kernel) and not info.get(ramdisk):
        return None
    for field in (kernel, ramdisk):
        url = info.get(field)
        if not url:
            raise InvalidDriverInfo(f"{where}{field} is required and missing")
        urls.readable(options, url, f"{where}{field}")
    return Pair(str(info[kernel]), str(info[ramdisk]))


def kernel_and_ramdisk(target: Target) -> Pair:
    """The kernel and the ramdisk that are the instance, or its installer."""
    found = pair(target.options, target.instance_info, "kernel", "ramdisk", "instance_info/")
    if found is None:
        raise InvalidDriverInfo("instance_info/kernel and ramdisk are required and missing")
    return found


def kernel_arguments(target: Target) -> str | None:
    """The arguments for the kernel of a ramdisk, if the instance has its own."""
    own = target.instance_info.get("ramdisk_kernel_arguments")
    return None if own is None else words.line(own, "instance_info/ramdisk_kernel_arguments")


def boot_iso(target: Target) -> str | None:
    """The URL of the image that is the instance."""
    given = target.instance_info.get("boot_iso")
    return words.url(given, "instance_info/boot_iso") if given else None


def installer_source(target: Target) -> str:
    """The URL of the system that an installer installs."""
    return words.url(target.instance_info["image_source"], "instance_info/image_source", urls.ALL)


def installer_stage2(target: Target) -> str:
    """The URL of the second stage of an installer."""
    return words.url(target.instance_info["stage2"], "instance_info/stage2", urls.ALL)


def kickstart_template(target: Target) -> str | None:
    """The URL of the instance's own kickstart template, which is never a file."""
    named = target.instance_info.get("ks_template")
    return urls.checked(named, "instance_info/ks_template") if named else None
