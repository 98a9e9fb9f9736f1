"""Redfish: boot device and boot mode."""

from typing import Any

from drivers.errors import NotSupported
from drivers.interfaces import Management
from drivers.redfish import client
from drivers.target import Target

#: Ironic's name of a boot device -> BootSourceOverrideTarget
DEVICES = {
    "pxe": "Pxe",
    "disk": "Hdd",
    "cdrom": "Cd",
    "bios": "BiosSetup",
    "uefihttp": "UefiHttp",
}
_NAMES = {target: name for name, target in DEVICES.items()}
_MODES = {"uefi": "UEFI", "bios": "Legacy"}


class RedfishManagement(Management):
    """Boot.BootSourceOverride* of the system."""

    name = "redfish"
    properties = client.PROPERTIES

    def validate(self, target: Target) -> None:
        client.access(target)

    def supported_boot_devices(self, target: Target) -> list[str]:
        with client.turn(target, self.bmcs) as bmc:
            allowed = bmc.system(fresh=False).get_allowed_system_boot_source_values()
        values = {getattr(each, "value", each) for each in allowed}
        return [name for name, value in DEVICES.items() if value in values]

    def get_boot_device(self, target: Target) -> dict[str, Any]:
        with client.turn(target, self.bmcs) as bmc:
            source, enabled = _override(bmc.system(fresh=True))
        if enabled == "Disabled":
            return {"boot_device": None, "persistent": None}
        return {"boot_device": _NAMES.get(source or ""), "persistent": enabled == "Continuous"}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        """Nothing is sent when the BMC already says so."""
        if device not in DEVICES:
            raise NotSupported(
                f"boot device {device!r} is unknown; Redfish has {', '.join(DEVICES)}"
            )
        wanted = DEVICES[device], "Continuous" if persistent else "Once"
        with client.turn(target, self.bmcs) as bmc:
            if _override(bmc.system(fresh=True)) == wanted:
                return
            target.before_order()
            bmc.set_boot(target=wanted[0], enabled=wanted[1])

    def get_boot_mode(self, target: Target) -> str | None:
        with client.turn(target, self.bmcs) as bmc:
            mode = bmc.system(fresh=True).boot.get("mode")
        value = getattr(mode, "value", mode)
        return next((name for name, theirs in _MODES.items() if theirs == value), None)

    def set_boot_mode(self, target: Target, mode: str) -> None:
        if mode not in _MODES:
            raise NotSupported(f"boot mode {mode!r} is unknown; Redfish has uefi and bios")
        with client.turn(target, self.bmcs) as bmc:
            target.before_order()
            bmc.set_boot(mode=_MODES[mode])


def _override(system: Any) -> tuple[str | None, str | None]:
    """(BootSourceOverrideTarget, BootSourceOverrideEnabled) as the BMC gives them."""
    source, enabled = system.boot.get("target"), system.boot.get("enabled")
    return getattr(source, "value", source), getattr(enabled, "value", enabled)
