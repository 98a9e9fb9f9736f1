"""
Orders to a simulated BMC: requests that change the machine; each is logged.

An order receives the JSON body of its request, and raises Refusal or WrongState.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from time import time
from typing import Any

from drivers.simulator.machine import BIOS_CHOICES, BIOS_DEFAULTS
from drivers.simulator.power import Power
from drivers.simulator.redfish_bmc import events, system, volumes
from drivers.simulator.redfish_bmc.documents import (
    ACCOUNTS,
    CHASSIS,
    INVENTORY,
    MANAGER,
    ROOT,
    STORAGE,
    SUBSCRIPTIONS,
    SYSTEM,
)
from drivers.simulator.redfish_bmc.volumes import DONE
from drivers.simulator.refusal import Refusal, choice, only
from drivers.simulator.server import CUT, Response

Body = dict[str, Any]
Order = Callable[[Power, Body], Response]

#: ResetKeysType -> SecureBootMode afterwards
KEY_RESETS = {"ResetAllKeysToDefault": "UserMode", "DeleteAllKeys": "SetupMode"}
#: ResetType -> words of the log.
RESET_WORDS = {
    "On": "power on",
    "ForceOn": "power on",
    "ForceOff": "power off",
    "GracefulShutdown": "soft power off",
    "ForceRestart": "restart",
    "PowerCycle": "restart",
    "GracefulRestart": "soft restart",
    "PushPowerButton": "power button",
    "Nmi": "nmi",
}


def reset(power: Power, body: Body) -> Response:
    kind = choice(body, "ResetType", system.RESET_TYPES)
    power.machine.record("redfish", RESET_WORDS[kind], kind)
    power.reset(kind)
    return DONE


def change_system(power: Power, body: Body) -> Response:
    machine = power.machine
    only(body, {"Boot", "IndicatorLED", "AssetTag"})
    boot = body.get("Boot", {})
    if not isinstance(boot, dict):
        raise Refusal(400, "PropertyValueTypeError", "Boot is not an object.")
    override = "BootSourceOverride"
    only(
        boot,
        {*(f"{override}{suffix}" for suffix in ("Target", "Enabled", "Mode")), "HttpBootUri"},
    )
    target = choice(boot, f"{override}Target", system.BOOT_TARGETS, machine.boot_target)
    choices = system.boot_enabled(machine)
    enabled = choice(boot, f"{override}Enabled", choices, machine.boot_enabled)
    mode = choice(boot, f"{override}Mode", system.BOOT_MODES, machine.boot_mode)
    indicator = choice(body, "IndicatorLED", system.INDICATORS, machine.indicator)
    if boot:
        if machine.faults.boot_fixed_in_post and machine.runs == "starting":
            raise Refusal(400, "UnableToModifyDuringSystemPOST", "The system is in POST.")
        machine.boot_target, machine.boot_enabled, machine.boot_mode = target, enabled, mode
        machine.boot_uri = boot.get("HttpBootUri", machine.boot_uri) or ""
        machine.record("redfish", "boot device", boot)
    if "IndicatorLED" in body:
        machine.indicator = indicator
        machine.record("redfish", "indicator", indicator)
    if "AssetTag" in body:
        machine.asset_tag = str(body["AssetTag"])
        machine.record("redfish", "asset tag", machine.asset_tag)
    return DONE


def change_chassis(power: Power, body: Body) -> Response:
    only(body, {"IndicatorLED"})
    return change_system(power, body)


def change_drive(power: Power, body: Body, index: int) -> Response:
    only(body, {"IndicatorLED"})
    indicator = choice(body, "IndicatorLED", system.INDICATORS)
    power.machine.drive_indicators[index] = indicator
    power.machine.record("redfish", "drive indicator", {"drive": index, "led": indicator})
    return DONE


def change_bios(power: Power, body: Body) -> Response:
    attributes = body.get("Attributes")
    if not isinstance(attributes, dict):
        raise Refusal(400, "PropertyMissing", "Attributes is missing.")
    for name, value in attributes.items():
        if name not in BIOS_DEFAULTS:
            raise Refusal(400, "PropertyUnknown", f"There is no BIOS attribute {name}.")
        if name in BIOS_CHOICES:
            choice(attributes, name, BIOS_CHOICES[name])
        elif not isinstance(value, int) or isinstance(value, bool):
            raise Refusal(400, "PropertyValueTypeError", f"{name} is not an integer.")
    power.machine.bios_pending.update(attributes)
    power.machine.record("redfish", "bios", attributes)
    return DONE


def reset_bios(power: Power, _body: Body) -> Response:
    power.machine.bios_pending = dict(BIOS_DEFAULTS)
    power.machine.record("redfish", "reset bios")
    return DONE


def change_secure_boot(power: Power, body: Body) -> Response:
    only(body, {"SecureBootEnable"})
    is_enabled = body.get("SecureBootEnable")
    if not isinstance(is_enabled, bool):
        raise Refusal(400, "PropertyValueTypeError", "SecureBootEnable is not a boolean.")
    if is_enabled and power.machine.boot_mode != "UEFI":
        raise Refusal(409, "ResourceInUse", "Secure boot needs boot mode UEFI.")
    power.machine.secure_boot = is_enabled
    power.machine.record("redfish", "secure boot", is_enabled)
    return DONE


def reset_keys(power: Power, body: Body) -> Response:
    kind = body.get("ResetKeysType")
    if kind not in KEY_RESETS:
        raise Refusal(400, "ActionParameterNotSupported", "ResetKeysType is unknown.")
    power.machine.secure_boot_mode = KEY_RESETS[kind]
    power.machine.record("redfish", "reset keys", kind)
    return DONE


def change_account(power: Power, body: Body) -> Response:
    machine, faults = power.machine, power.machine.faults
    only(body, {"Password"})
    password = body.get("Password")
    if isinstance(password, str):
        machine.seen_passwords.add(password)
    if not isinstance(password, str) or not 8 <= len(password) <= 20:
        raise Refusal(400, "PropertyValueFormatError", "Password has 8 to 20 characters.")
    if faults.password_refused:
        words = faults.password_refused.replace("{password}", password)
        raise Refusal(400, "PropertyValueError", words)
    machine.record("redfish", "password")
    if faults.password_cut != "before" and not faults.password_unapplied:
        machine.set_password(password)
    return CUT if faults.password_cut else DONE


def change_manager(power: Power, body: Body) -> Response:
    only(body, {"DateTime", "DateTimeLocalOffset"})
    machine = power.machine
    if "DateTime" in body:
        try:
            bmc_time = datetime.fromisoformat(body["DateTime"])
        except (TypeError, ValueError):
            raise Refusal(400, "PropertyValueFormatError", "DateTime is no time.") from None
        machine.clock_ahead = bmc_time.timestamp() - time()
    machine.clock_offset = body.get("DateTimeLocalOffset", machine.clock_offset)
    machine.record("redfish", "clock", body)
    return DONE


def insert(power: Power, body: Body, device: str) -> Response:
    machine = power.machine
    url = body.get("Image")
    if not isinstance(url, str) or not url:
        raise Refusal(400, "ActionParameterMissing", "Image is missing.")
    if not url.startswith(("http://", "https://", "file:")):
        raise Refusal(400, "ActionParameterValueFormatError", f"{url} cannot be read.")
    if machine.media[device]:
        raise Refusal(409, "ResourceInUse", f"{device} holds {machine.media[device]}.")
    machine.media[device] = url
    machine.record("redfish", "insert media", {"device": device, "image": url})
    return DONE


def eject(power: Power, _body: Body, device: str) -> Response:
    machine = power.machine
    machine.record("redfish", "eject media", {"device": device, "image": machine.media[device]})
    machine.media[device] = ""
    return DONE


def reset_manager(power: Power, body: Body) -> Response:
    power.machine.sessions.clear()
    if power.machine.faults.subscriptions_volatile:
        power.machine.subscriptions.clear()
    power.machine.record("redfish", "reset manager", body.get("ResetType"))
    return DONE


def update_firmware(power: Power, body: Body) -> Response:
    machine = power.machine
    url = body.get("ImageURI")
    if not isinstance(url, str) or not url:
        raise Refusal(400, "ActionParameterMissing", "ImageURI is missing.")
    targets = body.get("Targets") or [f"{INVENTORY}/BMC"]
    parts = [str(target).rsplit("/", 1)[-1] for target in targets]
    version = url.rsplit("/", 1)[-1].rsplit(".", 1)[0]

    def flash() -> None:
        for part in parts:
            if part not in machine.firmware:
                part = "BIOS" if part == machine.uuid else "BMC"
            machine.firmware[part] = version

    machine.record("redfish", "update firmware", {"image": url, "targets": targets})
    return volumes.ordered_task(machine, "Firmware update", flash, machine.faults.task_seconds)


def _media(device: str) -> dict[tuple[str, str], Order]:
    actions = f"{MANAGER}/VirtualMedia/{device}/Actions"
    return {
        ("POST", f"{actions}/VirtualMedia.InsertMedia"): partial(insert, device=device),
        ("POST", f"{actions}/VirtualMedia.EjectMedia"): partial(eject, device=device),
    }


#: Method and path, with {id} in place of the system's UUID -> order.
ORDERS: dict[tuple[str, str], Order] = {
    ("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset"): reset,
    ("PATCH", SYSTEM): change_system,
    ("PATCH", CHASSIS): change_chassis,
    ("PATCH", MANAGER): change_manager,
    ("PATCH", f"{ACCOUNTS}/2"): change_account,
    ("PATCH", f"{SYSTEM}/Bios/Settings"): change_bios,
    ("POST", f"{SYSTEM}/Bios/Actions/Bios.ResetBios"): reset_bios,
    ("PATCH", f"{SYSTEM}/SecureBoot"): change_secure_boot,
    ("POST", f"{SYSTEM}/SecureBoot/Actions/SecureBoot.ResetKeys"): reset_keys,
    **_media("Cd"),
    **_media("Floppy"),
    **{
        ("PATCH", f"{STORAGE}/Drives/{index}"): partial(change_drive, index=index)
        for index in range(system.DRIVES)
    },
    ("POST", f"{MANAGER}/Actions/Manager.Reset"): reset_manager,
    ("POST", f"{STORAGE}/Volumes"): lambda power, body: volumes.create(power.machine, body),
    ("POST", f"{ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate"): update_firmware,
    ("POST", SUBSCRIPTIONS): events.subscribe,
    ("POST", events.TEST): events.submit_test,
}
