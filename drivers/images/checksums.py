"""Checksums of images in `instance_info`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Target
from drivers.images import references
from drivers.net import urls

#: Algorithm -> hexadecimal digits of its checksums.
DIGITS: Mapping[str, int] = {"md5": 32, "sha256": 64, "sha384": 96, "sha512": 128}
TRUSTED = tuple(name for name in DIGITS if name != "md5")
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum of an image."""

    algorithm: str  # key of DIGITS
    value: str  # hexadecimal


@dataclass(frozen=True, slots=True)
class ChecksumFile:
    """A file with the checksum of an image."""

    field: str  # of instance_info
    url: str
    algorithm: str | None  # key of DIGITS; None: the strongest in the file


def from_instance_info(target: Target) -> Checksum | ChecksumFile | None:
    """
    Return the image's checksum in instance_info, or the file that has it.

    None for a file URL without a checksum: the conductor, which reads the image, computes it; and
    for an image of a service, which has its own.

    Raises InvalidDriverInfo: names the wrong field.
    """
    info = target.instance_info
    algorithm, value = info.get("image_os_hash_algo"), info.get("image_os_hash_value")
    if bool(algorithm) != bool(value):
        raise InvalidDriverInfo(
            "instance_info/image_os_hash_algo and image_os_hash_value belong together"
        )
    if value:
        return _stated(target, "image_os_hash_value", value, str(algorithm).lower())
    if info.get("image_checksum"):
        return _stated(target, "image_checksum", info["image_checksum"])
    if references.is_served(info.get("image_source")):
        return None
    raise InvalidDriverInfo(
        "instance_info/image_checksum, or image_os_hash_algo and image_os_hash_value, are"
        " required and missing"
    )


def _stated(
    target: Target, field: str, value: object, algorithm: str | None = None
) -> Checksum | ChecksumFile:
    if not is_url(value):
        return read(target, field, value, algorithm)
    if algorithm is not None:
        _check_algorithm(target, field, algorithm)
    return ChecksumFile(field, urls.checked(value, f"instance_info/{field}"), algorithm)


def read(target: Target, field: str, value: Any, algorithm: str | None = None) -> Checksum:
    """
    Parse a checksum. field: its field of instance_info, for errors.

    Without an algorithm, the length of the value decides.

    Raises InvalidDriverInfo: malformed, of an unknown algorithm, or md5 while that is refused.
    """
    text = str(value).strip()
    if algorithm is None:
        algorithm = next((name for name, long in DIGITS.items() if long == len(text)), None)
    if algorithm is None:
        raise InvalidDriverInfo(
            f"instance_info/{field}: neither {', '.join(TRUSTED)} nor the URL of a checksum"
        )
    _check_algorithm(target, field, algorithm)
    if len(text) != DIGITS[algorithm] or not _HEX.fullmatch(text):
        raise InvalidDriverInfo(
            f"instance_info/{field}: {text!r} is not a {algorithm} checksum, which has"
            f" {DIGITS[algorithm]} hexadecimal digits"
        )
    return Checksum(algorithm, text.lower())


def _check_algorithm(target: Target, field: str, algorithm: str) -> None:
    if algorithm not in DIGITS:
        raise InvalidDriverInfo(
            f"instance_info/image_os_hash_algo: {algorithm!r} is none of {', '.join(TRUSTED)}"
        )
    if algorithm == "md5" and not target.options["agent"]["allow_md5_checksum"]:
        raise InvalidDriverInfo(
            f"instance_info/{field}: md5 is refused, as it can be forged; give a sha256, or set"
            " [agent]allow_md5_checksum"
        )


def is_url(value: object) -> bool:
    return str(value).startswith(("http://", "https://"))
