"""
Redfish: types of BIOS settings, by the attribute registry or else by the present value.

Callers write values as the API shows them, as text. They are converted before they are sent.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drivers.core.errors import InvalidDriverInfo
from drivers.redfish.transport import navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import (
    elements,
    entry,
    last_part,
    link_paths,
    number,
    text,
)

#: Largest number of the database columns.
_BOUND = 2**31 - 1
#: Most members of the registry collection that are read in search of the BIOS's.
_MOST_REGISTRIES = 60
#: Columns of the API -> names in the attribute registry.
_NUMBERS = {
    "lower_bound": "LowerBound", "upper_bound": "UpperBound",
    "min_length": "MinLength", "max_length": "MaxLength",
}  # fmt: skip
_FLAGS = {
    "read_only": "ReadOnly",
    "reset_required": "ResetRequired",
    "unique": "IsSystemUniqueProperty",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A BIOS setting."""

    name: str
    value: object  # present value
    facts: Mapping[str, object] = field(default_factory=dict)  # entry of the registry; {}: none

    @property
    def type(self) -> str:
        """Type by the registry, else by the present value; "": unknown."""
        type_name = text(entry(self.facts, "Type"))
        if type_name is not None and type_name in _CONVERTERS:
            return type_name
        return next((name for kind, name in _OF_VALUES if isinstance(self.value, kind)), "")

    @property
    def choices(self) -> list[str]:
        """The values of an enumeration; empty if they are not known."""
        names = [entry(choice, "ValueName") for choice in elements(self.facts, "Value")]
        return [name for name in names if isinstance(name, str)]

    def converted(self, value: object) -> object:
        """
        Convert a desired value to the setting's type.

        Raises InvalidDriverInfo: names the setting, and the accepted values.
        """
        if entry(self.facts, "ReadOnly") is True or entry(self.facts, "Immutable") is True:
            raise InvalidDriverInfo(f"settings: {self.name} is read-only")
        try:
            return _CONVERTERS[self.type](self, value)
        except ValueError as error:
            raise InvalidDriverInfo(
                f"settings: {self.name} cannot be {value!r:.100}: {error}"
            ) from None

    def shown(self) -> dict[str, object]:
        """Return the facts of the registry under the names of the API; {} without a registry."""
        if not self.facts:
            return {}
        flags = {name: entry(self.facts, key) for name, key in _FLAGS.items()}
        return {
            "attribute_type": text(entry(self.facts, "Type")),
            "allowable_values": self.choices,
            **{
                name: number(entry(self.facts, key), -_BOUND, _BOUND)
                for name, key in _NUMBERS.items()
            },
            **{name: value if isinstance(value, bool) else None for name, value in flags.items()},
        }


def same(desired: object, current_value: object) -> bool:
    """Compare a desired value, which was converted, with a present one, by the former's type."""
    if type(desired) is type(current_value):
        return bool(desired == current_value)
    try:
        return bool(
            _CONVERTERS[Setting("", desired).type](Setting("", desired), current_value) == desired
        )
    except ValueError:
        return False


def registry(bmc: Connection, bios: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """
    Read the entries of the BIOS's attribute registry, by name; {} if the BMC has none.

    It is read at each call, since an update of the BIOS replaces it.
    """
    name = text(entry(bios, "AttributeRegistry"))
    collection = navigation.link(bmc.open(), "registries")
    if name is None or collection is None:
        return {}
    members = link_paths(bmc.find(collection), "Members")
    # the usual path ends with the name, with or without its version
    members.sort(key=lambda path: not name.startswith(last_part(path)))
    for path in members[:_MOST_REGISTRIES]:
        document = bmc.find(path)
        if name in (entry(document, "Registry"), entry(document, "Id")):
            for location_path in _locations(document):
                attributes = entry(bmc.find(location_path), "RegistryEntries", "Attributes")
                if isinstance(attributes, list):
                    return {
                        attribute_name: attribute
                        for attribute in attributes
                        if isinstance(attribute_name := entry(attribute, "AttributeName"), str)
                    }
    return {}


def _locations(document: object) -> Iterator[str]:
    """Yield the paths of a registry's documents, the English one first."""
    order = sorted(
        elements(document, "Location"),
        key=lambda location: not str(entry(location, "Language")).startswith("en"),
    )
    for location in order:
        path = entry(location, "Uri")
        if isinstance(path, dict):
            path = entry(path, "@odata.id") or entry(path, "extref")
        if isinstance(path, str) and path.startswith("/"):
            yield path


def _integer(setting: Setting, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a whole number is needed")
    try:
        number = int(value) if isinstance(value, int | str) else value
    except ValueError:
        number = _float(setting, value)
    if not math.isfinite(number) or number != int(number):
        raise ValueError("a whole number is needed")
    lower_bound, upper_bound = (entry(setting.facts, name) for name in ("LowerBound", "UpperBound"))
    if isinstance(lower_bound, int) and number < lower_bound:
        raise ValueError(f"at least {lower_bound} is needed")
    if isinstance(upper_bound, int) and number > upper_bound:
        raise ValueError(f"at most {upper_bound} is allowed")
    return int(number)


def _float(_setting: Setting, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a number is needed")
    try:
        return float(value)
    except (OverflowError, ValueError):
        raise ValueError("a number is needed") from None


def _boolean(_setting: Setting, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("true or false is needed")


def _text(setting: Setting, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("text is needed")
    min_length, max_length = (entry(setting.facts, name) for name in ("MinLength", "MaxLength"))
    if isinstance(min_length, int) and len(str(value)) < min_length:
        raise ValueError(f"at least {min_length} characters are needed")
    if isinstance(max_length, int) and len(str(value)) > max_length:
        raise ValueError(f"at most {max_length} characters are allowed")
    return str(value)


def _choice(setting: Setting, value: object) -> str:
    if not isinstance(value, str | int | float | bool):
        raise ValueError("text is needed")
    choice = str(value)
    if setting.choices and choice not in setting.choices:
        raise ValueError(f"one of {', '.join(setting.choices)} is needed")
    return choice


def _password(_setting: Setting, _value: object) -> str:
    raise ValueError("passwords are not changed as settings")


def _as_given(_setting: Setting, value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("text, a number, true or false is needed")
    return value


_CONVERTERS: Mapping[str, Callable[[Setting, object], object]] = {
    "Integer": _integer,
    "Float": _float,
    "Boolean": _boolean,
    "String": _text,
    "Enumeration": _choice,
    "Password": _password,
    "": _as_given,
}
#: Type of a present value -> type of its setting; bool first, as it is an int to Python.
_OF_VALUES: Sequence[tuple[type, str]] = (
    (bool, "Boolean"), (int, "Integer"), (float, "Float"), (str, "String"),
)  # fmt: skip
