"""Redfish: firmware versions and updates."""

import time
from typing import Any

from drivers.core.errors import (
    HardwareError,
    InvalidDriverInfo,
    NotSupported,
    Refused,
    Unexpected,
    Unreachable,
)
from drivers.core.kinds import Firmware
from drivers.core.steps import Arg, Done, Failed, Outcome, Resume, Wait, step
from drivers.core.target import Target
from drivers.redfish import client, software
from drivers.redfish.interface import Redfish
from drivers.redfish.restart import through_restart

UPDATES = Arg(
    "settings",
    "A list of firmware updates, objects with the keys `component` (bios, bmc, or nic:<name> as"
    " the firmware of the node is listed) and `url`",
    required=True,
    schema={
        "type": "array",
        "items": {"type": "object", "required": ["component", "url"]},
    },
)


class RedfishFirmware(Redfish, Firmware):
    """UpdateService.SimpleUpdate, one component after the other."""

    @step(verify=1)
    def cache_firmware_components(self, target: Target) -> Outcome:
        """Read the firmware versions; a BMC that does not tell them is no reason to fail."""
        try:
            self._read(target)
        except (NotSupported, Refused, Unexpected) as error:
            return Done({"skipped": str(error)})
        return Done()

    @step(service=0, needs_ramdisk=False)
    @step(clean=0, deploy=0, args=(UPDATES,), resume=Resume.PROBE)
    def update(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """
        Update firmware, then restart the machine.

        Each update is ordered once: the BMC's tasks are noted before, and one that is new is ours,
        whoever died meanwhile.
        """
        _check(settings)
        progress = target.progress
        number = int(progress.get("number", 0))
        if "good" in progress:
            return self._come_back(target, number)
        if number < len(settings):
            return self._update(target, settings[number], number)
        outcome = through_restart(target.part("end"), lambda: None, lambda: True)
        if isinstance(outcome, Wait):
            return Wait({"number": number, "end": dict(outcome.progress)}, outcome.poll_after)
        if isinstance(outcome, Done):
            self._read(target, {each["component"]: each["url"] for each in settings})
        return outcome

    def _update(self, target: Target, setting: dict[str, Any], number: int) -> Outcome:
        component, task = setting["component"], target.progress.get("task")
        look = float(target.options["redfish"]["firmware_update_status_interval"])
        if task is None:
            known = target.progress.get("known")
            with client.turn(target, self.bmcs) as bmc:
                if known is None:
                    return Wait({"number": number, "known": bmc.tasks()}, 0, self._limit(target))
                # ordered by an attempt that died, or whose answer was lost
                task = next((each for each in bmc.tasks() if each not in known), None)
                if task is None:
                    target.before_order()
                    task = software.update(bmc, component, setting["url"])
            return Wait({"number": number, "task": task}, look, self._limit(target))
        try:
            with client.turn(target, self.bmcs) as bmc:
                failure = bmc.task_failure(task)
        except Unreachable as error:  # a BMC that is updated restarts
            since = float(target.progress.get("silent_since", time.time()))
            if time.time() - since > target.options["redfish"]["firmware_update_bmc_timeout"]:
                return Failed(f"the BMC is gone since {component} was updated: {error}")
            progress = {"number": number, "task": task, "silent_since": since}
            return Wait(progress, look, self._limit(target))
        if failure is None:
            good = {"good": 0, "updated_at": time.time()} if component == "bmc" else {}
            return Wait({"number": number + 1, **good}, 0.1, self._limit(target))
        if failure:
            return Failed(f"the update of {component} failed: {failure}")
        return Wait({"number": number, "task": task}, look, self._limit(target))

    def _come_back(self, target: Target, number: int) -> Outcome:
        """An updated BMC is back once it has told its versions several times in a row."""
        options = target.options["redfish"]
        gap = float(options["firmware_update_validation_interval"])
        good, updated_at = int(target.progress["good"]), float(target.progress["updated_at"])
        if good >= options["firmware_update_required_successes"]:
            return Wait({"number": number}, 0.1, self._limit(target))
        try:
            self._read(target)
        except HardwareError as error:
            if time.time() - updated_at > options["firmware_update_resource_validation_timeout"]:
                return Failed(f"the BMC does not work as it should since it was updated: {error}")
            good = -1
        progress = {"number": number, "good": good + 1, "updated_at": updated_at}
        return Wait(progress, gap, self._limit(target))

    def _limit(self, target: Target) -> float | None:
        return float(target.options["redfish"]["firmware_update_overall_timeout"]) or None

    def _read(self, target: Target, flashed: dict[str, str] | None = None) -> None:
        with client.turn(target, self.bmcs) as bmc:
            components = software.components(bmc)
        target.report(
            firmware=[
                {**each, "last_version_flashed": each["current_version"]}
                if flashed and each["component"] in flashed
                else each
                for each in components
            ]
        )


def _check(settings: list[dict[str, Any]]) -> None:
    for each in settings:
        component = str(each.get("component"))
        if component not in ("bios", "bmc") and not component.startswith(software.NIC):
            raise InvalidDriverInfo(
                f"settings: component {component!r} is neither bios, bmc, nor {software.NIC}<name>"
            )
        if not str(each.get("url", "")).startswith(("http://", "https://")):
            raise InvalidDriverInfo(f"settings: {each.get('url')!r} is no http or https URL")
