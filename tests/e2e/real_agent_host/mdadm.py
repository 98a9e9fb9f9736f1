"""Stand-in of mdadm, for volumes of level 1: the commands that the agent gives."""

import sys
import uuid
from itertools import pairwise

import devices


def main(*arguments):
    command, *options = arguments
    COMMANDS[command](*options)


def name_of(path):
    name = devices.named(path)
    if name is None:
        sys.exit(f"mdadm: cannot open {path}: No such file or directory")
    return name


def uuid_of(path):
    identity = devices.assembled().get(path.rpartition("/")[2])
    if identity is None:
        sys.exit(f"mdadm: {path} does not appear to be an md device")
    return identity


def create(volume, *arguments):
    """`--create /dev/md0 ... --level 1 --name NAME --raid-devices 2 MEMBER MEMBER`."""
    options = dict(pairwise(arguments))
    if options["--level"] != "1":
        sys.exit(f"mdadm: this stand-in has no level {options['--level']}")
    count = int(options["--raid-devices"])
    identity = ":".join(uuid.uuid4().hex[at : at + 8] for at in (0, 8, 16, 24))
    for path in arguments[-count:]:
        if devices.superblock(name_of(path)):
            sys.exit(f"mdadm: {path} is a member of another volume")
    for path in arguments[-count:]:
        devices.write_superblock(name_of(path), {"uuid": identity, "name": options["--name"]})
    devices.assemble(volume.rpartition("/")[2], identity)


def assemble(*arguments):
    """`--assemble --scan`, which takes names from md127 down; or `--assemble /dev/md0 MEMBER ...`."""
    if "--scan" not in arguments:
        volume, member, *_ = arguments
        devices.assemble(volume.rpartition("/")[2], devices.superblock(name_of(member))["uuid"])
        return
    for identity in volumes():
        if identity not in devices.assembled().values():
            free = (f"md{number}" for number in range(127, 0, -1))
            devices.assemble(next(n for n in free if n not in devices.assembled()), identity)


def volumes():
    """Return UUID -> name of the volumes that have members."""
    superblocks = map(
        devices.superblock, (p for disk in devices.DISKS for p in devices.parts(disk))
    )
    return {superblock["uuid"]: superblock["name"] for superblock in superblocks if superblock}


def detail(path):
    identity = uuid_of(path)
    print(f"{path}:\n  Version : 1.2\n  Raid Level : raid1")
    print(f"  Name : ramdisk:{volumes()[identity]}\n  UUID : {identity}")
    for number, member in enumerate(devices.members(identity)):
        print(f"  {number}  0  {number}  {number}  active sync  /dev/{member}")


def examine(path):
    if path == "--scan":
        for identity, name in volumes().items():
            print(f"ARRAY /dev/md/{name} metadata=1.2 UUID={identity} name=ramdisk:{name}")
        return
    superblock = devices.superblock(name_of(path))
    if not superblock:
        sys.exit(f"mdadm: No md superblock detected on {path}.")
    print(
        f"{path}:\n  Version : 1.2\n  Array UUID : {superblock['uuid']}\n  Name : {superblock['name']}"
    )


def stop(path):
    uuid_of(path)
    devices.disassemble(path.rpartition("/")[2])


def zero_superblock(path):
    devices.write(name_of(path), devices.SUPERBLOCK, bytes(devices.SUPERBLOCK_SIZE))


COMMANDS = {
    "--assemble": assemble,
    "--create": create,
    "--detail": detail,
    "--examine": examine,
    "--stop": stop,
    "--zero-superblock": zero_superblock,
}
