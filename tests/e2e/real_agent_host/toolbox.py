"""
Stand-ins of all programs that the agent may start; they work on a disk that is a file.

Called by the program's name. A path outside of the machine's folder is refused.
"""

import json
import os
import struct
import sys
import urllib.request
from pathlib import Path

FOLDER = Path(os.environ["MACHINE"]).resolve()
DISK = FOLDER / "disk"
SECTOR = 512
MEBIBYTE = 1 << 20
TABLE, ENTRY = 446, struct.Struct("<B3xB3xII")


def partitions():
    """Return number -> (first sector, sectors) of the disk's MBR; None without one."""
    with DISK.open("rb") as disk:
        head = disk.read(SECTOR)
    if head[510:512] != b"\x55\xaa":
        return None
    entries = [ENTRY.unpack_from(head, TABLE + ENTRY.size * at) for at in range(4)]
    return {
        number: (first, length)
        for number, (_, kind, first, length) in enumerate(entries, 1)
        if kind
    }


def place(path):
    """Return (file, first byte) of a disk, of its partition, or of another file of the machine."""
    if path == "/dev/zero":
        return Path(path), 0
    path = Path(path).resolve()
    if FOLDER not in path.parents:
        sys.exit(f"{path} is outside of this machine")
    number = path.name.removeprefix(DISK.name)
    if path.parent == FOLDER and number.isdigit():
        return DISK, partitions()[int(number)][0] * SECTOR
    return path, 0


def parted(*arguments):
    if "mklabel" in arguments:
        return make_table(arguments[arguments.index("mklabel") :])
    if "mkpart" in arguments:
        return add_partition(*arguments[-2:])
    found = partitions()
    if found is None:
        sys.exit(f"Error: {DISK}: unrecognised disk label")
    size = DISK.stat().st_size
    if "-m" not in arguments:
        print(f"Disk {DISK}: {size}B\nPartition Table: msdos")
        return None
    print(f"BYT;\n{DISK}:{size / MEBIBYTE:.2f}MiB:file:512:512:msdos:File:;")
    for number, (first, length) in found.items():
        ends = [each * SECTOR / MEBIBYTE for each in (first, first + length, length)]
        print(f"{number}:" + ":".join(f"{end:.2f}MiB" for end in ends) + ":::;")
    return None


def make_table(words):
    """`mklabel msdos`, then `mkpart primary FILESYSTEM START END` in MiB for each partition."""
    assert words[1] == "msdos", words
    with DISK.open("r+b") as disk:
        disk.write(bytes(TABLE) + bytes(4 * ENTRY.size) + b"\x55\xaa")
    starts = (at for at, word in enumerate(words) if word == "mkpart")
    for number, at in enumerate(starts, 1):
        first, last = (int(word) * MEBIBYTE // SECTOR for word in words[at + 3 : at + 5])
        enter(number, 0x83, first, last - first)


def enter(number, kind, first, length):
    """Enter a partition into the table, and create its device, as the kernel does."""
    with DISK.open("r+b") as disk:
        disk.seek(TABLE + ENTRY.size * (number - 1))
        disk.write(ENTRY.pack(0, kind, first, length))
    empty(Path(f"{DISK}{number}"), length * SECTOR)


def empty(device, size):
    device.write_bytes(b"")
    os.truncate(device, size)


def add_partition(start, end):
    """Create a partition from so many MiB before the end of the disk (`-64MiB`) to there (`-0`)."""
    assert end == "-0", end
    length = -int(start.removesuffix("MiB")) * MEBIBYTE // SECTOR
    number = max(partitions(), default=0) + 1
    enter(number, 0x0C, DISK.stat().st_size // SECTOR - length, length)


def write_back():
    """Copy the content of the partitions' devices to the disk, as the kernel does."""
    for number, (first, length) in (partitions() or {}).items():
        device = Path(f"{DISK}{number}")
        if not device.exists() or not device.stat().st_blocks:
            continue
        with device.open("rb") as source, DISK.open("r+b") as disk:
            while content := next_written(source):
                disk.seek(first * SECTOR + source.tell() - len(content))
                disk.write(content)
        empty(device, length * SECTOR)


def next_written(source):
    """Return the next piece of a file that is no hole; empty at its end."""
    try:
        start = os.lseek(source.fileno(), source.tell(), os.SEEK_DATA)
    except OSError:
        return b""
    end = os.lseek(source.fileno(), start, os.SEEK_HOLE)
    source.seek(start)
    return source.read(end - start)


def partprobe(*arguments):
    if "-s" in arguments:
        print(f"{DISK}: msdos partitions {' '.join(map(str, partitions()))}")


def hexdump(*arguments):
    path, _ = place(arguments[-1])
    with path.open("rb") as file:
        file.seek(int(arguments[arguments.index("-s") + 1]))
        (found,) = struct.unpack("<I", file.read(4))
        print(f"0x{found:08x}", end="")


def dd(*arguments):
    options = dict(argument.split("=", 1) for argument in arguments)
    block = {"1M": MEBIBYTE}.get(options.get("bs")) or int(options.get("bs", SECTOR))
    source, start = place(options["if"])
    target, offset = place(options["of"])
    with source.open("rb") as read, target.open("r+b") as write:
        read.seek(start)
        write.seek(offset + int(options.get("seek", 0)) * block)
        write.write(read.read(int(options["count"]) * block) if "count" in options else read.read())


def blockdev(question, device):
    path, _ = place(device)
    print({"--getsize64": path.stat().st_size, "--getss": SECTOR}[question])


def lsblk(*arguments):
    if "UUID,PARTUUID" in arguments:
        print('UUID="" PARTUUID=""')


def test(operator, path):
    assert operator == "-e", operator
    sys.exit(not Path(path).exists())


def switch(reset_type):
    """Switch the machine's power from within, through its BMC."""
    request = urllib.request.Request(
        os.environ["MACHINE_RESET"],
        json.dumps({"ResetType": reset_type}).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()


def qemu_img(*arguments):
    os.execv(os.environ["MACHINE_QEMU_IMG"], ["qemu-img", *arguments])


def nothing(*_):
    """Succeed without an effect."""


PROGRAMS = {
    "parted": parted,
    "partprobe": partprobe,
    "hexdump": hexdump,
    "dd": dd,
    "blockdev": blockdev,
    "lsblk": lsblk,
    "test": test,
    "poweroff": lambda *_: switch("ForceOff"),
    "reboot": lambda *_: switch("ForceRestart"),
    "qemu-img": qemu_img,
    **dict.fromkeys(
        ("fuser", "hwclock", "ip", "journalctl", "mkswap", "modprobe", "mount", "partx", "sgdisk", "sync", "udevadm",
         "umount", "wipefs"),
        nothing,
    ),
}  # fmt: skip

if __name__ == "__main__" and sys.argv[1:] == ["--list"]:
    print(*PROGRAMS)
elif __name__ == "__main__":
    # a truncated file would be shorter, a disk never is
    os.truncate(DISK, int(os.environ["MACHINE_DISK_SIZE"]))
    write_back()
    PROGRAMS[Path(sys.argv[0]).name](*sys.argv[1:])
