"""
Erasure of disks: the settings that the agent follows, and what it tells about the erased disks.

A step of the agent reports names of devices at most, and names may differ at the next boot. So the
agent is asked for its inventory right after the step: the serial numbers are of the same boot.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from drivers.agent import client
from drivers.core.errors import HardwareError
from drivers.core.steps import Flow
from drivers.core.target import Target

#: Steps of the interface deploy that erase disks.
_STEPS = frozenset({"erase_devices", "erase_devices_metadata", "erase_devices_express"})
#: Key of driver_internal_info that the agent reads -> option of [deploy].
_SETTINGS = {
    "agent_erase_devices_iterations": "shred_random_overwrite_iterations",
    "agent_erase_devices_zeroize": "shred_final_overwrite_with_zeros",
    "agent_continue_if_ata_erase_failed": "continue_if_disk_secure_erase_fails",
    "agent_continue_if_secure_erase_failed": "continue_if_disk_secure_erase_fails",
    "agent_enable_nvme_secure_erase": "enable_nvme_secure_erase",
    "agent_enable_ata_secure_erase": "enable_ata_secure_erase",
    "disk_erasure_concurrency": "disk_erasure_concurrency",
    "agent_erase_skip_read_only": "erase_skip_read_only",
}
#: Facts about a disk that are kept, and most characters of one.
_FACTS, _LONGEST = ("name", "serial", "wwn", "vendor", "model"), 255
#: Most bytes of facts about disks: they are in the row of the step.
_MOST_BYTES = 64 << 10
_LARGEST = 2**53


def is_one(flow: Flow, step: Mapping[str, object]) -> bool:
    """Whether a step of the agent is an erasure, of which a report is made."""
    return flow is Flow.CLEAN and step["interface"] == "deploy" and step["step"] in _STEPS


def settings(target: Target) -> dict[str, Any]:
    """Return the settings of erasures, by the key that the agent reads."""
    return {key: target.options["deploy"][name] for key, name in _SETTINGS.items()}


def evidence(target: Target) -> dict[str, object]:
    """
    Ask the agent, after a step that erases, which disks the machine has.

    Returns {"erasure": {"disks": [{name, serial, wwn, vendor, model, size}] or None, "settings",
    "problem"}}. disks: None if the agent does not tell; `problem` then has the reason.
    """
    applied_settings = {name: target.options["deploy"][name] for name in _SETTINGS.values()}
    answer: dict[str, Any] = {"disks": None, "settings": applied_settings, "problem": None}
    try:
        disks = client.inventory(target).get("disks")
    except HardwareError as error:
        return {"erasure": answer | {"problem": str(error)[:_LONGEST]}}
    if not isinstance(disks, list):
        return {"erasure": answer | {"problem": "the agent's inventory has no list of disks"}}
    facts = [_facts(disk) for disk in disks]
    if len(orjson.dumps(facts)) > _MOST_BYTES:
        return {"erasure": answer | {"problem": f"the agent lists {len(disks)} disks, not kept"}}
    return {"erasure": answer | {"disks": facts}}


def _facts(disk: object) -> dict[str, Any]:
    values: Mapping[str, Any] = disk if isinstance(disk, Mapping) else {}
    facts: dict[str, Any] = {name: _text(values.get(name)) for name in _FACTS}
    size = values.get("size")
    is_size = isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= _LARGEST
    return facts | {"size": size if is_size else None}


def _text(value: object) -> str | None:
    """Return a text that can be printed; None for other values, and for an empty one."""
    if not isinstance(value, str):
        return None
    return "".join(filter(str.isprintable, value[:_LONGEST])).strip() or None
