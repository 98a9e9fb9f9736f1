"""
RAID through the agent: interface `agent`.

The agent reads `target_raid_config` from the node that is sent with each step. Hooks record the
configuration that it has created.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from drivers.agent import in_band
from drivers.core import raid_schema
from drivers.core.conditions import Condition
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface_kinds import Raid
from drivers.core.steps import Done, Flow, Outcome, Resume, step
from drivers.core.target import Target

#: Levels of software RAID.
_SOFTWARE_LEVELS = ("0", "1", "5", "6", "1+0")


class AgentRaid(Raid):
    """Software RAID, and hardware RAID by the agent's hardware managers."""

    name = "agent"
    in_band = True
    priority_settings = {
        "delete_configuration": "delete_configuration_priority",
        "create_configuration": "create_configuration_priority",
    }

    def validate_raid_config(self, target: Target, config: Mapping[str, Any]) -> None:
        super().validate_raid_config(target, config)
        disks = config["logical_disks"]
        software = [
            logical_disk for logical_disk in disks if logical_disk.get("controller") == "software"
        ]
        for number, disk in enumerate(disks):
            if disk in software and disk["raid_level"] not in _SOFTWARE_LEVELS:
                raise InvalidDriverInfo(
                    f"logical_disks/{number}/raid_level: software RAID has"
                    f" {', '.join(_SOFTWARE_LEVELS)}, not {disk['raid_level']}"
                )
        if not software:
            return
        if len(software) < len(disks) or len(disks) > 2:
            raise InvalidDriverInfo(
                "logical_disks: software RAID allows one or two entries, all with controller"
                " software"
            )
        if len(disks) == 2 and disks[0]["raid_level"] != "1":
            raise InvalidDriverInfo(
                "logical_disks/0/raid_level: the first of two software RAIDs must be 1, for the"
                " machine to boot from it"
            )

    @step(clean=0, abortable=True, resume=Resume.PROBE, needs=[Condition.AGENT])
    def delete_configuration(self, target: Target) -> Outcome:
        """Delete all RAID volumes."""
        return _execute(target, "delete_configuration")

    @step(
        clean=0, abortable=True, resume=Resume.PROBE, args=Raid.SELECTION, needs=[Condition.AGENT]
    )
    def create_configuration(
        self,
        target: Target,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> Outcome:
        """Create the RAID volumes of the node's `target_raid_config`."""
        target_config = self.target_config(target)
        disks = raid_schema.selected(
            target_config, root=create_root_volume, include_others=create_nonroot_volumes
        )
        if delete_existing and not target.progress.get("deleted"):
            outcome = _execute(target, "delete_configuration")
            if not isinstance(outcome, Done):
                return outcome
            target = replace(target, progress={"deleted": True})
        narrowed = {
            **target.record,
            "target_raid_config": {**target_config, "logical_disks": list(disks.values())},
        }
        return _execute(replace(target, record=narrowed), "create_configuration")


def is_software(target: Target) -> bool:
    """
    Return whether the node has software RAID, created or wanted.

    The firmware does not read such volumes: each disk needs a boot loader.
    """
    configs = (target.record.get(name) or {} for name in ("raid_config", "target_raid_config"))
    disks = (disk for config in configs for disk in config.get("logical_disks") or ())
    return any(isinstance(disk, Mapping) and disk.get("controller") == "software" for disk in disks)


def _execute(target: Target, name: str) -> Outcome:
    """Run the agent's clean step of the same name."""
    return in_band.execute(target, Flow.CLEAN, {"interface": "raid", "step": name})
