"""
Redfish: boot device of the next start or of every start, and boot mode.

An order is compared with the state that the BMC reports afterwards. A BMC that refuses it, ignores
it, or changes the boot mode with it, gets a second request with target, enabled and mode together;
BMCs for which that is known (`drivers.redfish.booting.quirks`) get that one first. The mode is left
out of the first request since others refuse it (HPE, ansible-collections/community.general issue
3509).

Some BMCs support one-time overrides only (`Once`). There, a persistent boot device is set once,
stored in `driver_internal_info`, and set again before each start of the machine.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

from drivers.core.errors import (
    Busy,
    HardwareError,
    LoginRefused,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    WithoutEffect,
)
from drivers.core.target import Target
from drivers.redfish.booting import quirks
from drivers.redfish.booting.quirks import Difference
from drivers.redfish.transport import navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import entry, link_path, text

logger = logging.getLogger(__name__)

#: Ironic's name of a boot device -> BootSourceOverrideTarget
DEVICES = {
    "pxe": "Pxe",
    "disk": "Hdd",
    "cdrom": "Cd",
    "bios": "BiosSetup",
    "uefihttp": "UefiHttp",
}
#: BootSourceOverrideTarget -> Ironic's name of the boot device
NAMES = {**{source: name for name, source in DEVICES.items()}, "UsbCd": "cdrom"}
#: Keys of driver_internal_info: the stored boot device, and its URL for UEFI HTTP boot.
DEVICE, URL = "redfish_boot_device", "redfish_boot_url"
#: Reads after an order until it counts as ignored, and seconds between them.
LOOKS, LOOK_INTERVAL = 3, 1.0
#: Times that a request is sent while its answers are lost.
SENDS = 3
#: Names of one device.
_EQUAL = ({"Cd", "UsbCd"},)
#: Failures of a request after which the BMC is asked for the effect, and gets the next request.
_DOUBTFUL = (Refused, NotSupported, Unexpected, Unconfirmed)


@dataclass(frozen=True, slots=True)
class Override:
    """Boot settings in Redfish's values; fields are None if not reported, or not ordered."""

    source: str | None = None
    enabled: str | None = None
    mode: str | None = None
    uri: str | None = None
    substitute: str | None = None  # target that this BMC reports instead of `source`

    def mismatch(self, report: "Override") -> str:
        """Return how a BMC's report differs from this order; empty if it does not."""
        mismatches = [
            f"{name} {reported_value}, not {ordered_value}"
            for name, ordered_value, reported_value, accepted_values in (
                ("target", self.source, report.source, {*_same(self.source), self.substitute}),
                # some BMCs report Continuous at all times
                ("enabled", self.enabled, report.enabled, {self.enabled, "Continuous"}),
                ("mode", self.mode, report.mode, {self.mode}),
                ("URI", self.uri, report.uri, {self.uri}),
            )
            if None not in (ordered_value, reported_value) and reported_value not in accepted_values
        ]
        return "; ".join(mismatches)


def choose(
    target: Target, bmc: Connection, device: str, *, persistent: bool, url: str | None = None
) -> None:
    """
    Set the boot device of the next start, or of every start if `persistent`.

    Sends nothing if the BMC reports it already for every start.

    url: image of the device `uefihttp`; None for other devices.

    Raises HardwareError: the BMC refuses the device, or reports another one afterwards.
    """
    if not persistent or not _continuous(target, bmc, device, url):
        _order(target, bmc, device, "Once", url)
        _remember(target, *((device, url) if persistent else (None, None)))
    else:
        _remember(target, None, None)


def remembered(target: Target) -> str | None:
    """Return the stored boot device, which is set again before each start, if there is one."""
    device: str | None = target.internal_fact(DEVICE)
    return device


def restore(target: Target, bmc: Connection) -> None:
    """Set the stored boot device again; if the BMC refuses, its own boot order applies."""
    device = remembered(target)
    if device is None:
        return
    try:
        _order(target, bmc, device, "Once", target.internal_fact(URL))
    except (Refused, NotSupported, Unexpected) as error:
        logger.warning("node %s: boot device %s is not restored: %s", target.uuid, device, error)


def order_mode(target: Target, bmc: Connection, mode: str) -> None:
    """
    Order a boot mode, in Redfish's value; it may take effect with a restart.

    Raises NotSupported: the BMC does not list the mode.
    Raises HardwareError: the BMC refuses it.
    """
    system = bmc.system(fresh=True)
    allowed_modes = entry(system.json, "Boot", "BootSourceOverrideMode@Redfish.AllowableValues")
    if isinstance(allowed_modes, list) and mode not in allowed_modes:
        raise NotSupported(f"BMC {bmc.access.address} lists no boot mode {mode}")
    current_override = reported(bmc)
    order = Override(mode=mode)
    _try(target, bmc, order, _in_order(bmc, order, _full(current_override, mode)))


def reported(bmc: Connection) -> Override:
    """
    Read the boot settings. Use inside `client.turn` only.

    Raises NotSupported: the system has none.
    """
    system = bmc.system(fresh=True)
    navigation.part(system, "boot")
    return _override(entry(system.json, "Boot"))


def _continuous(target: Target, bmc: Connection, device: str, url: str | None) -> bool:
    """Set the boot device of every start; return False if the BMC does not support that."""
    boot = entry(bmc.system(fresh=False).json, "Boot")
    allowed_values = entry(boot, "BootSourceOverrideEnabled@Redfish.AllowableValues")
    if allowed_values and "Continuous" not in allowed_values:
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
    current_override = reported(bmc)
    pending = _pending(bmc) or current_override
    order = Override(
        _source(bmc, device),
        enabled,
        pending.mode or current_override.mode,
        url,
        _substitute(bmc, device, url),
    )
    is_set = not order.mismatch(current_override) and current_override.enabled == enabled
    if is_set and enabled == "Continuous":  # a report of Once may be older than the last start
        return
    short = Override(order.source, order.enabled, None, url)
    mismatch = _try(target, bmc, order, _in_order(bmc, short, order if order.mode else None))
    if mismatch:
        raise WithoutEffect(
            f"BMC {bmc.access.address} accepted boot device {device}, and reports {mismatch}"
        )


def _try(target: Target, bmc: Connection, order: Override, requests: Iterator[Override]) -> str:
    """
    Send requests until the BMC reports what is ordered; return the last difference, else "".

    A request whose answer is lost, without an effect, is sent again: it changes no more than once.

    Raises HardwareError: the BMC refused all of them.
    """
    refusal: HardwareError | None = None
    mismatch, is_accepted = "", False
    for request in requests:
        for _ in range(SENDS):
            error = _attempt(target, bmc, request)
            is_accepted |= error is None
            refusal = refusal or error
            is_refused = isinstance(error, Refused | NotSupported)
            mismatch = order.mismatch(_look(bmc, order, 1 if is_refused else LOOKS))
            if not mismatch:
                return ""
            if not isinstance(error, Unconfirmed):
                break
    if refusal is not None and not is_accepted:
        raise refusal
    return mismatch


def _attempt(target: Target, bmc: Connection, request: Override) -> HardwareError | None:
    """
    Send a request; return the error after which its effect decides.

    Raises HardwareError: another one.
    """
    try:
        _send(target, bmc, request)
    except (Busy, LoginRefused):
        raise
    except _DOUBTFUL as error:
        return error
    return None


def _in_order(
    bmc: Connection, short: Override, full_request: Override | None
) -> Iterator[Override]:
    """Yield the requests to try: the short and the full one, the one for this vendor first."""
    if full_request is None:
        yield short
    elif Difference.FULL_BOOT_REQUEST in quirks.of(bmc, {Difference.FULL_BOOT_REQUEST}):
        yield from (full_request, short)
    else:
        yield from (short, full_request)


def _full(current_override: Override, mode: str) -> Override | None:
    """Return a change of the boot mode with the present boot device, if the BMC reports it."""
    if current_override.source is None or current_override.enabled is None:
        return None
    return Override(current_override.source, current_override.enabled, mode)


def _send(target: Target, bmc: Connection, request: Override) -> None:
    values = {
        "target": request.source,
        "enabled": request.enabled,
        "mode": request.mode,
        "http_boot_uri": request.uri,
    }
    target.before_order()
    bmc.set_boot(**{name: value for name, value in values.items() if value is not None})


def _look(bmc: Connection, order: Override, looks: int) -> Override:
    """Read the boot settings, also pending ones, until they are as ordered, at most `looks`."""
    report = Override()
    for look in range(looks):
        if look:
            time.sleep(LOOK_INTERVAL)
        report = reported(bmc)
        if not order.mismatch(report):
            break
        pending = _pending(bmc)
        if pending is not None and not order.mismatch(pending):
            return pending
    return report


def _pending(bmc: Connection) -> Override | None:
    """Read the boot settings of the next start (AMI, iDRAC 10), if the BMC has such settings."""
    system = bmc.system(fresh=False)
    path = link_path(system.json, "@Redfish.Settings", "SettingsObject")
    if path is None:
        return None
    boot = entry(bmc.find(path), "Boot")
    return _override(boot) if boot else None


def _source(bmc: Connection, device: str) -> str:
    """Return the BootSourceOverrideTarget of a device at this BMC."""
    source = DEVICES[device]
    boot = entry(bmc.system(fresh=False).json, "Boot")
    allowed_sources = entry(boot, "BootSourceOverrideTarget@Redfish.AllowableValues")
    if source != "Cd" or not isinstance(allowed_sources, list) or "UsbCd" not in allowed_sources:
        return source
    return "UsbCd" if "Cd" not in allowed_sources or quirks.of(bmc, {Difference.USB_CD}) else source


def _substitute(bmc: Connection, device: str, url: str | None) -> str | None:
    """
    Return the target by which this BMC emulates a device, or None if it uses the device itself.
    """
    differences = {Difference.EMULATED_HTTP_BOOT}
    if device != "uefihttp" or not quirks.of(bmc, differences):
        return None
    return "Cd" if url else "Pxe"


def _override(boot: object) -> Override:
    def setting(name: str) -> str | None:
        return text(entry(boot, f"BootSourceOverride{name}"))

    uri = text(entry(boot, "HttpBootUri"), max_length=2048)
    return Override(setting("Target"), setting("Enabled"), setting("Mode"), uri)


def _same(source: str | None) -> set[str | None]:
    return next((set(names) for names in _EQUAL if source in names), {source})


def _remember(target: Target, device: str | None, url: str | None) -> None:
    if (remembered(target), target.internal_fact(URL)) != (device, url):
        target.report(driver_internal_info={DEVICE: device, URL: url})
