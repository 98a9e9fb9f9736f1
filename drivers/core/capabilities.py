"""
Capabilities: the demands of an instance on its machine (`instance_info/capabilities`), and the
offers of a machine (`properties/capabilities`).

Both fields have one of three forms: an object, the JSON text of an object, or the text
`name:value,name:value`. A malformed field is refused, and never taken for an empty one.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Target

#: Capability that the service reads -> its values. Others have any value; schedulers read them.
VALUES: Mapping[str, tuple[str, ...]] = {
    "boot_mode": ("uefi", "bios"),
    "boot_option": ("local", "ramdisk", "kickstart"),  # netboot has left Ironic
    "disk_label": ("gpt", "msdos"),
    "secure_boot": ("true", "false"),
}
UEFI, BIOS = "uefi", "bios"
#: Values of properties/cpu_arch of machines whose firmware is never a legacy BIOS.
_WITHOUT_BIOS = ("aarch64", "arm64")
#: Key of driver_internal_info, Ironic's name: boot mode of the machine at its last preparation.
DEPLOY_BOOT_MODE = "deploy_boot_mode"
_INSTANCE, _NODE = "instance_info/capabilities", "properties/capabilities"
_FORMS = "must be an object, its JSON text, or name:value pairs separated by commas"


def of_instance(target: Target) -> dict[str, str]:
    """Return the capabilities that the instance asks for. Raises InvalidDriverInfo."""
    return parsed(target.instance_info.get("capabilities"), _INSTANCE)


def of_node(target: Target) -> dict[str, str]:
    """Return the capabilities of the machine. Raises InvalidDriverInfo."""
    return parsed(target.properties.get("capabilities"), _NODE)


def requested_boot_mode(target: Target) -> str | None:
    """
    Return `uefi` or `bios`, as instance or node request it; None if neither does.

    The instance takes precedence. Secure boot requests `uefi`.

    Raises InvalidDriverInfo: a value is malformed, or secure boot is requested with `bios`.
    """
    field, mode = _requested(target)
    if not requests_secure_boot(target):
        return mode
    if mode == BIOS:
        raise InvalidDriverInfo(
            f"{_INSTANCE}: secure_boot needs boot_mode uefi, and {field} requests {mode}"
        )
    return UEFI


def _requested(target: Target) -> tuple[str, str | None]:
    """Return the field that requests a boot mode, and the mode. Raises InvalidDriverInfo."""
    fields = {_INSTANCE: of_instance(target), _NODE: of_node(target)}
    modes = {name: values["boot_mode"] for name, values in fields.items() if "boot_mode" in values}
    return next(iter(modes.items()), (_NODE, None))


def boot_mode(target: Target) -> str:
    """
    Return the boot mode of the node's next start: `uefi` or `bios`.

    The requested one, else the one of the last preparation (present firmware setting), else
    `[deploy]default_boot_mode`.

    Raises InvalidDriverInfo: see `requested_boot_mode`.
    """
    prepared = target.internal_fact(DEPLOY_BOOT_MODE)
    mode = requested_boot_mode(target) or (prepared if prepared in (UEFI, BIOS) else None)
    return mode or str(target.options["deploy"]["default_boot_mode"])


def requests_secure_boot(target: Target) -> bool:
    """
    Whether the instance requests secure boot: its capability `secure_boot` is true, as in Ironic.

    `secure_boot` of the node's properties says that the machine is capable of it.

    Raises InvalidDriverInfo: the value is neither true nor false.
    """
    return of_instance(target).get("secure_boot") == "true"


def validate(target: Target) -> None:
    """
    Check boot mode and secure boot in the capabilities of instance and node, and that the boot
    interface and the machine's architecture have the boot mode.

    Raises InvalidDriverInfo: names the field.
    """
    mode, (field, _) = requested_boot_mode(target), _requested(target)
    boot, management = target.driver.boot, target.driver.management
    if mode is not None and mode not in boot.modes:
        raise InvalidDriverInfo(
            f"{field}: boot_mode {mode} is requested, and boot_interface {boot.name} boots in"
            f" {' and '.join(boot.modes)} only"
        )
    architecture = target.properties.get("cpu_arch")
    if mode == BIOS and architecture in _WITHOUT_BIOS:
        raise InvalidDriverInfo(
            f"{field}: boot_mode {mode} is requested, and machines with properties/cpu_arch"
            f" {architecture} boot in {UEFI} only"
        )
    if requests_secure_boot(target) and not management.has("set_secure_boot"):
        raise InvalidDriverInfo(
            f"{_INSTANCE}: secure_boot is requested, and management_interface"
            f" {management.name} cannot change it"
        )


def parsed(value: object, field: str) -> dict[str, str]:
    """
    Return the content of a field with capabilities as {name: value}; empty if it is unset.

    field: the field, for errors.

    Raises InvalidDriverInfo: the field is malformed, names a capability twice with different
    values, or has a value that `VALUES` does not list.
    """
    if value is None or value == "":
        return {}
    values: dict[str, str] = {}
    for name, text in _pairs(value, field):
        if not name or not text or not (name + text).isprintable():
            raise InvalidDriverInfo(
                f"{field}: {(name or text)!r:.80} lacks a name or a value; it {_FORMS}"
            )
        usual = name.lower().replace("-", "_")
        if usual in VALUES and name != usual:
            raise InvalidDriverInfo(f"{field}: {name!r} is written {usual}")
        accepted_values = VALUES.get(name)
        if accepted_values and (text := text.lower()) not in accepted_values:
            raise InvalidDriverInfo(
                f"{field}: {name} must be one of {', '.join(accepted_values)}, not {text!r}"
            )
        if values.setdefault(name, text) != text:
            raise InvalidDriverInfo(f"{field}: {name} is named twice with different values")
    return values


def written(values: Mapping[str, str], field: str) -> str:
    """
    Return capabilities in the form `name:value,name:value`.

    Raises InvalidDriverInfo: `parsed` would refuse them, or read others.
    """
    parsed_values = parsed(values, field)
    text = ",".join(f"{name}:{value}" for name, value in parsed_values.items())
    if parsed(text, field) != parsed_values:
        raise InvalidDriverInfo(f"{field}: a comma or colon in {text!r:.200} would be a separator")
    return text


def _pairs(value: object, field: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[", '"')):
        parts = (part.partition(":") for part in value.split(",") if part.strip())
        return [(name.strip(), text.strip()) for name, _, text in parts]
    if isinstance(value, str):
        try:
            value = json.loads(value, object_pairs_hook=_Members)
        except (ValueError, RecursionError) as error:
            raise InvalidDriverInfo(f"{field}: is no JSON ({error}); it {_FORMS}") from None
    elif isinstance(value, Mapping):
        value = _Members(value.items())
    if not isinstance(value, _Members):
        raise InvalidDriverInfo(f"{field}: {_FORMS}, not {type(value).__name__}")
    return [(str(name).strip(), _text(text, f"{field}: {name}")) for name, text in value]


class _Members(list[tuple[str, Any]]):
    """Members of a JSON object, names that occur twice included."""


def _text(value: object, field: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise InvalidDriverInfo(f"{field} must be a text, number or boolean, not {value!r:.80}")
    return str(value).strip()
