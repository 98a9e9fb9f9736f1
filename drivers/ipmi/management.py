"""IPMI: boot device, diagnostic interrupt."""

from typing import Any

from drivers.core import capabilities
from drivers.core.errors import InvalidDriverInfo
from drivers.core.kinds import Management
from drivers.core.target import Target
from drivers.ipmi import credentials
from drivers.ipmi.client import DEVICES, Client


class IpmiManagement(Management):
    """Boot options of an IPMI BMC, by pyghmi or by the program ipmitool."""

    name = "ipmitool"
    properties = credentials.PROPERTIES

    def validate(self, target: Target) -> None:
        credentials.read(target)
        _keep_on_timeout(target)

    def supported_boot_devices(self, target: Target) -> list[str]:
        return list(DEVICES)

    def get_boot_device(self, target: Target) -> dict[str, Any]:
        found = Client.of(target, self.bmcs).get_boot_device()
        return {"boot_device": found["boot_device"], "persistent": found["persistent"]}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        Client.of(target, self.bmcs).set_boot_device(
            device,
            persistent=persistent,
            # IPMI sets the boot mode together with the boot device; without it, BIOS applies
            uefi=capabilities.boot_mode(target) == "uefi",
            keep_on_timeout=_keep_on_timeout(target),
        )

    def inject_nmi(self, target: Target) -> None:
        Client.of(target, self.bmcs).inject_nmi()


def _keep_on_timeout(target: Target) -> bool:
    """
    Whether the BMC keeps a boot device longer than 60 s.

    Raises InvalidDriverInfo: the setting is neither true nor false.
    """
    value = target.driver_info.get("ipmi_disable_boot_timeout")
    if value is None:
        value = target.options["ipmi"]["disable_boot_timeout"]
    text = str(value).lower()
    if text not in ("true", "false"):
        raise InvalidDriverInfo(
            f"driver_info/ipmi_disable_boot_timeout: must be true or false, not {value!r}"
        )
    return text == "true"
