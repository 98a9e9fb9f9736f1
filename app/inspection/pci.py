"""
PCI devices: accelerators, and counts of devices with an alias.

A device is {vendor_id, product_id, bus, ...}, with ids of four hexadecimal digits.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Device = Mapping[str, Any]

#: Built-in list of accelerators: (vendor, device) -> (type, name).
_ACCELERATORS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("10de", "1eb8"): ("GPU", "NVIDIA Corporation Tesla T4"),
    ("10de", "1df6"): ("GPU", "NVIDIA Corporation GV100GL"),
    ("10de", "2236"): ("GPU", "NVIDIA Corporation A10"),
    ("10de", "2235"): ("GPU", "NVIDIA Corporation A40"),
    ("10de", "26b9"): ("GPU", "NVIDIA Corporation L40S"),
    ("10de", "26ba"): ("GPU", "NVIDIA Corporation L20"),
}
_ALIAS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4}):([\w-]+)")


def accelerators(devices: Iterable[Device], path: str | None) -> list[dict[str, Any]]:
    """
    Return the accelerators: {vendor_id, device_id, type, device_info, pci_address}.

    path: YAML file with known accelerators; by default the built-in list.
    """
    accelerators_by_id = {
        (accelerator["vendor_id"], accelerator["device_id"]): accelerator
        for accelerator in read(path)
    }
    return [
        {**accelerators_by_id[_ids(device)], "pci_address": device["bus"]}
        for device in devices
        if _ids(device) in accelerators_by_id
    ]


@cache
def read(path: str | None) -> Sequence[dict[str, Any]]:
    """
    Return the accelerators under `pci_devices` of a YAML file, or the built-in list without a file.

    Raises ValueError: the file cannot be read, or is malformed.
    """
    if path is None:
        return [
            {"vendor_id": vendor, "device_id": device, "type": kind, "device_info": info}
            for (vendor, device), (kind, info) in _ACCELERATORS.items()
        ]
    import yaml  # needed only with such a file

    try:
        document = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}") from None
    entries = document.get("pci_devices") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise ValueError(f"{path} has no list pci_devices")
    for entry in entries:
        if not (isinstance(entry, dict) and entry.get("vendor_id") and entry.get("device_id")):
            raise ValueError(f"{path}: {entry!r} lacks vendor_id or device_id")
    return entries


def count(devices: Iterable[Device], aliases: Iterable[str]) -> dict[str, int]:
    """Return the number of devices per alias; aliases without a device are left out."""
    names = {(vendor, product): name for vendor, product, name in map(_parse_alias, aliases)}
    return dict(Counter(names[_ids(device)] for device in devices if _ids(device) in names))


def check_aliases(aliases: Iterable[str]) -> None:
    """Raise ValueError for a malformed alias."""
    for alias in aliases:
        _parse_alias(alias)


def _parse_alias(text: str) -> tuple[str, ...]:
    match = _ALIAS.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not of the form vendor:product:name, as 10de:1eb8:t4")
    return match.groups()


def _ids(device: Device) -> tuple[str, str]:
    return device["vendor_id"], device["product_id"]
