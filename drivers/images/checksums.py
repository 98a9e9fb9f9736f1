"""Checksums of images: from `instance_info`, or from a file of checksums."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Target

#: Algorithm -> hexadecimal digits of its checksums.
DIGITS: Mapping[str, int] = {"md5": 32, "sha256": 64, "sha384": 96, "sha512": 128}
TRUSTED = tuple(name for name in DIGITS if name != "md5")
_HEX = re.compile(r"(?<![0-9a-z])[0-9a-f]+(?![0-9a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum of an image."""

    algorithm: str  # key of DIGITS
    value: str  # hexadecimal


def from_instance_info(target: Target) -> Checksum | str:
    """
    Return the image's checksum in instance_info, or the URL of one.

    Raises InvalidDriverInfo: names the wrong field.
    """
    info = target.instance_info
    algorithm, value = info.get("image_os_hash_algo"), info.get("image_os_hash_value")
    if bool(algorithm) != bool(value):
        raise InvalidDriverInfo(
            "instance_info/image_os_hash_algo and image_os_hash_value belong together"
        )
    if value and not is_url(value):
        return read(target, "image_os_hash_value", value, str(algorithm).lower())
    checksum = value or info.get("image_checksum")
    if not checksum:
        raise InvalidDriverInfo(
            "instance_info/image_checksum, or image_os_hash_algo and image_os_hash_value, are"
            " required and missing"
        )
    return str(checksum) if is_url(checksum) else read(target, "image_checksum", checksum)


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
    if algorithm not in DIGITS:
        raise InvalidDriverInfo(
            f"instance_info/image_os_hash_algo: {algorithm!r} is none of {', '.join(TRUSTED)}"
        )
    if len(text) != DIGITS[algorithm] or not _HEX.fullmatch(text):
        raise InvalidDriverInfo(
            f"instance_info/{field}: {text!r} is not a {algorithm} checksum, which has"
            f" {DIGITS[algorithm]} hexadecimal digits"
        )
    if algorithm == "md5" and not target.options["agent"]["allow_md5_checksum"]:
        raise InvalidDriverInfo(
            f"instance_info/{field}: md5 is refused, as it can be forged; give a sha256, or set"
            " [agent]allow_md5_checksum"
        )
    return Checksum(algorithm, text.lower())


def in_file(text: str, image: str) -> str:
    """
    Return the checksum of the file `image` in the text of a file of checksums.

    Accepts a checksum alone, `CHECKSUM  NAME`, `CHECKSUM *NAME` and `SHA256 (NAME) = CHECKSUM`. The
    longest of several checksums of one file is returned.

    Raises ValueError: there is none.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) == 1 and len(lines[0].split()) == 1:
        found = _values(lines[0])
        if not found:
            raise ValueError("holds no checksum")
        return found[0]
    about = [line for line in lines if image in {_base(word) for word in line.split()}]
    found = [value for line in about for value in _values(line)]
    if not found:
        raise ValueError(f"holds no checksum of {image!r}")
    return max(found, key=len)


def is_url(value: Any) -> bool:
    return str(value).startswith(("http://", "https://"))


def _values(line: str) -> list[str]:
    return [found for found in _HEX.findall(line) if len(found) in DIGITS.values()]


def _base(word: str) -> str:
    return word.strip("()*").rpartition("/")[2]
