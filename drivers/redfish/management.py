"""Redfish: boot device, boot mode, secure boot, indicators, NMI, virtual media."""

from typing import TYPE_CHECKING, Any

from drivers.core.errors import NotSupported, Refused, Unconfirmed, Unexpected
from drivers.core.interface_kinds import Management
from drivers.core.steps import Done, Flow, Outcome, Step, step
from drivers.core.target import BmcInventory, Target
from drivers.redfish import clock, inventory, recording, sensors
from drivers.redfish.accounts import BmcPassword
from drivers.redfish.booting import boot_device, virtual_drives, virtual_media
from drivers.redfish.booting.boot_device import DEVICES, NAMES
from drivers.redfish.clock import BmcClock
from drivers.redfish.events import BmcEvents
from drivers.redfish.interface import Redfish
from drivers.redfish.secure_boot_keys import SecureBootKeys
from drivers.redfish.sensor_sweep import open_reader
from drivers.redfish.transport import client, navigation
from drivers.redfish.transport.conversions import by_word, entry, text, word
from drivers.redfish.transport.documents import Documents
from drivers.redfish.transport.errors import errors_of

if TYPE_CHECKING:
    from sushy.resources.base import ResourceBase


_MODES = {name: redfish_mode for redfish_mode, name in inventory.BOOT_MODES.items()}
#: Ironic's state of an indicator -> IndicatorLED
_LEDS = {"on": "Lit", "off": "Off", "blinking": "Blinking"}


class RedfishManagement(Redfish, BmcClock, BmcEvents, BmcPassword, SecureBootKeys, Management):
    """Management by the system's Boot, SecureBoot, Reset, IndicatorLED and VirtualMedia."""

    sensor_reader = staticmethod(open_reader)

    def get_steps(self, target: Target | None, flow: Flow) -> list[Step]:
        return clock.planned(target, flow, super().get_steps(target, flow))

    @step(verify=1)
    def cache_system_facts(self, target: Target) -> Outcome:
        """Read boot mode, secure boot and vendor, as far as the BMC reports them."""
        facts: dict[str, Any] = {}
        skipped = {}
        for name, read_fact in (
            ("boot_mode", self.get_boot_mode),
            ("secure_boot", self.get_secure_boot),
            ("vendor", self._vendor),
        ):
            try:
                facts[name] = read_fact(target)
            except (NotSupported, Refused, Unexpected) as error:
                skipped[name] = str(error)
        vendor = facts.pop("vendor", None)
        target.report(**facts)
        if vendor and not target.properties.get("vendor"):
            target.report(properties={"vendor": vendor})
        return Done(skipped)

    def read_documents(self, target: Target, paths: list[str]) -> list[dict[str, object]]:
        return recording.recorded(target, self.bmcs, paths)

    def read_inventory(self, target: Target) -> None:
        with client.turn(target, self.bmcs) as bmc:
            documents = Documents(bmc)
            machine = self.inventory_of(documents)
        target.report(inventory=BmcInventory(machine, documents.omitted))

    def inventory_of(self, documents: Documents) -> inventory.Inventory:
        """Read the inventory, as the inspection of this kind of machines does."""
        return inventory.read(documents)

    def mac_addresses(self, target: Target) -> list[str]:
        with client.turn(target, self.bmcs) as bmc:
            return inventory.stations(Documents(bmc))

    def supported_boot_devices(self, target: Target) -> list[str]:
        with client.turn(target, self.bmcs) as bmc:
            allowed_values = bmc.system(fresh=False).get_allowed_system_boot_source_values()
        supported_names = {NAMES.get(word(value)) for value in allowed_values}
        return [name for name in DEVICES if name in supported_names]

    def get_boot_device(self, target: Target) -> dict[str, object]:
        device = boot_device.remembered(target)
        if device is not None:
            return {"boot_device": device, "persistent": True}
        with client.turn(target, self.bmcs) as bmc:
            override = boot_device.reported(bmc)
        if override.enabled == "Disabled":
            return {"boot_device": None, "persistent": None}
        is_persistent = override.enabled == "Continuous"
        return {"boot_device": NAMES.get(override.source or ""), "persistent": is_persistent}

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
            mode = navigation.part(bmc.system(fresh=True), "boot").get("mode")
        return inventory.BOOT_MODES.get(word(mode))

    def set_boot_mode(self, target: Target, mode: str) -> None:
        if mode not in _MODES:
            raise NotSupported(f"boot mode {mode!r} is unknown; Redfish has uefi and bios")
        with client.turn(target, self.bmcs) as bmc:
            boot_device.order_mode(target, bmc, _MODES[mode])

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
            mode = boot_device.reported(bmc).mode
            if state and mode == "Legacy":
                raise Refused(
                    f"BMC {bmc.access.address}: secure boot needs boot mode UEFI, and the machine"
                    f" is in {mode}"
                )
            resource = bmc.secure_boot()
            target.before_order()
            try:
                with errors_of(bmc.access):
                    resource.set_enabled(state)
            except Unconfirmed:
                if bmc.secure_boot().enabled is not state:
                    raise

    def inject_nmi(self, target: Target) -> None:
        with client.turn(target, self.bmcs) as bmc:
            system = bmc.system(fresh=False)
            allowed_resets = by_word(system.get_allowed_reset_system_values())
            if "Nmi" not in allowed_resets:
                raise NotSupported(f"the BMC of node {target.uuid} cannot inject an NMI")
            target.before_order()
            system.reset_system(allowed_resets["Nmi"])

    def indicators(self, target: Target) -> list[dict[str, Any]]:
        with client.turn(target, self.bmcs) as bmc:
            indicators = list(bmc.indicators())
        return [
            {"name": name, "component": component, "readonly": False, "states": list(_LEDS)}
            for component, name in indicators
        ]

    def get_indicator(self, target: Target, component: str, name: str) -> str:
        with client.turn(target, self.bmcs) as bmc:
            led = _indicator(bmc, component, name).indicator_led
        states = {redfish_state: led_state for led_state, redfish_state in _LEDS.items()}
        return states.get(word(led), "unknown")

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
            drives = [
                (virtual_drives.media_types(drive.json), virtual_drives.Report.of(drive.json))
                for drive in virtual_drives.listed(bmc).usable
            ]
        return [
            {"media_types": types, "inserted": bool(report.inserted), "image": report.image or ""}
            for types, report in drives
        ]

    def attach_virtual_media(self, target: Target, device_type: str, image_url: str) -> Outcome:
        return virtual_media.insert(target, self.bmcs, device_type, image_url)

    def detach_virtual_media(self, target: Target, device_types: list[str]) -> Outcome:
        return virtual_media.eject(target, self.bmcs, device_types)


def _indicator(bmc: client.Connection, component: str, name: str) -> "ResourceBase":
    """
    Return the resource that has an indicator.

    Raises NotSupported: there is no such indicator.
    """
    indicators = bmc.indicators()
    if (component, name) not in indicators:
        known_indicators = (
            ", ".join(
                f"{indicator_name}@{known_component}"
                for known_component, indicator_name in indicators
            )
            or "none"
        )
        raise NotSupported(
            f"there is no indicator {name}@{component}; there are {known_indicators}"
        )
    return indicators[component, name]
