"""
Redfish: boot device of the next start or of every start.

Some BMCs support one-time overrides only (`Once`). There, a persistent boot device is set once,
stored in `driver_internal_info`, and set again before each start of the machine.
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
#: Keys of driver_internal_info: the stored boot device, and its URL for UEFI HTTP boot.
DEVICE, URL = "redfish_boot_device", "redfish_boot_url"


def choose(
    target: Target, bmc: Connection, device: str, *, persistent: bool, url: str | None = None
) -> None:
    """
    Set the boot device of the next start, or of every start if `persistent`.

    Sends nothing if the BMC reports it already.

    url: image of the device `uefihttp`; None for other devices.
    """
    if not persistent or not _continuous(target, bmc, device, url):
        _order(target, bmc, device, "Once", url)
        _remember(target, *((device, url) if persistent else (None, None)))
    else:
        _remember(target, None, None)


def remembered(target: Target) -> str | None:
    """Return the stored boot device, which is set again before each start; None: there is none."""
    return _facts(target).get(DEVICE)


def restore(target: Target, bmc: Connection) -> None:
    """Set the stored boot device again; if the BMC refuses, its own boot order applies."""
    device = remembered(target)
    if device is None:
        return
    try:
        _order(target, bmc, device, "Once", _facts(target).get(URL))
    except (Refused, NotSupported, Unexpected) as error:
        logger.warning("node %s: boot device %s is not restored: %s", target.uuid, device, error)


def override(system: Any) -> tuple[str | None, str | None]:
    """Return BootSourceOverrideTarget and BootSourceOverrideEnabled of the system."""
    boot = part(system, "boot")
    source, enabled = boot.get("target"), boot.get("enabled")
    return getattr(source, "value", source), getattr(enabled, "value", enabled)


def _continuous(target: Target, bmc: Connection, device: str, url: str | None) -> bool:
    """Set the boot device of every start; return False if the BMC does not support that."""
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
    """Return driver_internal_info with the reports of this step applied."""
    return {**target.driver_internal_info, **target.reports.get("driver_internal_info", {})}


def _remember(target: Target, device: str | None, url: str | None) -> None:
    known = _facts(target)
    if (known.get(DEVICE), known.get(URL)) != (device, url):
        target.report(driver_internal_info={DEVICE: device, URL: url})
