"""
Choice of the drives of logical disks.

A logical disk gets the drives that it names. Otherwise it gets as few drives as possible, all of
one kind, interface and size, the smallest that fit. Logical disks with more requirements choose
first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from drivers.core.errors import BadArgument
from drivers.redfish.storage import Controller, Drive

LogicalDisk = Mapping[str, Any]
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Level:
    """A RAID level, and its numbers of drives."""

    raid: str  # RAIDType
    min_drives: int  # drives
    data: Callable[[int], int]  # number of drives -> number of drives' worth of data
    max_drives: int = 1000  # drives
    by: int = 1  # the number of drives is a multiple of it

    def takes(self, count: int) -> bool:
        return self.min_drives <= count <= self.max_drives and count % self.by == 0


LEVELS: Mapping[str, Level] = {
    "0": Level("RAID0", 1, lambda count: count),
    "1": Level("RAID1", 2, lambda _: 1, max_drives=2),
    "5": Level("RAID5", 3, lambda count: count - 1),
    "6": Level("RAID6", 4, lambda count: count - 2),
    "1+0": Level("RAID10", 4, lambda count: count // 2, by=2),
    "5+0": Level("RAID50", 6, lambda count: count - 2, by=2),
    "6+0": Level("RAID60", 8, lambda count: count - 4, by=2),
}
#: RAIDType -> level
NAMES = {level.raid: name for name, level in LEVELS.items()}


@dataclass(frozen=True, slots=True)
class Choice:
    """The controller and the drives of a logical disk."""

    controller: Controller
    drives: tuple[Drive, ...]


def choose(
    disks: Mapping[int, LogicalDisk], controllers: Sequence[Controller], reserved: frozenset[str]
) -> dict[int, Choice]:
    """
    Choose drives for each logical disk; keys are its numbers in the configuration.

    reserved: names of drives that only logical disks which name them get.

    Raises BadArgument: names the property that no drives satisfy.
    """
    free = _free(controllers)
    choices: dict[int, Choice] = {}
    for number in sorted(disks, key=lambda disk_number: _rank(disks[disk_number])):
        disk, path = disks[number], f"logical_disks/{number}"
        capable_controllers = _capable(disk, controllers, path)
        if "physical_disks" in disk:
            choice = _named(disk, capable_controllers, free, path)
        else:
            choice = _select(disk, capable_controllers, free, reserved, path)
        _use(disk, choice, free)
        choices[number] = choice
    return choices


def _free(controllers: Sequence[Controller]) -> dict[str, int]:
    """Return the free bytes of each drive, by path."""
    free = {drive.path: drive.capacity for controller in controllers for drive in controller.drives}
    for volume in (volume for controller in controllers for volume in controller.volumes):
        level = LEVELS.get(NAMES.get(volume.raid, ""))
        count = len(volume.drives)
        share = -(-volume.capacity // level.data(count)) if level and level.takes(count) else None
        for path in volume.drives & free.keys():
            free[path] = 0 if share is None else max(0, free[path] - share)
    return free


def _rank(disk: LogicalDisk) -> tuple[Any, ...]:
    """Sort key of logical disks: named drives first, most limits, largest size; MAX last."""
    limit_names = ("controller", "disk_type", "interface_type", "number_of_physical_disks")
    size = disk["size_gb"]
    return (
        size == "MAX",
        "physical_disks" not in disk,
        -sum(limit in disk for limit in limit_names),
        0 if size == "MAX" else -size,
    )


def _capable(disk: LogicalDisk, controllers: Sequence[Controller], path: str) -> list[Controller]:
    """
    Return the controllers that can build a logical disk.

    Raises BadArgument: no controller can.
    """
    controller_name, level = disk.get("controller"), LEVELS[disk["raid_level"]]
    candidates = [
        controller for controller in controllers if controller_name in (None, controller.name)
    ]
    if not candidates:
        controller_names = ", ".join(controller.name for controller in controllers) or "none"
        raise BadArgument(
            f"{path}/controller: there is no {controller_name or 'RAID controller'}:"
            f" {controller_names}"
        )
    capable_controllers = [
        controller
        for controller in candidates
        if controller.raids is None or level.raid in controller.raids
    ]
    if not capable_controllers:
        raise BadArgument(f"{path}/raid_level: no controller can build {level.raid}")
    return capable_controllers


def _named(
    disk: LogicalDisk, controllers: Sequence[Controller], free: Mapping[str, int], path: str
) -> Choice:
    """
    Return the drives that a logical disk names, all of one controller.

    Raises BadArgument: a drive is missing, in use, or too small.
    """
    names = disk["physical_disks"]
    for controller in controllers:
        by_name = {drive.name: drive for drive in controller.drives}
        if not all(name in by_name for name in names):
            continue
        drives = [by_name[name] for name in names]
        for drive in drives:
            if not _usable(disk, drive, free):
                raise BadArgument(f"{path}/physical_disks: {drive.name} is in use")
        if _capacity(disk, drives, free) < _size(disk):
            raise BadArgument(f"{path}/size_gb: its physical disks have too little free space")
        return Choice(controller, tuple(drives))
    drive_names = ", ".join(drive.name for candidate in controllers for drive in candidate.drives)
    raise BadArgument(
        f"{path}/physical_disks: no controller has all of them; there are {drive_names}"
    )


def _select(
    disk: LogicalDisk,
    controllers: Sequence[Controller],
    free: Mapping[str, int],
    reserved: frozenset[str],
    path: str,
) -> Choice:
    """
    Choose drives for a logical disk that names none.

    Raises BadArgument: there are not enough free drives of one kind.
    """
    level, choices = LEVELS[disk["raid_level"]], []
    for controller, group in _groups(disk, controllers):
        usable = [
            drive for drive in group if drive.name not in reserved and _usable(disk, drive, free)
        ]
        usable.sort(key=lambda drive: free[drive.path], reverse=disk["size_gb"] == "MAX")
        for count in _counts(disk, level, len(usable)):
            min_bytes = _size(disk) / level.data(count)
            fitting_drives = [drive for drive in usable if free[drive.path] >= min_bytes][:count]
            if len(fitting_drives) == count:
                choices.append(Choice(controller, tuple(fitting_drives)))
                break
    if not choices:
        raise BadArgument(
            f"{path}: there are no free physical disks of one kind for {disk['size_gb']} GiB of"
            f" {level.raid}"
        )
    if disk["size_gb"] == "MAX":
        return max(choices, key=lambda choice: _capacity(disk, choice.drives, free))
    return min(choices, key=lambda choice: (len(choice.drives), choice.drives[0].capacity))


def _groups(
    disk: LogicalDisk, controllers: Sequence[Controller]
) -> Iterator[tuple[Controller, list[Drive]]]:
    """Group the accepted drives by controller, kind, interface and size."""

    def sort(drive: Drive) -> tuple[str, str, int]:
        return drive.kind, drive.interface, drive.capacity

    for controller in controllers:
        for (kind, interface, _), group in groupby(sorted(controller.drives, key=sort), sort):
            allowed_kind = disk.get("disk_type", kind), disk.get("interface_type", interface)
            if allowed_kind == (kind, interface):
                yield controller, list(group)


def _counts(disk: LogicalDisk, level: Level, max_count: int) -> list[int]:
    """Return the numbers of drives to try, the least first."""
    requested_count = disk.get("number_of_physical_disks")
    counts = (
        range(level.min_drives, max_count + 1) if requested_count is None else [requested_count]
    )
    return [count for count in counts if level.takes(count)]


def _usable(disk: LogicalDisk, drive: Drive, free: Mapping[str, int]) -> bool:
    free_bytes = free[drive.path]
    return free_bytes > 0 if disk.get("share_physical_disks") else free_bytes == drive.capacity


def _size(disk: LogicalDisk) -> int:
    return 0 if disk["size_gb"] == "MAX" else disk["size_gb"] * GIB


def _capacity(disk: LogicalDisk, drives: Sequence[Drive], free: Mapping[str, int]) -> int:
    level = LEVELS[disk["raid_level"]]
    return level.data(len(drives)) * min(free[drive.path] for drive in drives)


def _use(disk: LogicalDisk, choice: Choice, free: dict[str, int]) -> None:
    data = LEVELS[disk["raid_level"]].data(len(choice.drives))
    takes_all = disk["size_gb"] == "MAX" or not disk.get("share_physical_disks")
    for drive in choice.drives:
        free[drive.path] = 0 if takes_all else free[drive.path] - -(-_size(disk) // data)
