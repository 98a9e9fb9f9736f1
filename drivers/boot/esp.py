"""
Build an EFI system partition: a FAT16 file system with one boot loader.

UEFI boots a CD from such an image. It contains only EFI/BOOT/BOOTxxx.EFI; the loader reads its
configuration from the CD.
"""

import struct

#: Architecture -> file name of the default boot loader, in FAT's 8.3 form.
LOADER = {"x86_64": b"BOOTX64 EFI", "aarch64": b"BOOTAA64EFI"}
_SECTOR = 512
_ROOT_ENTRIES = 512
#: Number of clusters of a FAT16 file system, by definition.
_FEWEST, _MOST = 4085, 65524
_DIRECTORY, _FILE = 0x10, 0x20
_END = 0xFFFF


def image(loader: bytes, architecture: str) -> bytes:
    """
    Return the image of the partition.

    Raises KeyError: the loader's name is unknown for this architecture.
    """
    per_cluster = 1
    while len(loader) // (per_cluster * _SECTOR) > _MOST - 64:
        per_cluster *= 2
    size = per_cluster * _SECTOR
    cluster_count = -(-len(loader) // size)
    clusters = max(cluster_count + 16, _FEWEST + 16)
    fat_sectors = -(-(clusters + 2) * 2 // _SECTOR)
    # clusters are counted from 2: EFI, EFI/BOOT, and the loader in one run
    efi, boot, first_cluster = 2, 3, 4
    chain = [
        0xFFF8,
        _END,
        _END,
        _END,
        *range(first_cluster + 1, first_cluster + cluster_count),
        _END,
    ]
    fat = struct.pack(f"<{len(chain)}H", *chain).ljust(fat_sectors * _SECTOR, b"\0")
    data = b"".join(
        (
            _directory(efi, 0, _entry(b"BOOT       ", _DIRECTORY, boot), size),
            _directory(
                boot, efi, _entry(LOADER[architecture], _FILE, first_cluster, len(loader)), size
            ),
            loader.ljust(cluster_count * size, b"\0"),
        )
    )
    return b"".join(
        (
            _boot_sector(per_cluster, clusters, fat_sectors),
            fat * 2,
            _entry(b"EFI        ", _DIRECTORY, efi).ljust(_ROOT_ENTRIES * 32, b"\0"),
            data.ljust(clusters * size, b"\0"),
        )
    )


def _boot_sector(per_cluster: int, clusters: int, fat_sectors: int) -> bytes:
    total = 1 + 2 * fat_sectors + _ROOT_ENTRIES * 32 // _SECTOR + clusters * per_cluster
    small, large = (total, 0) if total < 1 << 16 else (0, total)
    sector = b"\xeb\x3c\x90INGOT   " + struct.pack(
        "<HBHBHHBHHHII",
        _SECTOR, per_cluster, 1, 2, _ROOT_ENTRIES, small, 0xF8, fat_sectors, 32, 64, 0, large,
    )  # fmt: skip
    sector += struct.pack("<BBBI11s8s", 0x80, 0, 0x29, 0x1960, b"NO NAME    ", b"FAT16   ")
    return sector.ljust(510, b"\0") + b"\x55\xaa"


def _directory(cluster: int, parent: int, entry: bytes, size: int) -> bytes:
    self_entries = _entry(b".          ", _DIRECTORY, cluster) + _entry(
        b"..         ", _DIRECTORY, parent
    )
    return (self_entries + entry).ljust(size, b"\0")


def _entry(name: bytes, attributes: int, cluster: int, size: int = 0) -> bytes:
    """Return a directory entry, dated to the first day of FAT's calendar."""
    return struct.pack(
        "<11sBBBHHHHHHHI", name, attributes, 0, 0, 0, 0x21, 0x21, 0, 0, 0x21, cluster, size
    )
