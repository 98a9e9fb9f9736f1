"""Redfish: boot device, boot mode, secure boot, indicators, NMI, virtual media."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drivers.core.errors import NotSupported, Refused, Unexpected
from drivers.core.kinds import POWER_ON, Management
from drivers.core.steps import Done, Flow, Outcome, Step, Wait, step
from drivers.core.target import Target
from drivers.redfish import boot_device, client, clock, inventory, parts, sensors
from drivers.redfish.boot_device import DEVICES
from drivers.redfish.clock import BmcClock
from drivers.redfish.interface import Redfish
from drivers.redfish.restart import through_restart
from drivers.redfish.secure_boot_keys import SecureBootKeys
from drivers.redfish.values import entry, text, word

_NAMES = {target: name for name, target in DEVICES.items()}
_MODES = {name: theirs for theirs, name in inventory.BOOT_MODES.items()}
#: Ironic's state of an indicator -> IndicatorLED
_LEDS = {"on": "Lit", "off": "Off", "blinking": "Blinking"}
#: Ironic's name of a virtual medium -> MediaTypes
MEDIA = {"cdrom": ("CD", "DVD"), "disk": ("USBStick",), "floppy": ("Floppy",)}


class RedfishManagement(Redfish, BmcClock, SecureBootKeys, Management):
    """Management by the system's Boot, SecureBoot, Reset, IndicatorLED and VirtualMedia."""

    def get_steps(self, target: Target | None, flow: Flow) -> list[Step]:
        return clock.planned(target, flow, super().get_steps(target, flow))

    @step(verify=1)
    def cache_system_facts(self, target: Target) -> Outcome:
        """Read boot mode, secure boot and vendor, as far as the BMC reports them."""
        facts: dict[str, Any] = {}
        skipped = {}
        for name, read in (
            ("boot_mode", self.get_boot_mode),
            ("secure_boot", self.get_secure_boot),
            ("vendor", self._vendor),
        ):
            try:
                facts[name] = read(target)
            except (NotSupported, Refused, Unexpected) as error:
                skipped[name] = str(error)
        vendor = facts.pop("vendor", None)
        target.report(**facts)
        if vendor and not target.properties.get("vendor"):
            target.report(properties={"vendor": vendor})
        return Done(skipped)

    def mac_addresses(self, target: Target) -> list[str]:
        with client.turn(target, self.bmcs) as bmc:
            return [each["mac_address"] for each in inventory.interfaces(bmc)]

    def supported_boot_devices(self, target: Target) -> list[str]:
        with client.turn(target, self.bmcs) as bmc:
            allowed = bmc.system(fresh=False).get_allowed_system_boot_source_values()
        values = {getattr(each, "value", each) for each in allowed}
        return [name for name, value in DEVICES.items() if value in values]

    def get_boot_device(self, target: Target) -> dict[str, Any]:
        device = boot_device.remembered(target)
        if device is not None:
            return {"boot_device": device, "persistent": True}
        with client.turn(target, self.bmcs) as bmc:
            source, enabled = boot_device.override(bmc.system(fresh=True))
        if enabled == "Disabled":
            return {"boot_device": None, "persistent": None}
        return {"boot_device": _NAMES.get(source or ""), "persistent": enabled == "Continuous"}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        if device not in DEVICES:
            raise NotSupported(
                f"boot device {device!r} is unknown; Redfish has {', '.join(DEVICES)}"
            )
        with client.turn(target, self.bmcs) as bmc:
            boot_device.choose(target, bmc, device, persistent=persistent)

    def before_start(self, target: Target) -> None:
        """Set a persistent boot device again if the BMC supports one-time overrides only."""
        if boot_device.remembered(target) is not None:
            with client.turn(target, self.bmcs) as bmc:
                boot_device.restore(target, bmc)

    def get_boot_mode(self, target: Target) -> str | None:
        with client.turn(target, self.bmcs) as bmc:
            mode = parts.part(bmc.system(fresh=True), "boot").get("mode")
        return inventory.BOOT_MODES.get(word(mode))

    def set_boot_mode(self, target: Target, mode: str) -> None:
        if mode not in _MODES:
            raise NotSupported(f"boot mode {mode!r} is unknown; Redfish has uefi and bios")
        with client.turn(target, self.bmcs) as bmc:
            target.before_order()
            bmc.set_boot(mode=_MODES[mode])

    def change_boot_mode(self, target: Target, mode: str) -> Outcome:
        def order() -> None:
            self.set_boot_mode(target, mode)

        outcome = self._change(target, order, lambda: self.get_boot_mode(target) == mode)
        if isinstance(outcome, Done):
            target.report(boot_mode=mode)
        return outcome

    def change_secure_boot(self, target: Target, state: bool) -> Outcome:
        def order() -> None:
            self.set_secure_boot(target, state)

        outcome = self._change(target, order, lambda: self.get_secure_boot(target) == state)
        if isinstance(outcome, Done):
            target.report(secure_boot=state)
        return outcome

    def _change(
        self, target: Target, order: Callable[[], None], settled: Callable[[], bool]
    ) -> Outcome:
        """
        Send a change that some BMCs apply at once, and others at the next start.

        Restarts a machine that is on, unless the change is applied at once. With
        `[redfish]boot_mode_config_timeout` 0 the step does not wait for the result.
        """
        if not target.progress:
            if settled():
                return Done()
            order()
            if settled() or target.driver.power.get_power_state(target) != POWER_ON:
                return Done()
        limit = float(target.options["redfish"]["boot_mode_config_timeout"])
        outcome = through_restart(target, lambda: None, settled if limit else lambda: True)
        if isinstance(outcome, Wait) and limit:
            return replace(outcome, timeout=outcome.timeout or limit)
        return outcome

    def get_secure_boot(self, target: Target) -> bool | None:
        with client.turn(target, self.bmcs) as bmc:
            enabled = bmc.secure_boot().enabled
        return enabled if isinstance(enabled, bool) else None

    def _vendor(self, target: Target) -> str | None:
        """Return the vendor of the BMC's firmware, else of the machine."""
        with client.turn(target, self.bmcs) as bmc:
            vendor = text(entry(bmc.open().json, "Vendor"))
            return vendor or text(bmc.system(fresh=False).manufacturer)

    def set_secure_boot(self, target: Target, state: bool) -> None:
        with client.turn(target, self.bmcs) as bmc:
            resource = bmc.secure_boot()
            target.before_order()
            resource.set_enabled(state)

    def inject_nmi(self, target: Target) -> None:
        with client.turn(target, self.bmcs) as bmc:
            system = bmc.system(fresh=False)
            allowed = {each.value: each for each in system.get_allowed_reset_system_values()}
            if "Nmi" not in allowed:
                raise NotSupported(f"the BMC of node {target.uuid} cannot inject an NMI")
            target.before_order()
            system.reset_system(allowed["Nmi"])

    def indicators(self, target: Target) -> list[dict[str, Any]]:
        with client.turn(target, self.bmcs) as bmc:
            found = list(bmc.indicators())
        return [
            {"name": name, "component": component, "readonly": False, "states": list(_LEDS)}
            for component, name in found
        ]

    def get_indicator(self, target: Target, component: str, name: str) -> str:
        with client.turn(target, self.bmcs) as bmc:
            led = _indicator(bmc, component, name).indicator_led
        value = getattr(led, "value", led)
        return next((ours for ours, theirs in _LEDS.items() if theirs == value), "unknown")

    def set_indicator(self, target: Target, component: str, name: str, state: str) -> None:
        if state not in _LEDS:
            raise NotSupported(f"state {state!r}: an indicator can be {', '.join(_LEDS)}")
        with client.turn(target, self.bmcs) as bmc:
            resource = _indicator(bmc, component, name)
            kind = type(resource.indicator_led)
            target.before_order()
            resource.set_indicator_led(kind(_LEDS[state]))

    def sensors(self, target: Target) -> list[dict[str, Any]]:
        with client.turn(target, self.bmcs) as bmc:
            return sensors.readings(bmc, bmc.system(fresh=True))

    def virtual_media(self, target: Target) -> list[dict[str, Any]]:
        with client.turn(target, self.bmcs) as bmc:
            return [
                {
                    "media_types": [word(each) for each in drive.media_types],
                    "inserted": bool(drive.inserted),
                    "image": text(drive.image, longest=2048) or "",
                }
                for drive in bmc.drives({each for kinds in MEDIA.values() for each in kinds})
            ]

    def attach_virtual_media(self, target: Target, device_type: str, image_url: str) -> None:
        """Insert an image; send nothing if it is inserted already."""
        with client.turn(target, self.bmcs) as bmc:
            drive = next(bmc.drives(MEDIA[device_type]), None)
            if drive is None:
                raise NotSupported(f"the BMC of node {target.uuid} has no virtual {device_type}")
            if drive.inserted and drive.image == image_url:
                return
            target.before_order()
            if drive.inserted:
                drive.eject_media()
            drive.insert_media(image_url, inserted=True, write_protected=True)

    def detach_virtual_media(self, target: Target, device_types: list[str]) -> None:
        with client.turn(target, self.bmcs) as bmc:
            for drive in bmc.drives({each for kind in device_types for each in MEDIA[kind]}):
                if drive.inserted:
                    target.before_order()
                    drive.eject_media()


def _indicator(bmc: client.Connection, component: str, name: str) -> Any:
    """
    Return the resource that has an indicator.

    Raises NotSupported: there is no such indicator.
    """
    found = bmc.indicators()
    if (component, name) not in found:
        known = ", ".join(f"{each}@{of}" for of, each in found) or "none"
        raise NotSupported(f"there is no indicator {name}@{component}; there are {known}")
    return found[component, name]
