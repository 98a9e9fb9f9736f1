"""
Conversion of qcow2 images to raw ones, by `qemu-img`.

The agent writes a raw image to the disk while it receives it; of a qcow2 image it needs a copy in
the memory of the machine. The content may be hostile: the header is checked again in the very file
that is converted, and the program may neither use more memory nor write more than the disk has.
"""

import shutil
import subprocess
from pathlib import Path

from drivers.core.errors import InvalidDriverInfo
from drivers.images import cache, formats
from drivers.net import child_environment

PROGRAM = "qemu-img"
#: Seconds for a conversion, and bytes of memory.
TIMEOUT, MEMORY = 3600, 2 << 30
_MEBIBYTE = 1 << 20


class Impossible(Exception):
    """An image cannot be converted; the text is the reason."""


def validate(field: str) -> None:
    """Raises InvalidDriverInfo: the program is not installed. field: that asks for conversions."""
    if shutil.which(PROGRAM) is None:
        raise InvalidDriverInfo(f"{field}: {PROGRAM} is not installed on this conductor")


def to_raw(source: Path, path: Path, reserve: int) -> None:
    """
    Write the content of a qcow2 image to another path, which exists only after a success.

    reserve: bytes that have to remain free.

    Raises Impossible: it is damaged or unsafe, or its disk does not fit on the file system.
    Raises OSError: a file cannot be read or written.
    """
    with source.open("rb") as file:
        image_format = formats.identify(file.read(formats.HEAD))
    if image_format.name != "qcow2" or image_format.danger:
        raise Impossible(image_format.danger or "it is no qcow2 image")
    size = image_format.written_bytes or 0
    available_bytes = shutil.disk_usage(path.parent).free - reserve
    if size > available_bytes:
        raise Impossible(
            f"its disk has {size // _MEBIBYTE} MiB, and {path.parent} has"
            f" {max(available_bytes, 0) // _MEBIBYTE} MiB for it ([conductor]fetch_min_free_space)"
        )
    part = cache.unfinished(path)
    try:
        _run(source, part, size)
        cache.complete(part, path)
    finally:
        part.unlink(missing_ok=True)


def _run(source: Path, part: Path, size: int) -> None:
    resource_limits = ["prlimit", f"--as={MEMORY}", f"--fsize={size}"]
    command = [PROGRAM, "convert", "-f", "qcow2", "-O", "raw", f"{source}", f"{part}"]
    try:
        process = subprocess.run(
            [*resource_limits, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=child_environment.without_settings(),
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Impossible(f"{PROGRAM} has not ended within {TIMEOUT} s") from None
    if process.returncode:
        reason = process.stderr.strip().splitlines()[-1:] or [f"status {process.returncode}"]
        raise Impossible(f"{PROGRAM}: {reason[0]}")
