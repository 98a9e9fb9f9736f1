"""Redfish: firmware versions and updates."""

from typing import Any

from drivers.errors import InvalidDriverInfo, NotSupported, Refused, Unexpected, Unreachable
from drivers.interfaces import Firmware
from drivers.redfish import client
from drivers.redfish.restart import through_restart
from drivers.steps import Arg, Done, Failed, Outcome, Wait, step
from drivers.target import Target

COMPONENTS = ("bios", "bmc")
UPDATES = Arg(
    "settings",
    "A list of firmware updates, objects with the keys `component` (bios, bmc) and `url`",
    required=True,
    schema={
        "type": "array",
        "items": {"type": "object", "required": ["component", "url"]},
    },
)
#: Seconds between looks at an update.
LOOK = 5.0


class RedfishFirmware(Firmware):
    """UpdateService.SimpleUpdate, one component after the other."""

    name = "redfish"
    properties = client.PROPERTIES

    def validate(self, target: Target) -> None:
        client.access(target)

    @step(verify=1)
    def cache_firmware_components(self, target: Target) -> Outcome:
        """Read the firmware versions; a BMC that does not tell them is no reason to fail."""
        try:
            self._read(target)
        except (NotSupported, Refused, Unexpected) as error:
            return Done({"skipped": str(error)})
        return Done()

    @step(clean=0, deploy=0, service=0, args=(UPDATES,))
    def update(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """
        Update firmware, then restart the machine.

        Each update is ordered once; when the conductor dies meanwhile, the BMC's task is looked
        for again.
        """
        _check(settings)
        progress = target.progress
        number = int(progress.get("number", 0))
        if number < len(settings):
            return self._update(target, settings[number], number, progress.get("task"))
        outcome = through_restart(target.part("end"), lambda: None, lambda: True)
        if isinstance(outcome, Wait):
            return Wait({"number": number, "end": dict(outcome.progress)}, outcome.poll_after)
        if isinstance(outcome, Done):
            self._read(target, {each["component"]: each["url"] for each in settings})
        return outcome

    def _update(
        self, target: Target, setting: dict[str, Any], number: int, task: str | None
    ) -> Outcome:
        component, url = setting["component"], setting["url"]
        if task is None:
            with client.turn(target, self.bmcs) as bmc:
                target.before_order()
                task = bmc.update_firmware(component, url)
            return Wait({"number": number, "task": task}, LOOK, self._limit(target))
        try:
            with client.turn(target, self.bmcs) as bmc:
                failure = bmc.task_failure(task)
        except Unreachable:  # a BMC that is updated restarts
            failure = None
        else:
            if failure is None:
                return Wait({"number": number + 1}, 0.1)
        if failure:
            return Failed(f"the update of {component} failed: {failure}")
        return Wait({"number": number, "task": task}, LOOK, self._limit(target))

    def _limit(self, target: Target) -> float | None:
        return float(target.options["redfish"]["firmware_update_overall_timeout"]) or None

    def _read(self, target: Target, flashed: dict[str, str] | None = None) -> None:
        with client.turn(target, self.bmcs) as bmc:
            components = bmc.firmware()
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
        if each.get("component") not in COMPONENTS:
            raise InvalidDriverInfo(
                f"settings: component {each.get('component')!r} is not one of"
                f" {', '.join(COMPONENTS)}"
            )
        if not str(each.get("url", "")).startswith(("http://", "https://")):
            raise InvalidDriverInfo(f"settings: {each.get('url')!r} is no http or https URL")
