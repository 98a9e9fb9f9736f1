"""
Formats of images, by their first bytes; and images of a known format that are unsafe to write.

The inspectors of oslo.utils find unsafe qcow2 images: those that read other files of the machine
that converts them, or need unknown features.
"""

from dataclasses import dataclass

from oslo_utils.imageutils.format_inspector import (
    ImageFormatError,
    QcowInspector,
    SafetyCheckFailed,
)

#: Bytes that identify a format. The volume descriptor of an ISO 9660 image is at their end.
HEAD = 16 * 2048 + 8
#: Sentences about the safety checks of qcow2 images.
_UNSAFE = {
    "backing_file": "it has a backing file, so it is only a part of a disk",
    "data_file": "its data are in another file",
    "unknown_features": "it needs features of qcow2 that are unknown",
}


@dataclass(frozen=True, slots=True)
class Format:
    """Format of an image."""

    name: str | None  # None: unknown
    written_bytes: int | None = None  # bytes on a disk; None: as many as the file has
    danger: str | None = None  # reason not to write the image; None: there is none


def identify(head: bytes) -> Format:
    """Return the format of an image. head: its first `HEAD` bytes, or all of a shorter image."""
    names = [name for magic, offset, name in _MAGIC if head[offset : offset + len(magic)] == magic]
    if not names:
        return Format(None)
    if not (len(names) == 1 or _BOOTABLE.issuperset(names)):
        return Format(names[0], danger=f"it is {' and '.join(sorted(set(names)))} at once")
    return _qcow2(head) if names == ["qcow2"] else Format(names[0])


def _qcow2(head: bytes) -> Format:
    inspector = QcowInspector()
    try:
        inspector.eat_chunk(head)
        inspector.safety_check()
    except SafetyCheckFailed as error:
        reasons = [_UNSAFE.get(name, str(failure)) for name, failure in error.failures.items()]
        return Format("qcow2", inspector.virtual_size, "; ".join(reasons))
    except ImageFormatError:
        return Format("qcow2", danger="its header is incomplete")
    return Format("qcow2", inspector.virtual_size)


#: Formats that an image may have at once: an ISO image, or a GPT, with a boot sector.
_BOOTABLE = {"iso", "gpt", "raw"}
#: (bytes, offset, format); the first match is the name.
_MAGIC = (
    (b"CD001", 16 * 2048 + 1, "iso"),
    (b"EFI PART", 512, "gpt"),
    (b"QFI\xfb", 0, "qcow2"),
    (b"KDMV", 0, "vmdk"),
    (b"vhdxfile", 0, "vhdx"),
    (b"conectix", 0, "vpc"),
    (b"<<< Oracle VM VirtualBox Disk Image >>>", 0, "vdi"),
    (b"# Disk DescriptorFile", 0, "vmdk"),
    (b"QED\0", 0, "qed"),
    # archives and compressed files: written as they are, they would be no disk
    (b"\x1f\x8b", 0, "gzip"),
    (b"\x1f\x9d", 0, "compress"),
    (b"\xfd7zXZ\0", 0, "xz"),
    (b"\x5d\0\0", 0, "lzma"),
    (b"LZIP", 0, "lzip"),
    (b"BZh", 0, "bzip2"),
    (b"\x28\xb5\x2f\xfd", 0, "zstd"),
    (b"\x04\x22\x4d\x18", 0, "lz4"),
    (b"\x02\x21\x4c\x18", 0, "lz4"),  # of its older format
    *((bytes((number,)) + b"\x2a\x4d\x18", 0, "zstd") for number in range(0x50, 0x60)),
    (b"PK\3\4", 0, "zip"),
    (b"7z\xbc\xaf\x27\x1c", 0, "7z"),
    (b"ustar", 257, "tar"),
    (b"\x55\xaa", 510, "raw"),
)
