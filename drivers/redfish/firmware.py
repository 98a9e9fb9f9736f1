"""Redfish: firmware versions and updates."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

from drivers.core.errors import (
    FailureCode,
    HardwareError,
    InvalidDriverInfo,
    LeaseLost,
    NotSupported,
    Refused,
    Unexpected,
)
from drivers.core.interface_kinds import Firmware
from drivers.core.steps import AWAITED, Arg, Done, Failed, Outcome, Resume, Wait, step
from drivers.core.target import Target, run_parts
from drivers.redfish import software
from drivers.redfish.changes import orders
from drivers.redfish.changes.orders import Pace
from drivers.redfish.changes.restart import PATIENCE, through_restart
from drivers.redfish.changes.tasks import End
from drivers.redfish.interface import Redfish
from drivers.redfish.transport import client

UPDATES = Arg(
    "settings",
    "A list of firmware updates, objects with the keys `component` (bios, bmc, or nic:<name> as"
    " the firmware of the node is listed) and `url`; optional: `version` of the image, which is"
    " compared afterwards, `target`, path or Id of an entry in the BMC's firmware inventory, and"
    " `wait`, seconds until the next update or the restart",
    required=True,
    schema={
        "type": "array",
        "items": {"type": "object", "required": ["component", "url"]},
    },
)
_LONGEST = 3600  # seconds of `wait`
#: Keys of an update.
_KEYS = frozenset({"component", "target", "url", "version", "wait"})


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

        Each update is recorded before it is ordered, and its end and the versions afterwards are
        compared with the order. The machine is not restarted unless all updates have ended.
        """
        _check(settings)
        number = int(target.progress.get("number", 0))
        if "good" in target.progress:
            outcome = self._await_bmc(target)
        elif number < len(settings):
            outcome = self._update(target, settings[number])
        elif "restarted" not in target.progress:
            outcome = run_parts(target, {"end": through_restart})
            if isinstance(outcome, Done):
                so_far = {"number": number, "ends": target.progress["ends"]}
                outcome = Wait({**so_far, "restarted": True}, 0.1)
        else:
            outcome = self._follow_staged(target, settings) or self._compare(target, settings)
        if isinstance(outcome, Wait):
            limit = float(target.options["redfish"]["firmware_update_overall_timeout"])
            return replace(outcome, timeout=limit or None)
        return outcome

    def _update(self, target: Target, setting: dict[str, Any]) -> Outcome:
        """Order an update, and wait for its end."""
        progress = target.progress
        number, ends = int(progress.get("number", 0)), list(progress.get("ends", ()))
        so_far = {"number": number, "ends": ends}
        pace, order = _pace(target), _order(setting)
        order_record = progress.get("record")
        if order_record is None:
            place_order = partial(orders.place, bmcs=self.bmcs, order=order, pace=pace)
            outcome = run_parts(target, {"order": place_order})
            if not isinstance(outcome, Done):
                return outcome
            order_record = {**so_far, "record": dict(outcome.result)}
            return Wait(
                {**order_record, AWAITED: f"{order.subject}, which has begun"}, pace.interval
            )
        follow = partial(orders.follow, bmcs=self.bmcs, order=order, pace=pace, record=order_record)
        outcome = run_parts(target, {"follow": follow})
        if not isinstance(outcome, Done):
            return outcome
        success_count = {"good": 0, "polls": 0} if setting["component"] == "bmc" else {}
        end = _end(outcome)
        pause = max(0.1, float(setting.get("wait", 0)))
        return Wait({"number": number + 1, "ends": [*ends, end], **success_count}, pause)

    def _follow_staged(self, target: Target, settings: list[dict[str, Any]]) -> Outcome | None:
        """
        Wait for the end of the first update that the restart started; None once all have ended.
        """
        progress, ends = target.progress, list(target.progress["ends"])
        number = next(
            (index for index, update_end in enumerate(ends) if update_end["end"] == End.STAGED),
            None,
        )
        if number is None:
            return None
        follow = partial(
            orders.follow,
            bmcs=self.bmcs,
            order=_order(settings[number]),
            pace=_pace(target),
            record=ends[number]["record"],
            is_restarted=True,
        )
        outcome = run_parts(target, {"follow": follow})
        if not isinstance(outcome, Done):
            return outcome
        ends[number] = _end(outcome)
        return Wait({"number": progress["number"], "ends": ends, "restarted": True}, 0.1)

    def _await_bmc(self, target: Target) -> Outcome:
        """Wait until an updated BMC has reported its versions several times in a row."""
        options, progress = target.options["redfish"], target.progress
        success_count, polls = int(progress["good"]), int(progress["polls"])
        reason = None
        so_far = {"number": progress["number"], "ends": progress["ends"]}
        if success_count >= options["firmware_update_required_successes"]:
            return Wait(so_far, 0.1)
        interval = float(options["firmware_update_validation_interval"])
        try:
            self._read(target)
        except HardwareError as error:
            if (polls + 1) * interval > options["firmware_update_resource_validation_timeout"]:
                return Failed(f"the BMC does not answer correctly since it was updated: {error}")
            success_count, reason = -1, str(error)
        awaited_event = "the updated BMC to report its versions"
        polled = {**so_far, "good": success_count + 1, "polls": polls + 1, AWAITED: awaited_event}
        return Wait(polled, interval, reason=reason)

    def _compare(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """Compare the versions with the orders, for some time; then report them."""
        progress = target.progress
        try:
            components = self._read(target, {setting["component"] for setting in settings})
        except LeaseLost:
            raise
        except HardwareError as error:
            read_problem = f"the versions cannot be read: {error}"
            return self._wait_for_versions(target, read_problem, reason=str(error))
        versions = {
            component["component"]: component["current_version"] for component in components
        }
        last_ends = {
            setting["component"]: (setting, end)
            for setting, end in zip(settings, progress["ends"], strict=True)
        }
        differences = [
            difference
            for component, (setting, end) in last_ends.items()
            if (difference := _difference(setting, end, versions.get(component)))
        ]
        if not differences:
            return Done(
                {"versions": {component: versions.get(component) for component in last_ends}}
            )
        return self._wait_for_versions(target, "; ".join(differences))

    def _wait_for_versions(
        self, target: Target, difference: str, reason: str | None = None
    ) -> Outcome:
        """Compare the versions again later, for some time. reason: error of the reading."""
        options, progress = target.options["redfish"], target.progress
        polls = int(progress.get("polls", 0)) + 1
        interval = float(options["firmware_update_validation_interval"])
        if polls * interval > options["firmware_update_resource_validation_timeout"]:
            return Failed(
                f"firmware was ordered, not confirmed: {difference}", FailureCode.UNCONFIRMED
            )
        awaited_event = f"the new versions: {difference}"
        return Wait({**progress, "polls": polls, AWAITED: awaited_event}, interval, reason=reason)

    def _read(self, target: Target, flashed: Collection[str] = ()) -> list[dict[str, Any]]:
        """Read and report the components; flashed: those that were updated."""
        with client.turn(target, self.bmcs) as bmc:
            components = software.components(bmc)
        target.report(
            firmware=[
                {**component, "last_version_flashed": component["current_version"]}
                if component["component"] in flashed
                else component
                for component in components
            ]
        )
        return components


def _pace(target: Target) -> Pace:
    options = target.options["redfish"]
    silence = float(options["firmware_update_bmc_timeout"])
    return Pace(float(options["firmware_update_status_interval"]), PATIENCE, silence)


def _order(setting: dict[str, Any]) -> software.Update:
    names = ("component", "url", "target", "version")
    return software.Update(**{name: setting[name] for name in names if name in setting})


def _end(outcome: Done) -> dict[str, Any]:
    """Return the end of an update for the progress, with the record of one that is staged."""
    record = outcome.result
    staged = {name: value for name, value in record.items() if name != "end"}
    staged_record = {"record": staged} if record["end"] == End.STAGED else {}
    return {"end": record["end"], "version": record["facts"]["version"], **staged_record}


def _difference(setting: dict[str, Any], end: dict[str, Any], version: str | None) -> str:
    """Compare a component's version with its update, in words; "" if it is right."""
    component, expected_version = setting["component"], setting.get("version")
    if expected_version is not None and version != expected_version:
        return f"{component} was updated to {expected_version}, and its version is {version}"
    if expected_version is None and end["end"] == End.UNCLEAR and version == end["version"]:
        return (
            f"the BMC does not tell how the update of {component} ended, and the version is still"
            f" {version}"
        )
    return ""


def _check(settings: list[dict[str, Any]]) -> None:
    for setting in settings:
        unknown_keys = sorted(set(setting) - _KEYS)
        if unknown_keys:
            raise InvalidDriverInfo(
                f"settings: unknown key {unknown_keys[0]!r};"
                f" an update has {', '.join(sorted(_KEYS))}"
            )
        component = str(setting.get("component"))
        if component not in ("bios", "bmc") and not component.startswith(software.NIC):
            raise InvalidDriverInfo(
                f"settings: component {component!r} is neither bios, bmc, nor {software.NIC}<name>"
            )
        if not str(setting.get("url", "")).startswith(("http://", "https://")):
            raise InvalidDriverInfo(f"settings: {setting.get('url')!r} is no http or https URL")
        wait = setting.get("wait", 0)
        if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= _LONGEST:
            raise InvalidDriverInfo(f"settings: wait {wait!r} is not 0 to {_LONGEST} seconds")
        for key in ("target", "version"):
            if key in setting and not (isinstance(setting[key], str) and setting[key]):
                raise InvalidDriverInfo(f"settings: {key} {setting[key]!r} is no text")
