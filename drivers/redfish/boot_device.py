"""
Redfish: what the machine boots from, now or always.

Some BMCs know only one-time overrides (`Once`). There, a device that is to last is ordered once,
remembered in `driver_internal_info`, and ordered again before each start of the machine.
"""

import logging
from typing import Any

from drivers.core.errors import Busy, NotSupported, Refused, Unexpected
from drivers.core.target import Target
from drivers.redfish.client import Connection
from drivers.redfish.parts import part

logger = logging.getLogger(__name__)

#: Ironic's name of a boot device -> BootSourceOverrideTarget
DEVICES = {
    "pxe": "Pxe",
    "disk": "Hdd",
    "cdrom": "Cd",
    "bios": "BiosSetup",
    "uefihttp": "UefiHttp",
}
#: Keys of driver_internal_info: the device to order again, and the URL that UEFI boots from.
DEVICE, URL = "redfish_boot_device", "redfish_boot_url"


def choose(
    target: Target, bmc: Connection, device: str, *, persistent: bool, url: str | None = None
) -> None:
    """
    Boot from a device at the next start, or at each. Nothing is sent when the BMC says so already.

    url: what UEFI fetches, with the device `uefihttp`.
    """
    if not persistent or not _continuous(target, bmc, device, url):
        _order(target, bmc, device, "Once", url)
        _remember(target, *((device, url) if persistent else (None, None)))
    else:
        _remember(target, None, None)


def remembered(target: Target) -> str | None:
    """The persistent boot device that is ordered again before each start, if there is one."""
    return _facts(target).get(DEVICE)


def restore(target: Target, bmc: Connection) -> None:
    """Order the remembered device once more. Where the BMC refuses, its own boot order decides."""
    device = remembered(target)
    if device is None:
        return
    try:
        _order(target, bmc, device, "Once", _facts(target).get(URL))
    except (Refused, NotSupported, Unexpected) as error:
        logger.warning("node %s: boot device %s is not restored: %s", target.uuid, device, error)


def override(system: Any) -> tuple[str | None, str | None]:
    """(BootSourceOverrideTarget, BootSourceOverrideEnabled) as the BMC gives them."""
    boot = part(system, "boot")
    source, enabled = boot.get("target"), boot.get("enabled")
    return getattr(source, "value", source), getattr(enabled, "value", enabled)


def _continuous(target: Target, bmc: Connection, device: str, url: str | None) -> bool:
    """Order a device for every start; False when the BMC cannot."""
    boot = bmc.system(fresh=False).json.get("Boot") or {}
    allowed = boot.get("BootSourceOverrideEnabled@Redfish.AllowableValues")
    if allowed and "Continuous" not in allowed:
        return False
    try:
        _order(target, bmc, device, "Continuous", url)
    except Busy:
        raise
    except (Refused, NotSupported, Unexpected) as error:
        logger.info("node %s: boot device %s is ordered once: %s", target.uuid, device, error)
        return False
    return True


def _order(target: Target, bmc: Connection, device: str, enabled: str, url: str | None) -> None:
    system, wanted = bmc.system(fresh=True), (DEVICES[device], enabled)
    if override(system) == wanted and (url is None or system.boot.get("http_boot_uri") == url):
        return
    target.before_order()
    options = {} if url is None else {"http_boot_uri": url}
    bmc.set_boot(target=wanted[0], enabled=wanted[1], **options)


def _facts(target: Target) -> dict[str, Any]:
    """driver_internal_info, as it will be once this step has ended."""
    return {**target.driver_internal_info, **target.reports.get("driver_internal_info", {})}


def _remember(target: Target, device: str | None, url: str | None) -> None:
    known = _facts(target)
    if (known.get(DEVICE), known.get(URL)) != (device, url):
        target.report(driver_internal_info={DEVICE: device, URL: url})
