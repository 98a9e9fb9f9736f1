"""
Boot mode and secure boot: bring the machine to the requested settings, and see that it has them.

A firmware setting that does not take effect at once gets a restart of the machine. The machine
then enters its setup, where that can be ordered, so that no system starts meanwhile.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from drivers.core import capabilities
from drivers.core.errors import (
    Busy,
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    Refused,
    StepFailed,
    Unexpected,
)
from drivers.core.kinds.power import POWER_OFF, REBOOT
from drivers.core.steps import AWAITED, Done, Outcome, Wait
from drivers.core.target import Target, run_parts

#: Key of driver_internal_info: secure boot was switched on for the present instance.
OF_INSTANCE = "secure_boot_of_instance"
#: Seconds between polls for the effect of a restart.
POLL_INTERVAL = 5.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A firmware setting of the management interface."""

    name: str  # for messages; with "_" for a space, the fact that is reported
    read: Callable[[Target], Any]  # returns None if the machine does not report it
    order: Callable[[Target, Any], None]

    def present(self, target: Target) -> Any:
        """Read the setting; None also if the machine does not have it."""
        try:
            return self.read(target)
        except NotSupported:
            return None

    def report(self, target: Target, value: object) -> None:
        """Report a value that was read."""
        if value is not None:
            target.report(**{self.name.replace(" ", "_"): value})


BOOT_MODE = Setting(
    "boot mode",
    lambda target: target.driver.management.get_boot_mode(target),
    lambda target, mode: target.driver.management.set_boot_mode(target, mode),
)
SECURE_BOOT = Setting(
    "secure boot",
    lambda target: target.driver.management.get_secure_boot(target),
    lambda target, state: target.driver.management.set_secure_boot(target, state),
)


def for_ramdisk(target: Target) -> Outcome:
    """
    Part of a step: prepare the firmware for the agent's ramdisk, with the machine switched off.

    Secure boot is switched off if it belongs to an instance, unless that still requests it and the
    ramdisk is signed. Nothing is changed that neither instance nor node requests.

    Raises HardwareError: the machine cannot be brought to the requested boot mode.
    """
    stays_on = ramdisk_is_signed(target) and capabilities.requests_secure_boot(target)
    if not target.progress and stays_on:
        return run_parts(target, {"boot_mode": _in_boot_mode})
    return for_installer(target)


def for_installer(target: Target) -> Outcome:
    """
    Part of a step: prepare the firmware for an installer, as for a ramdisk that is not signed.

    Raises HardwareError: the machine cannot be brought to the requested boot mode.
    """
    return run_parts(target, {"secure_boot": _without_secure_boot, "boot_mode": _in_boot_mode})


def ramdisk_is_signed(target: Target) -> bool:
    """
    Whether the agent's ramdisks, and all loaders before them, start with secure boot on.

    Raises InvalidDriverInfo: driver_info/ramdisk_signed is neither true nor false.
    """
    value = target.driver_info.get("ramdisk_signed")
    if value in (None, ""):
        return bool(target.options["deploy"]["ramdisk_signed"])
    text = str(value).lower()
    if text not in ("true", "false"):
        raise InvalidDriverInfo(
            f"driver_info/ramdisk_signed must be true or false, not {value!r:.80}"
        )
    return text == "true"


def for_instance(target: Target) -> Outcome:
    """
    Part of a step: prepare the firmware for the instance, unless that `is_postponed`.

    Raises HardwareError: the machine cannot be brought to the requested settings.
    """
    if not target.progress and is_postponed(target):
        return Done()
    return run_parts(target, {"boot_mode": _in_boot_mode, "secure_boot": _with_secure_boot})


def after_instance(target: Target) -> Outcome:
    """
    Part of a step: switch off the secure boot of an instance that is torn down or left.

    Raises HardwareError: the BMC refuses it.
    """
    return _without_secure_boot(target)


def is_postponed(target: Target) -> bool:
    """
    Whether changes for the instance have to wait until the machine is off.

    A change may need a restart, which would end the running agent; and after a later restart, the
    agent's unsigned ramdisk could not start.
    """
    if target.disable_power_off:
        return False
    mode = capabilities.requested_boot_mode(target)
    is_due = mode is not None and BOOT_MODE.present(target) not in (mode, None)
    if not is_due and not capabilities.requests_secure_boot(target):
        return False
    return target.driver.power.get_power_state(target) != POWER_OFF


def change(target: Target, setting: Setting, value: object) -> Outcome:
    """
    Bring a setting to a value, by a restart if it does not take effect at once; then report it.

    A machine that was off is off afterwards. With `[redfish]boot_mode_config_timeout` 0 the
    outcome of the restart is not awaited.

    Raises HardwareError.
    """
    if "was" not in target.progress:
        current_value = setting.present(target)
        if current_value == value:
            setting.report(target, current_value)
            return Done()
        _order(target, setting, value, current_value)
        effective = setting.present(target)
        setting.report(target, effective)
        if effective in (value, None):
            return Done()
        # commit first: after a crash during the restart, the change is not ordered again
        state = target.driver.power.get_power_state(target)
        waits_for = f"{setting.name} {_word(value)}, which takes effect with a restart"
        return Wait({"was": state, "crashes": target.crashes, AWAITED: waits_for}, poll_after=0)
    was_off = target.progress["was"] == POWER_OFF
    # no power order was lost in a crash before that
    return run_parts(
        replace(target, resumed=target.crashed_since(target.progress)),
        {
            "restart": _restart_into_setup if was_off else _restart,
            "effect": lambda part: _await(part, setting, value),
            **({"off": _switch_off} if was_off else {}),
        },
    )


def _in_boot_mode(target: Target) -> Outcome:
    """Bring the machine to the requested boot mode; without one, note the present mode."""
    mode = capabilities.requested_boot_mode(target)
    if mode is None:
        current_mode = BOOT_MODE.present(target)
        target.report(driver_internal_info={capabilities.DEPLOY_BOOT_MODE: current_mode})
        BOOT_MODE.report(target, current_mode)
        return Done()
    try:
        outcome = change(target, BOOT_MODE, mode)
    except (NotSupported, Refused) as error:
        if isinstance(error, Busy | LoginRefused) or BOOT_MODE.present(target) is not None:
            raise
        outcome = Done()  # set together with the boot device (IPMI), or by hand
    if isinstance(outcome, Done):
        target.report(driver_internal_info={capabilities.DEPLOY_BOOT_MODE: mode})
    return outcome


def _with_secure_boot(target: Target) -> Outcome:
    if not target.progress:
        if not capabilities.requests_secure_boot(target):
            return Done()
        # before the order: after a crash it has to be switched off for the next ramdisk
        target.report(driver_internal_info={OF_INSTANCE: True})
    return change(target, SECURE_BOOT, True)


def _without_secure_boot(target: Target) -> Outcome:
    if not target.progress:
        is_ours = target.driver_internal_info.get(OF_INSTANCE)
        if not is_ours and not capabilities.requests_secure_boot(target):
            return Done()
        if SECURE_BOOT.present(target) is None:  # nothing there that could have been switched on
            return Done()
    outcome = change(target, SECURE_BOOT, False)
    if isinstance(outcome, Done):
        target.report(driver_internal_info={OF_INSTANCE: None})
    return outcome


def _order(target: Target, setting: Setting, value: object, current_value: object) -> None:
    """Order a change. Raises HardwareError: names the setting, its value and the requested one."""
    try:
        setting.order(target, value)
    except (Busy, LoginRefused):
        raise
    except (NotSupported, Refused, Unexpected) as error:
        raise type(error)(
            f"{setting.name} of node {target.uuid} is {_word(current_value)}, not {_word(value)} as"
            f" requested: {error}"
        ) from error


def _restart(target: Target) -> Outcome:
    return target.driver.power.change(target, REBOOT)


def _restart_into_setup(target: Target) -> Outcome:
    if not target.progress:
        with suppress(Refused, NotSupported, Unexpected):
            target.driver.management.set_boot_device(target, "bios", persistent=False)
    return _restart(target)


def _await(target: Target, setting: Setting, value: object) -> Outcome:
    limit = float(target.options["redfish"]["boot_mode_config_timeout"])
    looks = int(target.progress.get("looks", 0))
    if not limit:
        return Done()
    reason = None
    try:
        effective = setting.read(target)
    except HardwareError as error:  # a BMC may be absent for a while as the machine starts
        if not error.retryable:
            raise
        effective = reason = str(error)
    else:
        setting.report(target, effective)
    if effective == value:
        return Done()
    if looks * POLL_INTERVAL >= limit:
        raise StepFailed(
            f"{setting.name} of node {target.uuid} is {_word(effective)}, not {_word(value)} as"
            f" ordered: the restart {looks * POLL_INTERVAL:.0f} s ago has not applied it"
        )
    awaited_effect = f"{setting.name} {_word(value)} to take effect"
    return Wait({"looks": looks + 1, AWAITED: awaited_effect}, POLL_INTERVAL, reason=reason)


def _switch_off(target: Target) -> Outcome:
    return target.driver.power.change(target, POWER_OFF)


def _word(value: Any) -> str:
    return {True: "on", False: "off", None: "not reported"}.get(value, str(value))
