"""
Stand-ins of all programs that the agent may start; they work on disks that are files.

Called by the program's name. A path outside of the machine's folder is refused.
"""

import json
import os
import re
import struct
import sys
from pathlib import Path

import devices
import mdadm
from devices import FOLDER, MEBIBYTE, SECTOR

UNITS = {"s": SECTOR, "MiB": MEBIBYTE, "GiB": 1 << 30, "MB": 1_000_000}
#: Disks with a boot loader, one a line.
BOOT_LOADERS = FOLDER / "boot-loaders"


def device(path):
    """Return the name of a device of the machine."""
    name = devices.named(path)
    if name is None:
        sys.exit(f"{path} is no device of this machine")
    return name


def own(path):
    """Return the path of a file of the machine."""
    path = Path(path).resolve()
    if FOLDER not in path.parents:
        sys.exit(f"{path} is outside of this machine")
    return path


def parted(*arguments):
    name = device(next(argument for argument in arguments if argument.startswith("/")))
    words, unit = list(arguments), "MB"
    while words:
        word = words.pop(0)
        if word == "unit":
            unit = words.pop(0)
        elif word == "mklabel":
            label = words.pop(0)
            assert label == "msdos", label
            devices.make_table(name)
        elif word == "mkpart":
            assert words.pop(0) == "primary"
            file_system = None if re.match(r"-?\d", words[0]) else words.pop(0)
            start, end = (byte(name, words.pop(0), unit) // SECTOR for _ in range(2))
            devices.add_partition(
                name, 0x0C if file_system == "fat32" else 0x83, start, end - start
            )
        elif word == "print":
            print_table(name, machine_readable="-m" in arguments)


def byte(name, position, unit):
    """Return the first byte of a position in parted's words; a negative one is before the end."""
    number, suffix = re.fullmatch(r"(-?\d+)(\D*)", position).groups()
    distance = int(number) * UNITS[suffix or unit]
    return devices.size(name) + distance if position.startswith("-") else distance


def print_table(name, machine_readable):
    partitions = devices.partitions(name)
    if partitions is None:
        sys.exit(f"Error: /dev/{name}: unrecognised disk label")
    size = devices.size(name)
    if not machine_readable:
        print(f"Disk /dev/{name}: {size}B\nPartition Table: msdos")
        return
    print(f"BYT;\n/dev/{name}:{size / MEBIBYTE:.2f}MiB:file:512:512:msdos:File:;")
    for number, (start, length) in partitions.items():
        ends = [sectors * SECTOR / MEBIBYTE for sectors in (start, start + length, length)]
        print(f"{number}:" + ":".join(f"{end:.2f}MiB" for end in ends) + ":::;")


def partprobe(*arguments):
    if "-s" in arguments:
        partitions = devices.partitions(device(arguments[-1]))
        print(f"{arguments[-1]}: msdos partitions {' '.join(map(str, partitions))}")


def sgdisk(option, path):
    if option == "-F":
        print(2048)
    elif option == "-Z":
        devices.write(device(path), 0, bytes(SECTOR))


def wipefs(*arguments):
    devices.forget_signatures(device(arguments[-1]))


def hexdump(*arguments):
    offset = int(arguments[arguments.index("-s") + 1])
    (number,) = struct.unpack("<I", devices.read(device(arguments[-1]), offset, 4))
    print(f"0x{number:08x}", end="")


def dd(*arguments):
    options = dict(argument.split("=", 1) for argument in arguments)
    block = {"1M": MEBIBYTE}.get(options.get("bs")) or int(options.get("bs", SECTOR))
    length = int(options["count"]) * block if "count" in options else None
    zeros = options["if"] == "/dev/zero"
    content = bytes(length) if zeros else own(options["if"]).read_bytes()[:length]
    devices.write(device(options["of"]), int(options.get("seek", 0)) * block, content)


def blockdev(question, path):
    print({"--getsize64": devices.size(device(path)), "--getss": SECTOR}[question])


def lsblk(*arguments):
    """List devices with the columns after `-o`; without them, the agent seeks labels: none."""
    options = [argument for argument in arguments if argument.startswith("-")]
    columns = next(
        (option.rpartition("o")[2] for option in options if "KNAME" in option), ""
    ).split(",")
    rows = [
        {column: block_device(name).get(column) for column in columns} for name in chosen(arguments)
    ]
    if "--json" in options:
        print(json.dumps({"blockdevices": [{k.lower(): v for k, v in r.items()} for r in rows]}))
    elif "-PbioKNAME,UUID,PARTUUID,TYPE,LABEL" in options:
        for row in rows:
            print(" ".join(f'{column}="{value or ""}"' for column, value in row.items()))
    elif "UUID,PARTUUID" in arguments:
        print('UUID="" PARTUUID=""')


def chosen(arguments):
    """Return the device of these arguments with its partitions; without one, all."""
    path = next((argument for argument in arguments if argument.startswith("/")), None)
    return devices.listed() if path is None else [device(path), *devices.parts(device(path))]


def block_device(name):
    """Return the columns of a device in lsblk."""
    whole = devices.parent(name)
    volume = name.startswith("md")
    columns = {
        "KNAME": name, "SIZE": devices.size(name), "ROTA": 0, "LOG-SEC": SECTOR, "PHY-SEC": SECTOR,
        "TYPE": ("md" if volume else "part") if whole else ("raid1" if volume else "disk"),
    }  # fmt: skip
    if whole:
        (identity,) = struct.unpack("<I", devices.read(whole[0], devices.IDENTITY, 4))
        columns["PARTUUID"] = f"{identity:08x}-{whole[1]:02x}"
    elif not volume:
        columns |= {"MODEL": "File", "SERIAL": str(devices.DISKS.index(name) + 1)}
    return columns


def chroot(_root, _shell, _option, command):
    """Run a command of the instance; only `grub-install` does anything."""
    program, *arguments = command.split()
    if program == "grub-install":
        with BOOT_LOADERS.open("a") as file:
            file.write(f"{device(arguments[-1])}\n")
    elif program == "which":
        sys.exit(1)


def mkdir(_option, path):
    own(path).mkdir(parents=True, exist_ok=True)


def test(operator, path):
    assert operator == "-e", operator
    sys.exit(devices.named(path) is None)


def switch(reset_type):
    """Switch the machine's power from within, through its BMC."""
    import urllib.request  # here: the import takes most of the time of the other programs

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
    "blockdev": blockdev,
    "chroot": chroot,
    "dd": dd,
    "hexdump": hexdump,
    "lsblk": lsblk,
    "mdadm": mdadm.main,
    "mkdir": mkdir,
    "parted": parted,
    "partprobe": partprobe,
    "poweroff": lambda *_: switch("ForceOff"),
    "qemu-img": qemu_img,
    "reboot": lambda *_: switch("ForceRestart"),
    "sgdisk": sgdisk,
    "test": test,
    "wipefs": wipefs,
    **dict.fromkeys(
        ("fuser", "hwclock", "ip", "journalctl", "mkswap", "modprobe", "mount", "partx", "sync", "udevadm", "umount"),
        nothing,
    ),
}  # fmt: skip

if __name__ == "__main__" and sys.argv[1:] == ["--list"]:
    print(*PROGRAMS)
elif __name__ == "__main__":
    devices.settle()
    try:
        PROGRAMS[Path(sys.argv[0]).name](*sys.argv[1:])
    finally:
        devices.settle()
