"""
Schema of RAID configurations: the properties of a logical disk.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from drivers.core.errors import BadArgument, InvalidDriverInfo

LEVELS = ("JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0")


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a logical disk."""

    description: str
    form: str  # accepted values, in words
    accepts: Callable[[object], bool]
    required: bool = False


Document = Mapping[str, Property]


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


def _one_of(*choices: str) -> dict[str, Any]:
    return {"form": f"one of {', '.join(choices)}", "accepts": lambda value: value in choices}


_TEXT: dict[str, Any] = {"form": "text", "accepts": _is(str)}
_FLAG: dict[str, Any] = {"form": "true or false", "accepts": _is(bool)}

SCHEMA: Document = {
    "raid_level": Property(
        f"RAID level of the logical disk: {', '.join(LEVELS)}. Required.",
        required=True, **_one_of(*LEVELS)),
    "size_gb": Property(
        "Size of the logical disk in GiB, a whole number, or MAX for all the space there is."
        " Required.", "a whole number above 0, or MAX",
        lambda value: value == "MAX" or _whole(value), required=True),
    "volume_name": Property("Name of the volume; without it the controller chooses one.", **_TEXT),
    "is_root_volume": Property(
        "Whether the system is deployed to it; at most one logical disk says so.", **_FLAG),
    "share_physical_disks": Property(
        "Whether its physical disks may be shared with other logical disks.", **_FLAG),
    "disk_type": Property(
        "Kind of its physical disks: hdd or ssd; any when missing.", **_one_of("hdd", "ssd")),
    "interface_type": Property(
        "Interface of its physical disks: sata, scsi or sas; any when missing.",
        **_one_of("sata", "scsi", "sas")),
    "number_of_physical_disks": Property(
        "How many physical disks to use; the least that its level needs when missing.",
        "a whole number above 0", _whole),
    "controller": Property("The controller to use, as the driver names it.", **_TEXT),
    "physical_disks": Property(
        "The physical disks to use, as the driver names them.", "a list of names or objects",
        lambda value: isinstance(value, list)
        and all(isinstance(item, str | dict) for item in value)),
}  # fmt: skip


def check(config: Mapping[str, Any], schema: Document = SCHEMA) -> None:
    """
    Check a RAID configuration, {"logical_disks": [...]}.

    Raises InvalidDriverInfo: names the property.
    """
    for key in config:
        if key != "logical_disks":
            raise InvalidDriverInfo(f"{key}: a RAID configuration holds only logical_disks")
    disks = config.get("logical_disks")
    if not isinstance(disks, list) or not disks:
        raise InvalidDriverInfo("logical_disks: a list of one or more logical disks is needed")
    for number, disk in enumerate(disks):
        _check_disk(f"logical_disks/{number}", disk, schema)
    if sum(disk.get("is_root_volume", False) for disk in disks) > 1:
        raise InvalidDriverInfo("logical_disks: only one of them can be the root volume")


def _check_disk(path: str, disk: object, schema: Document) -> None:
    if not isinstance(disk, dict):
        raise InvalidDriverInfo(f"{path}: an object is needed")
    for name, value in disk.items():
        field = schema.get(name)
        if field is None:
            raise InvalidDriverInfo(
                f"{path}/{name}: unknown; a logical disk has {', '.join(schema)}"
            )
        if not field.accepts(value):
            raise InvalidDriverInfo(f"{path}/{name}: must be {field.form}, not {value!r}")
    for name, field in schema.items():
        if field.required and name not in disk:
            raise InvalidDriverInfo(f"{path}/{name}: required and missing")


def selected(
    config: Mapping[str, Any], *, root: bool, include_others: bool
) -> dict[int, Mapping[str, Any]]:
    """
    Return the logical disks to build, by number: the root volume, all others, or both.

    Raises BadArgument: no logical disk is left.
    """
    disks = dict(enumerate(config["logical_disks"]))
    selected_disks = {
        n: disk
        for n, disk in disks.items()
        if (root if disk.get("is_root_volume") else include_others)
    }
    if not selected_disks:
        raise BadArgument(
            "create_root_volume, create_nonroot_volumes: no logical disk is left to be built"
        )
    return selected_disks


def descriptions(schema: Document = SCHEMA) -> dict[str, str]:
    return {name: field.description for name, field in schema.items()}
