"""
Fake hardware: interfaces that act on nothing, for tests, benchmarks and first steps.

The only state is the node's own: the power state that was ordered is the power state that is read.
"""

from collections.abc import Mapping
from typing import Any

from drivers.errors import NotSupported
from drivers.fake.pace import seconds, take_time
from drivers.interfaces import (
    POWER_OFF,
    POWER_ON,
    REBOOT,
    SOFT_OFF,
    SOFT_REBOOT,
    Bios,
    Boot,
    Console,
    Deploy,
    Firmware,
    Frame,
    Inspect,
    Management,
    Power,
    Raid,
    Rescue,
    Storage,
    Vendor,
)
from drivers.steps import Arg, Done, Outcome, Wait, step
from drivers.target import Target

_SETTINGS = Arg(
    "settings",
    "A list of objects with the keys `name` and `value`",
    required=True,
    schema={
        "type": "array",
        "items": {"type": "object", "required": ["name", "value"]},
    },
)
_UPDATES = Arg(
    "settings",
    "A list of firmware updates, objects with the keys `component` and `url`",
    required=True,
    schema={"type": "array", "items": {"type": "object"}},
)


class FakePower(Power):
    """Remembers what was ordered, after `[fake]power_delay`."""

    name = "fake"
    supported = (POWER_ON, POWER_OFF, REBOOT, SOFT_OFF, SOFT_REBOOT)

    def get_power_state(self, target: Target) -> str:
        return str(target.reports.get("power_state") or target.power_state or POWER_OFF)

    def order(self, target: Target, state: str) -> None:
        target.report(power_state=POWER_OFF if state in (POWER_OFF, SOFT_OFF) else POWER_ON)

    def _reach(
        self,
        target: Target,
        order: str,
        wanted: str,
        progress: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Outcome:
        if self.get_power_state(target) != wanted and not progress.get("waited"):
            delay = seconds(target, "power_delay")
            if delay > 0:
                return Wait({**progress, "waited": True}, poll_after=delay)
        return super()._reach(target, order, wanted, progress, timeout)


class FakeManagement(Management):
    """Always boots from the network."""

    name = "fake"

    def supported_boot_devices(self, target: Target) -> list[str]:
        return ["pxe"]

    def get_boot_device(self, target: Target) -> dict[str, Any]:
        return {"boot_device": "pxe", "persistent": False}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        if device not in self.supported_boot_devices(target):
            raise NotSupported(f"boot device {device!r} is unknown; fake hardware has pxe")


class FakeBoot(Boot):
    name = "fake"

    def prepare_ramdisk(self, target: Target) -> Outcome:
        return take_time(target, "boot_delay")

    def clean_up_ramdisk(self, target: Target) -> Outcome:
        return take_time(target, "boot_delay")

    def prepare_instance(self, target: Target) -> Outcome:
        return take_time(target, "boot_delay")

    def clean_up_instance(self, target: Target) -> Outcome:
        return take_time(target, "boot_delay")


class FakeDeploy(Deploy):
    """Deploys at once; no agent takes part."""

    name = "fake"
    frames = {
        "clean": Frame(
            before=(("deploy", "prepare_cleaning"),), after=(("deploy", "tear_down_cleaning"),)
        ),
        "deploy": Frame(before=(("deploy", "prepare"),)),
        "delete": Frame(before=(("deploy", "tear_down"),)),
        "service": Frame(
            before=(("deploy", "prepare_service"),), after=(("deploy", "tear_down_service"),)
        ),
        "rescue": Frame(before=(("rescue", "rescue"),)),
        "unrescue": Frame(before=(("rescue", "unrescue"),)),
    }

    @step(deploy=100)
    def deploy(self, target: Target) -> Outcome:
        """Pretend to put an instance on the machine."""
        return take_time(target, "deploy_delay")

    def prepare(self, target: Target) -> Outcome:
        return take_time(target, "deploy_delay")

    def tear_down(self, target: Target) -> Outcome:
        return take_time(target, "deploy_delay")

    def prepare_cleaning(self, target: Target) -> Outcome:
        return Done()

    def tear_down_cleaning(self, target: Target) -> Outcome:
        return Done()

    def prepare_service(self, target: Target) -> Outcome:
        return Done()

    def tear_down_service(self, target: Target) -> Outcome:
        return Done()


class FakeBios(Bios):
    name = "fake"

    @step(clean=0, args=(_SETTINGS,))
    def apply_configuration(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """Pretend to change BIOS settings."""
        return take_time(target, "bios_delay")

    @step(clean=0)
    def factory_reset(self, target: Target) -> Outcome:
        """Pretend to reset the BIOS settings."""
        return take_time(target, "bios_delay")

    @step(clean=0)
    def cache_bios_settings(self, target: Target) -> Outcome:
        """Pretend to read the BIOS settings."""
        return take_time(target, "bios_delay")


class FakeFirmware(Firmware):
    name = "fake"

    @step(clean=0, args=(_UPDATES,))
    def update(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """Pretend to update firmware."""
        return take_time(target, "firmware_delay")


class FakeVendor(Vendor):
    name = "fake"

    @step(clean=1)
    @step(service=0, needs_ramdisk=False)
    def log_passthrough(self, target: Target) -> Outcome:
        """Do nothing: the one automated clean step of fake hardware."""
        return take_time(target, "vendor_delay")

    @step(service=0, needs_ramdisk=False)
    def trigger_servicewait(self, target: Target) -> Outcome:
        """Wait until somebody wakes the operation."""
        return Done() if target.progress else Wait({"triggered": True})


class FakeInspect(Inspect):
    name = "fake"

    def inspect_hardware(self, target: Target) -> Outcome:
        return take_time(target, "inspect_delay")


class FakeRescue(Rescue):
    name = "fake"

    def rescue(self, target: Target) -> Outcome:
        return take_time(target, "rescue_delay")

    def unrescue(self, target: Target) -> Outcome:
        return take_time(target, "rescue_delay")


class FakeConsole(Console):
    name = "fake"


class FakeRaid(Raid):
    name = "fake"


class FakeStorage(Storage):
    name = "fake"
