"""
Capabilities of nodes and instances: `properties/capabilities`, `instance_info/capabilities`.

A mapping, JSON text of one, or text of the form `boot_mode:uefi,secure_boot:true`.
"""

import json
from collections.abc import Mapping
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Target

UEFI, BIOS = "uefi", "bios"
#: Key of driver_internal_info, Ironic's name: boot mode of the machine at its last preparation.
DEPLOY_BOOT_MODE = "deploy_boot_mode"
_INSTANCE, _NODE = "instance_info", "properties"


def parse(value: Any, field: str) -> dict[str, str]:
    """
    Return capabilities as a mapping. field: the name of `value` for the error message.

    Raises InvalidDriverInfo: the value is malformed.
    """
    document = value
    if isinstance(value, str) and value.strip().startswith("{"):
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidDriverInfo(f"{field}: malformed JSON") from None
    if document in (None, ""):
        return {}
    if isinstance(document, Mapping):
        for name, setting in document.items():
            if not isinstance(setting, str | int | float | bool):
                raise InvalidDriverInfo(f"{field}: the value of {name!r:.100} must be a text")
        return {str(name).strip(): str(setting).strip() for name, setting in document.items()}
    if not isinstance(document, str):
        raise InvalidDriverInfo(f"{field}: must be an object or a text such as boot_mode:uefi")
    settings = {}
    for pair in document.split(","):
        name, colon, setting = (part.strip() for part in pair.partition(":"))
        if not (name and colon and setting):
            raise InvalidDriverInfo(f"{field}: {pair.strip()!r:.100} is not of the form name:value")
        settings[name] = setting
    return settings


def of_instance(target: Target) -> dict[str, str]:
    """Return the capabilities that the instance requests. Raises InvalidDriverInfo."""
    return parse(target.instance_info.get("capabilities"), f"{_INSTANCE}/capabilities")


def of_node(target: Target) -> dict[str, str]:
    """Return the capabilities of the node. Raises InvalidDriverInfo."""
    return parse(target.properties.get("capabilities"), f"{_NODE}/capabilities")


def requested_boot_mode(target: Target) -> str | None:
    """
    Return `uefi` or `bios`, as instance or node request it; None if neither does.

    The instance takes precedence. Secure boot requests `uefi`.

    Raises InvalidDriverInfo: a value is malformed, or secure boot is requested with `bios`.
    """
    of_fields = ((_INSTANCE, of_instance(target)), (_NODE, of_node(target)))
    modes = [(mode, field) for field, values in of_fields if (mode := _boot_mode(values, field))]
    mode, field = modes[0] if modes else (None, "")
    if not requests_secure_boot(target):
        return mode
    if mode == BIOS:
        raise InvalidDriverInfo(
            f"{_INSTANCE}/capabilities: secure_boot needs boot_mode uefi, and {field}/capabilities"
            f" requests {mode}"
        )
    return UEFI


def boot_mode(target: Target) -> str:
    """
    Return the boot mode of the node's next start: `uefi` or `bios`.

    The requested one, else that in which the machine was last prepared (present firmware setting),
    else `[deploy]default_boot_mode`.

    Raises InvalidDriverInfo: see `requested_boot_mode`.
    """
    facts = {**target.driver_internal_info, **target.reports.get("driver_internal_info", {})}
    prepared = facts.get(DEPLOY_BOOT_MODE)
    mode = requested_boot_mode(target) or (prepared if prepared in (UEFI, BIOS) else None)
    return mode or str(target.options["deploy"]["default_boot_mode"])


def requests_secure_boot(target: Target) -> bool:
    """
    Whether the instance requests secure boot: its capability `secure_boot` is true, as in Ironic.

    `secure_boot` of the node's properties says that the machine is capable of it.

    Raises InvalidDriverInfo: the value is neither true nor false.
    """
    return _flag(of_instance(target), _INSTANCE)


def validate(target: Target) -> None:
    """
    Check boot mode and secure boot in the capabilities of instance and node.

    Raises InvalidDriverInfo: names the field.
    """
    requested_boot_mode(target)
    _flag(of_node(target), _NODE)
    management = target.driver.management
    if requests_secure_boot(target) and not management.has("set_secure_boot"):
        raise InvalidDriverInfo(
            f"{_INSTANCE}/capabilities: secure_boot is requested, and management_interface"
            f" {management.name} cannot change it"
        )


def _boot_mode(capabilities: Mapping[str, str], field: str) -> str | None:
    mode = capabilities.get("boot_mode", "").lower() or None
    if mode not in (UEFI, BIOS, None):
        raise InvalidDriverInfo(
            f"{field}/capabilities: boot_mode {mode!r:.100} is neither uefi nor bios"
        )
    return mode


def _flag(capabilities: Mapping[str, str], field: str) -> bool:
    flag = capabilities.get("secure_boot", "false").lower()
    if flag not in ("true", "false"):
        raise InvalidDriverInfo(
            f"{field}/capabilities: secure_boot {flag!r:.100} is neither true nor false"
        )
    return flag == "true"
