"""
Block devices of the machine: files in `dev` of its folder, under the names that the kernel uses.

A disk's file holds its content. The file of a partition or a RAID volume holds only what a process
wrote to it: `settle` moves that to the disks below, as the kernel does.
"""

import json
import os
import struct
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
DEV = FOLDER / "dev"
DISKS = ("diska", "diskb")
DISK_SIZE = int((FOLDER / "disk-size").read_text())
SECTOR = 512
MEBIBYTE = 1 << 20
#: The table of partitions in the first sector of a disk (MBR).
IDENTITY, TABLE, ENTRY = 440, 446, struct.Struct("<B3xB3xII")
#: A member of a RAID volume: its superblock, and the beginning of the volume's content.
SUPERBLOCK, SUPERBLOCK_SIZE, CONTENT = 4096, 512, MEBIBYTE
#: Names of the assembled RAID volumes, and the UUID of each.
ASSEMBLED = FOLDER / "assembled"


def named(path):
    """Return the name of a device; None for any other file. The machine has no others."""
    path = Path(path)
    return path.name if path.parent in (Path("/dev"), DEV) and (DEV / path.name).exists() else None


def parent(name):
    """Return (name, number) of a partition's disk or volume and the partition; else None."""
    stem = name.rstrip("0123456789")
    if name in DISKS or stem == "md" or stem == name:
        return None
    return (stem.removesuffix("p") if stem.startswith("md") else stem), int(name[len(stem) :])


def partition_name(name, number):
    return f"{name}p{number}" if name.startswith("md") else f"{name}{number}"


def places(name):
    """Return (file of a disk, first byte) of each copy of a device's content."""
    if name in DISKS:
        return [(DEV / name, 0)]
    if whole := parent(name):
        start = partitions(whole[0])[whole[1]][0] * SECTOR
        return [(disk, start + offset) for disk, offset in places(whole[0])]
    return [
        (disk, CONTENT + offset)
        for member in members(assembled()[name])
        for disk, offset in places(member)
    ]


def size(name):
    if name in DISKS:
        return DISK_SIZE
    if whole := parent(name):
        return partitions(whole[0])[whole[1]][1] * SECTOR
    return min(map(size, members(assembled()[name]))) - CONTENT


def read(name, offset, length):
    disk, start = places(name)[0]
    with disk.open("rb") as file:
        file.seek(start + offset)
        return file.read(length)


def write(name, offset, content):
    for disk, start in places(name):
        with disk.open("r+b") as file:
            file.seek(start + offset)
            file.write(content)


def partitions(name):
    """Return number -> (first sector, sectors) in the table of a device; None without a table."""
    head = read(name, 0, SECTOR)
    if head[510:512] != b"\x55\xaa":
        return None
    entries = [ENTRY.unpack_from(head, TABLE + ENTRY.size * at) for at in range(4)]
    return {
        number: (start, length)
        for number, (_, kind, start, length) in enumerate(entries, 1)
        if kind
    }


def make_table(name):
    write(name, TABLE, bytes(4 * ENTRY.size) + b"\x55\xaa")


def add_partition(name, kind, start, sectors):
    number = max(partitions(name), default=0) + 1
    write(name, TABLE + ENTRY.size * (number - 1), ENTRY.pack(0, kind, start, sectors))


# RAID volumes


def assembled():
    """Return name -> UUID of the RAID volumes that are assembled."""
    return json.loads(ASSEMBLED.read_text()) if ASSEMBLED.exists() else {}


def assemble(name, uuid):
    ASSEMBLED.write_text(json.dumps({**assembled(), name: uuid}))


def disassemble(name):
    ASSEMBLED.write_text(json.dumps({k: v for k, v in assembled().items() if k != name}))


def superblock(name):
    """Return the facts in the RAID superblock of a device; None without one."""
    content = read(name, SUPERBLOCK, SUPERBLOCK_SIZE).rstrip(b"\0")
    return json.loads(content) if content.startswith(b'{"uuid"') else None


def write_superblock(member, facts):
    write(member, SUPERBLOCK, json.dumps(facts).encode().ljust(SUPERBLOCK_SIZE, b"\0"))


def forget_signatures(name):
    """Erase the table of partitions and the superblock of a device."""
    write(name, 0, bytes(SUPERBLOCK + SUPERBLOCK_SIZE))


def members(uuid):
    """Return the partitions of disks that are members of a RAID volume."""
    return [
        partition for disk in DISKS for partition in parts(disk)
        if (superblock(partition) or {}).get("uuid") == uuid
    ]  # fmt: skip


# device files


def parts(name):
    return [partition_name(name, number) for number in partitions(name) or ()]


def listed():
    """Return the names of all devices."""
    volumes = sorted(assembled())
    disks = [name for disk in DISKS for name in (disk, *parts(disk))]
    return disks + [name for volume in volumes for name in (volume, *parts(volume))]


def settle():
    """Move what was written to device files to the disks; create and remove device files."""
    for disk in DISKS:  # a process may have truncated its file
        os.truncate(DEV / disk, size(disk))
    for name, uuid in assembled().items():
        if not members(uuid):
            disassemble(name)
    for name in listed():
        if name not in DISKS and (DEV / name).exists():
            _move(name)
    names = listed()
    for path in DEV.iterdir():
        if path.name not in names:
            path.unlink()
    for name in names:
        if name not in DISKS:
            (DEV / name).write_bytes(b"")
            os.truncate(DEV / name, size(name))


def _move(name):
    with (DEV / name).open("rb") as source:
        while content := _next_written(source):
            write(name, source.tell() - len(content), content)


def _next_written(source):
    """Return the next piece of a file that is no hole; empty at its end."""
    try:
        start = os.lseek(source.fileno(), source.tell(), os.SEEK_DATA)
    except OSError:
        return b""
    end = os.lseek(source.fileno(), start, os.SEEK_HOLE)
    source.seek(start)
    return source.read(end - start)
