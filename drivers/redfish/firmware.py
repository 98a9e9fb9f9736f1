"""Redfish: firmware versions and updates."""

import time
from dataclasses import replace
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
from drivers.core.steps import Arg, Done, Failed, Outcome, Resume, Wait, run_parts, step
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
    """Firmware updates by UpdateService.SimpleUpdate, one component after the other."""

    @step(verify=1)
    def cache_firmware_components(self, target: Target) -> Outcome:
        """Read the firmware versions; skipped if the BMC does not report them."""
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

        The ids of the BMC's tasks are recorded before an update is started, so that its new task is
        recognised, also after a crash of the conductor.
        """
        _check(settings)
        number = int(target.progress.get("number", 0))
        if "good" in target.progress:
            outcome = self._await_bmc(target, number)
        elif number == len(settings):
            outcome = run_parts(target, {"end": _restart})
        elif "task" in target.progress:
            outcome = self._follow(target, number, settings[number]["component"])
        else:
            outcome = self._order(target, number, settings[number])
        if isinstance(outcome, Done):
            self._read(target, {each["component"]: each["url"] for each in settings})
        if isinstance(outcome, Wait):
            limit = float(target.options["redfish"]["firmware_update_overall_timeout"])
            return replace(outcome, timeout=limit or None)
        return outcome

    def _order(self, target: Target, number: int, setting: dict[str, Any]) -> Outcome:
        """Record the BMC's tasks; then start the update, unless a new task exists already."""
        known = target.progress.get("known")
        with client.turn(target, self.bmcs) as bmc:
            tasks = bmc.tasks()
            if known is None:
                return Wait({"number": number, "known": tasks}, poll_after=0)
            # a new task is of an attempt that crashed, or whose answer was lost
            task = next((each for each in tasks if each not in known), None)
            if task is None:
                named = setting["component"], setting["url"]
                task = software.update(bmc, *named, target.before_order)
        return Wait({"number": number, "task": task}, _interval(target))

    def _follow(self, target: Target, number: int, component: str) -> Outcome:
        """Poll the task of an update; tolerate an unreachable BMC, which may be restarting."""
        task = target.progress["task"]
        running = {"number": number, "task": task}
        try:
            with client.turn(target, self.bmcs) as bmc:
                failure = bmc.task_failure(task)
        except Unreachable as error:
            since = float(target.progress.get("silent_since", time.time()))
            if time.time() - since > target.options["redfish"]["firmware_update_bmc_timeout"]:
                return Failed(f"the BMC is unreachable since {component} was updated: {error}")
            return Wait({**running, "silent_since": since}, _interval(target))
        if failure is None:
            good = {"good": 0, "updated_at": time.time()} if component == "bmc" else {}
            return Wait({"number": number + 1, **good}, 0.1)
        if failure:
            return Failed(f"the update of {component} failed: {failure}")
        return Wait(running, _interval(target))

    def _await_bmc(self, target: Target, number: int) -> Outcome:
        """Wait until an updated BMC has reported its versions several times in a row."""
        options = target.options["redfish"]
        good, updated_at = int(target.progress["good"]), float(target.progress["updated_at"])
        if good >= options["firmware_update_required_successes"]:
            return Wait({"number": number}, 0.1)
        try:
            self._read(target)
        except HardwareError as error:
            if time.time() - updated_at > options["firmware_update_resource_validation_timeout"]:
                return Failed(f"the BMC does not answer correctly since it was updated: {error}")
            good = -1
        progress = {"number": number, "good": good + 1, "updated_at": updated_at}
        return Wait(progress, float(options["firmware_update_validation_interval"]))

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


def _restart(target: Target) -> Outcome:
    return through_restart(target, lambda: None, lambda: True)


def _interval(target: Target) -> float:
    return float(target.options["redfish"]["firmware_update_status_interval"])


def _check(settings: list[dict[str, Any]]) -> None:
    for each in settings:
        component = str(each.get("component"))
        if component not in ("bios", "bmc") and not component.startswith(software.NIC):
            raise InvalidDriverInfo(
                f"settings: component {component!r} is neither bios, bmc, nor {software.NIC}<name>"
            )
        if not str(each.get("url", "")).startswith(("http://", "https://")):
            raise InvalidDriverInfo(f"settings: {each.get('url')!r} is no http or https URL")
