"""
The image of an instance: checks of `instance_info`, and the agent's parameters for the image.

The agent fetches the image itself, over HTTP, and verifies its checksum, so a checksum is required.
`examine` asks the image server first, so that errors are found before the machine is booted.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

from drivers.core import capabilities
from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.core.target import Target
from drivers.images import (
    checksum_files,
    checksums,
    config_drive,
    image_server,
    published,
    references,
    services,
)
from drivers.images.formats import Format
from drivers.net import urls

#: Keys of driver_internal_info with the results of `examine` and of `facts`.
EXAMINED, FACTS = "image", "image_facts"
_CHECKSUMS = ("image_checksum", "image_os_hash_algo", "image_os_hash_value")
_MEBIBYTE = 1 << 20
_PARTITION_SIZES = ("root_gb", "swap_mb", "ephemeral_gb")
#: (stated format, detected format); an ISO image may be written to a disk as it is.
_COMPATIBLE = (("raw", "gpt"), ("gpt", "raw"), ("raw", "iso"))
_PROXIES = {"image_http_proxy": "http", "image_https_proxy": "https"}


def is_whole_disk(target: Target) -> bool:
    """Return False for a partition image: by `image_type`, or as it has a kernel and a ramdisk."""
    info = described(target, target.driver_internal_info.get(FACTS)).instance_info
    if info.get("image_type"):
        return bool(info["image_type"] != "partition")
    return not (info.get("kernel") and info.get("ramdisk"))


def validate(target: Target) -> None:
    """
    Check the fields of `instance_info` that describe the image.

    Raises InvalidDriverInfo: names the first wrong field.
    """
    info = target.instance_info
    source = info.get("image_source")
    if not source:
        raise InvalidDriverInfo("instance_info/image_source is required and missing")
    references.readable(target.options, source, "instance_info/image_source")
    published.validate(target)
    checksums.from_instance_info(target)
    if info.get("image_type") not in (None, "whole-disk", "whole-disk-image", "partition"):
        raise InvalidDriverInfo(
            f"instance_info/image_type: {info['image_type']!r} is neither whole-disk nor partition"
        )
    if not isinstance(root := info.get("image_rootfs_uuid"), str | None):
        raise InvalidDriverInfo(f"instance_info/image_rootfs_uuid: {root!r} is not a string")
    disk_format = info.get("image_disk_format")
    if disk_format and disk_format not in target.options["conductor"]["permitted_image_formats"]:
        raise InvalidDriverInfo(
            f"instance_info/image_disk_format: {disk_format!r:.80} may not be deployed; only"
            f" {', '.join(target.options['conductor']['permitted_image_formats'])} may"
            " ([conductor]permitted_image_formats)"
        )
    if not isinstance(ephemeral := info.get("ephemeral_format"), str | None):
        raise InvalidDriverInfo(f"instance_info/ephemeral_format: {ephemeral!r:.80} is not a text")
    _preserves_ephemeral(info)
    _memory(target)
    config_drive.validate(target)
    _authentication(info)
    _proxies(target.driver_info)
    if not is_whole_disk(target) and not _size(info, "root_gb"):
        raise InvalidDriverInfo("instance_info/root_gb is required for a partition image")
    for name in _PARTITION_SIZES:
        _size(info, name)


def write_step(target: Target) -> dict[str, object]:
    """Return the agent's step that writes the image, and the config drive if there is one."""
    image = image_info(target)
    args: dict[str, object] = {"image_info": image}
    drive = config_drive.encoded(target)
    if drive is not None:
        image["configdrive"] = args["configdrive"] = drive
    return {"interface": "deploy", "step": "write_image", "args": args}


def facts(target: Target) -> dict[str, str]:
    """
    Return what the image service knows about the image, as fields of `instance_info`.

    They belong to the `image_source` among them; empty for the image of a URL.

    Raises BadImage: there is no such image, it may not be used, or a field of it is wrong.
    Raises Unreachable, Refused, Unexpected, InvalidDriverInfo: the service does not answer well.
    """
    source = str(target.instance_info["image_source"])
    service = services.of(source)
    if service is None:
        return {}
    image_facts = service.describe(target, source) | {"image_source": source}
    try:
        completed_target = described(target, image_facts)
        validate(completed_target)
        if checksums.from_instance_info(completed_target) is None:
            raise BadImage(
                f"image {source} has no checksum in its service, or one by md5 alone, which"
                " [agent]allow_md5_checksum refuses; state one in instance_info/image_os_hash_value"
            )
    except InvalidDriverInfo as error:
        raise BadImage(f"image {source}, as its service describes it: {error}") from error
    return image_facts


def described(target: Target, image_facts: Mapping[str, str] | None) -> Target:
    """
    Return a target whose `instance_info` is completed by the facts of the image service.

    Stated fields take precedence; facts of another image are ignored.
    """
    info = target.instance_info
    if not image_facts or image_facts.get("image_source") != info.get("image_source"):
        return target
    set_fields = {name: value for name, value in info.items() if value not in (None, "")}
    has_checksum = any(name in set_fields for name in _CHECKSUMS)
    further_facts = {
        name: value
        for name, value in image_facts.items()
        if not (has_checksum and name in _CHECKSUMS)
    }
    return replace(target, instance_info=further_facts | set_fields)


def examine(target: Target) -> dict[str, object]:
    """
    Return the agent's image fields that depend on the image server's answer.

    The keys are `urls`, `disk_format`, `os_hash_algo` and `os_hash_value`.

    Raises InvalidDriverInfo: a field is wrong.
    Raises BadImage: there is no such image, it is too large, or its format is not as stated or not
    permitted.
    Raises Unreachable: the server does not answer.
    """
    source = str(target.instance_info["image_source"])
    probe = image_server.probe(target, source)
    disk_format = _format(target, source, probe.format)
    becomes_raw = published.becomes_raw(target, disk_format)
    if becomes_raw:
        disk_format = "raw"
        probe = replace(probe, size=probe.format.written_bytes)
    _check_sizes(target, source, probe, disk_format)
    checksum = _checksum(target, source)
    if becomes_raw:
        source, checksum = published.publish_raw(target, source, checksum)
    elif published.needed(target):
        source = published.publish(target, source, checksum)
    return {
        "urls": [source],
        "disk_format": disk_format,
        "os_hash_algo": checksum.algorithm,
        "os_hash_value": checksum.value,
    }


def image_info(target: Target) -> dict[str, object]:
    """Return the agent's parameters for fetching, verifying and writing the image."""
    target = described(target, target.driver_internal_info.get(FACTS))
    info = target.instance_info
    source = str(info["image_source"])
    image = {
        "id": urlsplit(source).path.rpartition("/")[2] or urlsplit(source).netloc,
        "container_format": info.get("image_container_format"),
        "stream_raw_images": target.options["agent"]["stream_raw_images"],
        "node_uuid": target.uuid,
        **(target.driver_internal_info.get(EXAMINED) or examine(target)),
        **_authentication(info),
        **_proxies(target.driver_info),
    }
    return image if is_whole_disk(target) else image | _partitions(target)


def _format(target: Target, source: str, image_format: Format) -> str | None:
    """
    Return the disk format for the agent, or None if the agent detects it.

    A raw image is streamed to the disk without inspection, so no other image may be declared raw.
    """
    declared_format, probed_format = (
        target.instance_info.get("image_disk_format"), image_format.name,
    )  # fmt: skip
    options = target.options["conductor"]
    inspected = not options["disable_deep_image_inspection"]
    trusted = not inspected or (declared_format, probed_format) in _COMPATIBLE
    if declared_format and probed_format and declared_format != probed_format and not trusted:
        raise BadImage(
            f"{urls.redacted(source)} is {probed_format}, but instance_info/image_disk_format says"
            f" {declared_format}"
        )
    disk_format = declared_format or ("raw" if probed_format == "gpt" else probed_format)
    permitted_formats = options["permitted_image_formats"]
    if disk_format is not None and disk_format not in permitted_formats:
        raise BadImage(
            f"{urls.redacted(source)} is {disk_format}; only {', '.join(permitted_formats)} may be"
            " deployed ([conductor]permitted_image_formats)"
        )
    if inspected and image_format.danger:
        raise BadImage(f"{urls.redacted(source)} must not be written: {image_format.danger}")
    return str(disk_format) if disk_format else None


def _check_sizes(
    target: Target, source: str, probe: image_server.Probe, disk_format: str | None
) -> None:
    """
    Check that an image fits.

    An image that is not streamed has to fit into the memory, a partition image into its partition.

    Raises BadImage: the image is too large.
    """
    agent = target.options["agent"]
    streamed = agent["stream_raw_images"] and disk_format == "raw"
    memory = _memory(target)
    free = memory - int(agent["memory_consumed_by_agent"])
    if memory and probe.size and not streamed and probe.size > free * _MEBIBYTE:
        raise BadImage(
            f"{urls.redacted(source)} has {probe.size // _MEBIBYTE} MiB, but the agent has"
            f" only {free} MiB of memory for it (properties/memory_mb)"
        )
    root = _size(target.instance_info, "root_gb") * 1024
    written_bytes = probe.format.written_bytes or probe.size
    if root and written_bytes and not is_whole_disk(target) and written_bytes > root * _MEBIBYTE:
        raise BadImage(
            f"{urls.redacted(source)} takes {-(-written_bytes // _MEBIBYTE)} MiB, more than"
            f" the {root} MiB of instance_info/root_gb"
        )


def _checksum(target: Target, source: str) -> checksums.Checksum:
    """Return the image's checksum: as stated, from a file of checksums, or of a local image."""
    declared_checksum = checksums.from_instance_info(target)
    if isinstance(declared_checksum, checksums.Checksum):
        return declared_checksum
    if declared_checksum is None and not urls.is_file(source):
        raise BadImage(f"{source} has no checksum: the image service was not asked for it")
    if declared_checksum is None:
        with urls.opened(target.options, source) as (file, _path):
            return checksums.Checksum("sha256", hashlib.file_digest(file, "sha256").hexdigest())
    text, path = image_server.text(target, declared_checksum.url), unquote(urlsplit(source).path)
    try:
        file_checksum = checksum_files.checksum_of(text, path, declared_checksum.algorithm)
    except ValueError as error:
        raise BadImage(f"{urls.redacted(declared_checksum.url)} {error}") from None
    return checksums.read(
        target, declared_checksum.field, file_checksum.value, file_checksum.algorithm
    )


def _authentication(info: Mapping[str, object]) -> dict[str, object]:
    names = ("image_server_auth_strategy", "image_server_user", "image_server_password")
    credentials = {name: info[name] for name in names if info.get(name)}
    strategy = credentials.get("image_server_auth_strategy", "noauth")
    if strategy not in ("noauth", "http_basic"):
        raise InvalidDriverInfo(
            f"instance_info/image_server_auth_strategy: {strategy!r} is neither noauth nor"
            " http_basic"
        )
    missing_names = [
        name for name in names[1:] if strategy == "http_basic" and name not in credentials
    ]
    if missing_names:
        raise InvalidDriverInfo(f"instance_info/{missing_names[0]} is required for http_basic")
    return credentials


def _proxies(driver_info: Mapping[str, object]) -> dict[str, object]:
    proxies = {
        scheme: driver_info[name] for name, scheme in _PROXIES.items() if driver_info.get(name)
    }
    for scheme, url in proxies.items():
        urls.checked(url, f"driver_info/image_{scheme}_proxy")
    proxy_settings: dict[str, object] = {"proxies": proxies} if proxies else {}
    if not isinstance(hosts := driver_info.get("image_no_proxy"), str | None):
        raise InvalidDriverInfo(
            "driver_info/image_no_proxy must be a text with hosts separated by commas, not"
            f" {type(hosts).__name__}"
        )
    if hosts:
        proxy_settings["no_proxy"] = hosts
    return proxy_settings


def _partitions(target: Target) -> dict[str, object]:
    info = target.instance_info
    image = {
        "image_type": "partition",
        "kernel": info.get("kernel"),
        "ramdisk": info.get("ramdisk"),
        "root_gb": _size(info, "root_gb"),
        "root_mb": _size(info, "root_gb") * 1024,
        "swap_mb": _size(info, "swap_mb"),
        "ephemeral_mb": _size(info, "ephemeral_gb") * 1024,
        "ephemeral_format": info.get("ephemeral_format")
        or target.options["pxe"]["default_ephemeral_format"],
        "preserve_ephemeral": _preserves_ephemeral(info),
        "deploy_boot_mode": capabilities.boot_mode(target),
        "boot_option": "local",
    }
    label = capabilities.of_instance(target).get("disk_label")
    return image | ({"disk_label": label} if label else {})


def _memory(target: Target) -> int:
    """Return the machine's memory in MiB; 0: unknown."""
    return _whole(target.properties, "memory_mb", "properties")


def _preserves_ephemeral(info: Mapping[str, object]) -> bool:
    value = str(info.get("preserve_ephemeral") or False).lower()
    if value not in ("true", "false"):
        raise InvalidDriverInfo(
            f"instance_info/preserve_ephemeral: {value!r:.80} is neither true nor false"
        )
    return value == "true"


def _size(info: Mapping[str, object], name: str) -> int:
    return _whole(info, name, "instance_info")


def _whole(fields: Mapping[str, Any], name: str, field_group: str) -> int:
    try:
        number = int(fields.get(name) or 0)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if number < 0:
        raise InvalidDriverInfo(
            f"{field_group}/{name}: {fields[name]!r:.80} is not a whole number from 0 up"
        )
    return number
