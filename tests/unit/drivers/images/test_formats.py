"""Formats of images, and images that must not be written."""

import re

import pytest

from drivers.images import formats

MBR = bytes(510) + b"\x55\xaa"
GPT = MBR + b"EFI PART" + bytes(504)
#: Offsets in the header of a qcow2 image: of the name of its backing file, its features, their end.
BACKING_FILE, FEATURES, MINIMUM = 8, 72, 512


def qcow2(version=3, **fields):
    """Return a qcow2 header. fields: o<offset>=<number of eight bytes>."""
    header = bytearray(MINIMUM)
    header[:8] = b"QFI\xfb" + version.to_bytes(4, "big")
    header[24:32] = (3 << 30).to_bytes(8, "big")
    for name, number in fields.items():
        offset = int(name[1:])
        header[offset : offset + 8] = number.to_bytes(8, "big")
    return bytes(header)


def iso(boot_sector=b""):
    return boot_sector.ljust(16 * 2048, b"\0") + b"\1CD001" + bytes(2042)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (qcow2(), "qcow2"),
        (qcow2(2), "qcow2"),
        (qcow2(o72=0b1011), "qcow2"),  # dirty, corrupt, compressed by zstd
        (MBR, "raw"),
        (GPT, "gpt"),
        (iso(), "iso"),
        (iso(MBR), "iso"),
        (iso(GPT), "iso"),
        (b"no such format" * 100, None),
        (b"", None),
    ],
)
def test_formats_are_told_by_the_first_bytes(head, name):
    image_format = formats.identify(head)
    assert (name, None) == (image_format.name, image_format.danger)


@pytest.mark.parametrize(
    ("head", "danger"),
    [
        (qcow2(o8=1024), "it has a backing file"),
        (qcow2(2, o8=1024), "it has a backing file"),
        (qcow2(o72=0b100), "its data are in another file"),
        (qcow2(o72=1 << 5), "features of qcow2 that are unknown"),
        (qcow2(o72=1 << 63), "features of qcow2 that are unknown"),
        (qcow2(1), "features of qcow2 that are unknown"),
        (qcow2(o8=1024, o72=0b100), "backing file.*; its data are in another file"),
        (qcow2()[:100], "its header is incomplete"),
        (iso(qcow2()), "it is iso and qcow2 at once"),
        (iso(b"KDMV"), "it is iso and vmdk at once"),
        (qcow2()[:510] + b"\x55\xaa", "it is qcow2 and raw at once"),
        (b"KDMV" + GPT[4:], "it is gpt and raw and vmdk at once"),
    ],
)
def test_images_that_must_not_be_written_are_told(head, danger):
    assert re.search(danger, formats.identify(head).danger)


def test_the_size_on_a_disk_is_that_of_the_header():
    assert 3 << 30 == formats.identify(qcow2()).written_bytes
