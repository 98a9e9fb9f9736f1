"""
The image of an instance: what `instance_info` must say, and what the agent is told of it.

The agent fetches the image itself, so `image_source` is an http or https URL, and it checks it,
so there must be a checksum (or the URL of one).
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from drivers.agent import configdrive
from drivers.errors import InvalidDriverInfo
from drivers.target import Target

_ALGORITHMS = {64: "sha256", 96: "sha384", 128: "sha512"}
_PARTITION_SIZES = ("root_gb", "swap_mb", "ephemeral_gb")


def is_whole_disk(target: Target) -> bool:
    """False for an image of one partition: it says so, or brings its kernel and ramdisk."""
    info = target.instance_info
    if info.get("image_type"):
        return bool(info["image_type"] != "partition")
    return not (info.get("kernel") and info.get("ramdisk"))


def boot_mode(target: Target) -> str:
    """`uefi` or `bios`: what the capabilities of instance or node ask for, else the default."""
    for info in (target.instance_info, target.properties):
        wanted = _capabilities(info.get("capabilities")).get("boot_mode")
        if wanted:
            return wanted
    return str(target.options["deploy"]["default_boot_mode"])


def validate(target: Target) -> None:
    """Raises InvalidDriverInfo that names the first field of instance_info that is wrong."""
    info = target.instance_info
    source = info.get("image_source")
    if not source:
        raise InvalidDriverInfo("instance_info/image_source is required and missing")
    if urlsplit(str(source)).scheme not in ("http", "https"):
        raise InvalidDriverInfo(f"instance_info/image_source: {source!r} is no http or https URL")
    if bool(info.get("image_os_hash_algo")) != bool(info.get("image_os_hash_value")):
        raise InvalidDriverInfo(
            "instance_info/image_os_hash_algo and image_os_hash_value belong together"
        )
    if not info.get("image_checksum") and not info.get("image_os_hash_value"):
        raise InvalidDriverInfo(
            "instance_info/image_checksum, or image_os_hash_algo and image_os_hash_value, are"
            " required and missing"
        )
    if not is_whole_disk(target) and not _size(info, "root_gb"):
        raise InvalidDriverInfo("instance_info/root_gb is required for a partition image")
    for name in _PARTITION_SIZES:
        _size(info, name)
    if boot_mode(target) not in ("uefi", "bios"):
        raise InvalidDriverInfo(f"capabilities: boot_mode {boot_mode(target)!r} is unknown")


def write_step(target: Target) -> dict[str, Any]:
    """The agent's step that writes the image, with the config drive if there is one."""
    image = image_info(target)
    args: dict[str, Any] = {"image_info": image}
    drive = configdrive.encoded(target.instance_info.get("configdrive"))
    if drive is not None:
        image["configdrive"] = args["configdrive"] = drive
    return {"interface": "deploy", "step": "write_image", "args": args}


def image_info(target: Target) -> dict[str, Any]:
    """What the agent must know to fetch, check and write the image."""
    info = target.instance_info
    source = str(info["image_source"])
    image = {
        "id": urlsplit(source).path.rpartition("/")[2] or source,
        "urls": [source],
        "disk_format": info.get("image_disk_format") or "raw",
        "container_format": info.get("image_container_format"),
        "stream_raw_images": target.options["agent"]["stream_raw_images"],
        "node_uuid": target.uuid,
        **_checksums(info),
    }
    for name in ("image_server_auth_strategy", "image_server_user", "image_server_password"):
        if info.get(name):
            image[name] = info[name]
    if not is_whole_disk(target):
        image |= _partitions(target)
    return image


def _checksums(info: Mapping[str, Any]) -> dict[str, Any]:
    if info.get("image_os_hash_value"):
        return {
            "os_hash_algo": info["image_os_hash_algo"],
            "os_hash_value": info["image_os_hash_value"],
        }
    checksum = str(info["image_checksum"])
    algorithm = None if "://" in checksum else _ALGORITHMS.get(len(checksum))
    if algorithm:
        return {"os_hash_algo": algorithm, "os_hash_value": checksum}
    return {"checksum": checksum}


def _partitions(target: Target) -> dict[str, Any]:
    info = target.instance_info
    image = {
        "image_type": "partition",
        "kernel": info.get("kernel"),
        "ramdisk": info.get("ramdisk"),
        "root_gb": _size(info, "root_gb"),
        "root_mb": _size(info, "root_gb") * 1024,
        "swap_mb": _size(info, "swap_mb"),
        "ephemeral_mb": _size(info, "ephemeral_gb") * 1024,
        "ephemeral_format": info.get("ephemeral_format"),
        "preserve_ephemeral": bool(info.get("preserve_ephemeral")),
        "deploy_boot_mode": boot_mode(target),
        "boot_option": "local",
    }
    label = _capabilities(info.get("capabilities")).get("disk_label")
    return image | ({"disk_label": label} if label else {})


def _size(info: Mapping[str, Any], name: str) -> int:
    try:
        size = int(info.get(name) or 0)
    except (TypeError, ValueError):
        size = -1
    if size < 0:
        raise InvalidDriverInfo(f"instance_info/{name}: {info[name]!r} is no size")
    return size


def _capabilities(value: Any) -> dict[str, str]:
    """Capabilities as a mapping, however they are written: JSON, a mapping, or `a:b,c:d`."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if isinstance(value, Mapping):
        return {str(name): str(setting) for name, setting in value.items()}
    pairs = (pair.partition(":") for pair in str(value or "").split(","))
    return {name.strip(): setting.strip() for name, _, setting in pairs if setting}
