"""
Fake hardware: interfaces without a machine, for tests, benchmarks and first steps.

The state is in the node: reads return the values that were last set.
"""

import sys
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from drivers.core.consoles import LOOPBACK, GraphicalConsole, Program, Screen, free_port
from drivers.core.errors import NotSupported
from drivers.core.interface import Frame
from drivers.core.interface_kinds import (
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
    Inspect,
    Management,
    Power,
    Raid,
    Rescue,
    Storage,
    Vendor,
)
from drivers.core.passthru import passthru
from drivers.core.steps import Arg, Done, Outcome, Wait, step
from drivers.core.target import Target
from drivers.fake.memory import recall, remember
from drivers.fake.pace import seconds, take_time
from drivers.net.child_environment import without_settings

#: Program of the screen, for `python -m`.
SCREEN = "drivers.simulator.screen"

_UPDATES = Arg(
    "settings",
    "A list of firmware updates, objects with the keys `component` and `url`",
    required=True,
    schema={"type": "array", "items": {"type": "object"}},
)


class FakePower(Power):
    """Keeps the power state that was last ordered, after `[fake]power_delay`."""

    name = "fake"
    supported = (POWER_ON, POWER_OFF, REBOOT, SOFT_OFF, SOFT_REBOOT)
    transactional = True

    def get_power_state(self, target: Target) -> str:
        return str(target.reports.get("power_state") or target.power_state or POWER_OFF)

    def order(self, target: Target, state: str) -> None:
        target.report(power_state=POWER_OFF if state in (POWER_OFF, SOFT_OFF) else POWER_ON)

    def _reach(
        self,
        target: Target,
        order: str,
        target_state: str,
        progress: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Outcome:
        if self.get_power_state(target) != target_state and not progress.get("waited"):
            delay = seconds(target, "power_delay")
            if delay > 0:
                return Wait({**progress, "waited": True}, poll_after=delay)
        return super()._reach(target, order, target_state, progress, timeout)


class FakeManagement(Management):
    """Boots from the network only; keeps all other values that were set."""

    name = "fake"
    #: (component, name) -> states
    lights = {("chassis", "led-0"): ("off", "on"), ("system", "led"): ("blinking", "off", "on")}
    readonly = frozenset({("chassis", "led-0")})

    def run(self, target: Target, method: str, args: Mapping[str, Any]) -> Outcome:
        wait_outcome = take_time(target, "management_delay")
        return wait_outcome if isinstance(wait_outcome, Wait) else super().run(target, method, args)

    def supported_boot_devices(self, target: Target) -> list[str]:
        return ["pxe"]

    def get_boot_device(self, target: Target) -> dict[str, object]:
        return {"boot_device": "pxe", "persistent": recall(target, "persistent", False)}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        if device not in self.supported_boot_devices(target):
            raise NotSupported(f"boot device {device!r} is unknown; fake hardware has pxe")
        remember(target, persistent=persistent)

    def read_documents(self, target: Target, paths: list[str]) -> list[dict[str, object]]:
        not_found = {"status": 404, "headers": {}, "encoding": "utf-8", "body": ""}
        return [{"path": path, **not_found} for path in paths]

    def get_boot_mode(self, target: Target) -> str | None:
        mode: str = recall(target, "boot_mode", "uefi")
        return mode

    def set_boot_mode(self, target: Target, mode: str) -> None:
        remember(target, boot_mode=mode)

    def get_secure_boot(self, target: Target) -> bool | None:
        return bool(recall(target, "secure_boot", False))

    def set_secure_boot(self, target: Target, state: bool) -> None:
        if state and self.get_boot_mode(target) != "uefi":
            raise NotSupported("secure boot needs boot mode uefi")
        remember(target, secure_boot=state)

    def inject_nmi(self, target: Target) -> None:
        remember(target, nmis=recall(target, "nmis", 0) + 1)

    def indicators(self, target: Target) -> list[dict[str, Any]]:
        return [
            {
                "name": light[1],
                "component": light[0],
                "readonly": light in self.readonly,
                "states": list(states),
            }
            for light, states in self.lights.items()
        ]

    def get_indicator(self, target: Target, component: str, name: str) -> str:
        self._states(component, name)
        state: str = recall(target, f"{name}@{component}", "on")
        return state

    def set_indicator(self, target: Target, component: str, name: str, state: str) -> None:
        states = self._states(component, name)
        if (component, name) in self.readonly:
            raise NotSupported(f"indicator {name}@{component} cannot be switched")
        if state not in states:
            raise NotSupported(f"indicator {name}@{component} knows {', '.join(states)}")
        remember(target, **{f"{name}@{component}": state})

    def _states(self, component: str, name: str) -> tuple[str, ...]:
        if (component, name) not in self.lights:
            raise NotSupported(f"there is no indicator {name}@{component}")
        return self.lights[component, name]

    def sensors(self, target: Target) -> list[dict[str, Any]]:
        readings = (("CPU 1", "temperature", 41.5, "°C"), ("Fan 1", "fan", 4200.0, "RPM"))
        return [
            {"name": name, "kind": kind, "reading": reading, "unit": unit, "health": "ok"}
            for name, kind, reading, unit in readings
        ]

    def virtual_media(self, target: Target) -> list[dict[str, Any]]:
        media = recall(target, "media", {})
        return [
            {"media_types": [kind], "inserted": kind in media, "image": media.get(kind, "")}
            for kind in ("cdrom", "disk", "floppy")
        ]

    def attach_virtual_media(self, target: Target, device_type: str, image_url: str) -> None:
        remember(target, media={**recall(target, "media", {}), device_type: image_url})

    def detach_virtual_media(self, target: Target, device_types: list[str]) -> None:
        media = recall(target, "media", {})
        remember(target, media={kind: media[kind] for kind in media if kind not in device_types})


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
    """Deploys at once, without an agent."""

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
        "adopt": Frame(before=(("deploy", "adopt"),)),
    }

    @step(deploy=100)
    def deploy(self, target: Target) -> Outcome:
        """Do nothing, in place of deploying an instance."""
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
    """Keeps the settings that were applied."""

    name = "fake"

    @step(clean=0, service=0, args=(Bios.SETTINGS,))
    def apply_configuration(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """Change BIOS settings."""
        requested_settings = {setting["name"]: setting["value"] for setting in settings}
        bios_settings = recall(target, "bios", {})
        return take_time(
            target,
            "bios_delay",
            lambda: self._keep(target, {**bios_settings, **requested_settings}),
        )

    @step(clean=0)
    def factory_reset(self, target: Target) -> Outcome:
        """Remove all BIOS settings."""
        return take_time(target, "bios_delay", lambda: self._keep(target, {}))

    @step(clean=0)
    def cache_bios_settings(self, target: Target) -> Outcome:
        """Read the BIOS settings."""
        bios_settings = recall(target, "bios", {})
        return take_time(target, "bios_delay", lambda: self._keep(target, bios_settings))

    def _keep(self, target: Target, settings: dict[str, Any]) -> None:
        remember(target, bios=settings)
        target.report(
            bios_settings=[{"name": name, "value": value} for name, value in settings.items()]
        )


class FakeFirmware(Firmware):
    """Each update sets the version in the last part of its URL."""

    name = "fake"

    @step(clean=0, args=(_UPDATES,))
    def update(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """Update firmware."""
        return take_time(target, "firmware_delay", lambda: self._keep(target, settings))

    def cache_firmware_components(self, target: Target) -> Outcome:
        """Read the versions."""
        return take_time(target, "firmware_delay", lambda: self._keep(target, []))

    def _keep(self, target: Target, settings: list[dict[str, Any]]) -> None:
        versions = recall(target, "firmware", {"bios": "1.0", "bmc": "1.0"})
        flashed = {
            str(setting.get("component")): str(setting.get("url")).rsplit("/", 1)[-1]
            for setting in settings
        }
        versions |= flashed
        remember(target, firmware=versions)
        target.report(
            firmware=[
                {
                    "component": component,
                    "current_version": version,
                    "last_version_flashed": flashed.get(component),
                }
                for component, version in versions.items()
            ]
        )


class FakeVendor(Vendor):
    """The functions of Ironic's fake hardware; each compares `bar` with a word."""

    name = "fake"

    @passthru("POST", description="Test pass-through to wait.")
    @step(clean=1)
    @step(service=0, needs_ramdisk=False)
    def log_passthrough(self, target: Target) -> Outcome:
        """Do nothing: the one automated clean step of fake hardware."""
        return take_time(target, "vendor_delay")

    @step(service=0, needs_ramdisk=False)
    def trigger_servicewait(self, target: Target) -> Outcome:
        """Wait until the operation is resumed."""
        return Done() if target.progress else Wait({"triggered": True})

    @passthru("POST", description="Test if the value of bar is kazoo")
    def second_method(self, target: Target, bar: str) -> bool:
        return bar == "kazoo"

    @passthru("POST", description="Test if the value of bar is meow", asynchronous=False)
    def third_method_sync(self, target: Target, bar: str) -> bool:
        return bar == "meow"

    @passthru("POST", description="Test if the value of bar is woof", exclusive=False)
    def fourth_method_shared_lock(self, target: Target, bar: str) -> bool:
        return bar == "woof"


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
    """A console that is only recorded as enabled or disabled."""

    name = "fake"

    def start_console(self, target: Target) -> None:
        target.report(console_enabled=True)

    def stop_console(self, target: Target) -> None:
        target.report(console_enabled=False)

    def get_console(self, target: Target) -> dict[str, object]:
        return {}


class FakeGraphical(GraphicalConsole):
    """The screen of a simulated machine: colour bars, and the keys that were pressed."""

    name = "fake-graphical"

    def screen(self, target: Target) -> Screen:
        port, password = free_port(), token_hex(4)
        program = Program(
            (sys.executable, "-m", SCREEN, str(port)),
            {**without_settings(), "VNC_PASSWORD": password},
            secrets=(password,),
        )
        return Screen(LOOPBACK, port, password, program=program)


class FakeRaid(Raid):
    name = "fake"


class FakeStorage(Storage):
    name = "fake"
