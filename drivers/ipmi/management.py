"""IPMI: boot device, diagnostic interrupt."""

from typing import Any

from drivers.core import capabilities
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface_kinds import Management
from drivers.core.target import Target
from drivers.ipmi import credentials
from drivers.ipmi.accounts import BmcPassword
from drivers.ipmi.client import DEVICES, Client

#: Keys of driver_internal_info, with `ipmi_force_boot_device`: the persistent boot device, and
#: whether another one was set for the next start.
_FORCED, _ONCE = "ipmi_boot_device", "ipmi_boot_once"


class IpmiManagement(BmcPassword, Management):
    """Boot options of an IPMI BMC, by pyghmi or by the program ipmitool."""

    name = "ipmitool"
    properties = credentials.PROPERTIES

    def validate(self, target: Target) -> None:
        credentials.read(target)
        _keep_on_timeout(target)
        _is_forced(target)

    def supported_boot_devices(self, target: Target) -> list[str]:
        return list(DEVICES)

    def get_boot_device(self, target: Target) -> dict[str, object]:
        override = Client.of(target, self.bmcs).get_boot_device()
        return {"boot_device": override["boot_device"], "persistent": override["persistent"]}

    def set_boot_device(self, target: Target, device: str, persistent: bool = False) -> None:
        forced = _is_forced(target)
        self._order(target, device, persistent=persistent and not forced)
        if forced and persistent:
            target.report(driver_internal_info={_FORCED: device, _ONCE: None})
        elif forced:
            target.report(driver_internal_info={_ONCE: True})

    def before_start(self, target: Target) -> None:
        """
        Set the stored boot device again, with `ipmi_force_boot_device`.

        A device that was set for one start has this start.
        """
        device = target.internal_fact(_FORCED)
        if device is None or not _is_forced(target):
            return
        if target.internal_fact(_ONCE):
            target.report(driver_internal_info={_ONCE: None})
        else:
            self._order(target, device, persistent=False)

    def inject_nmi(self, target: Target) -> None:
        Client.of(target, self.bmcs).inject_nmi()

    def sensors(self, target: Target) -> list[dict[str, Any]]:
        return Client.of(target, self.bmcs).sensors()

    def _order(self, target: Target, device: str, *, persistent: bool) -> None:
        Client.of(target, self.bmcs).set_boot_device(
            device,
            persistent=persistent,
            # IPMI sets the boot mode together with the boot device; without it, BIOS applies
            uefi=capabilities.boot_mode(target) == capabilities.UEFI,
            keep_on_timeout=_keep_on_timeout(target),
        )


def _keep_on_timeout(target: Target) -> bool:
    """
    Whether the BMC keeps a boot device longer than 60 s.

    Raises InvalidDriverInfo: the setting is neither true nor false.
    """
    default = target.options["ipmi"]["disable_boot_timeout"]
    return _truth(target, "ipmi_disable_boot_timeout", default)


def _is_forced(target: Target) -> bool:
    """
    Whether a persistent boot device is set again before each start.

    Raises InvalidDriverInfo: the setting is neither true nor false.
    """
    return _truth(target, "ipmi_force_boot_device", False)


def _truth(target: Target, name: str, default: object) -> bool:
    value = target.driver_info.get(name)
    text = str(default if value is None else value).lower()
    if text not in ("true", "false"):
        raise InvalidDriverInfo(f"driver_info/{name}: must be true or false, not {value!r}")
    return text == "true"
