"""
Declare settings, and read their values.

Settings are frozen dataclasses, one per group, whose fields are made with `option()`. `load` takes
each value from the first source that has it: a flag of the command line, the environment, a file
(`app.config.files`), the default; and it records the source. A wrong value raises `SettingsError`.
An unknown environment variable is a warning, because a newer release may know it; so is an unknown
option of an ironic.conf, as for oslo.config.
"""

import dataclasses
import difflib
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from app.config import files
from app.text.masking import mask_urls
from drivers.net.child_environment import PREFIX

#: Variables that are no settings: path of the file, and options of the command-line client.
NOT_SETTINGS = frozenset({"INGOT_CONFIG", "INGOT_URL", "INGOT_USERNAME", "INGOT_PASSWORD"})

#: Stands for each secret in examples, such as in compose/.
PLACEHOLDER = "change-me"

S = TypeVar("S")


class SettingsError(ValueError):
    """A setting is wrong. The message is one line with the setting and the accepted values."""


@dataclass(frozen=True, slots=True)
class About:
    """Description and validation of an option."""

    help: str
    choices: tuple[str, ...] = ()  # accepted values; empty: any
    minimum: float | None = None  # inclusive, if there is one
    maximum: float | None = None  # inclusive, if there is one
    check: Callable[[Any], object] | None = None  # raises ValueError for a wrong value
    secret: bool = False  # masked in output; may be read from a file
    deprecated: tuple[str, ...] = ()  # older names, each "group.name"


def option(default: Any, help: str, **attributes: Any) -> Any:  # noqa: A002 - the word for it
    """Declare an option as a field of its group; `attributes` has the other fields of `About`."""
    metadata = {"about": About(help, **attributes)}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def group(kind: type[Any], name: str | None = None) -> Any:
    """Declare a group as a field of the settings; `name` if it differs from the field's."""
    return field(default_factory=kind, metadata={"group": kind, "name": name})


@dataclass(frozen=True, slots=True)
class Option:
    """A declared option."""

    group: str
    name: str
    type: Any
    default: Any
    about: About

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return variable(self.group, self.name)

    @property
    def file_variable(self) -> str:
        """The environment variable that names a file with its value, if it is a secret."""
        return f"{self.variable}_FILE"

    def __str__(self) -> str:
        return f"[{self.group}]{self.name}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Values of all options."""

    values: dict[str, dict[str, Any]]  # group -> name -> value
    origins: dict[str, str]  # "group.name" -> source of its value, for messages
    warnings: tuple[str, ...]  # lines for the log


def variable(group_name: str, name: str) -> str:
    """Return the environment variable of an option."""
    inner = name if group_name == "DEFAULT" else f"{group_name}_{name}"
    return PREFIX + inner.upper()


def groups(settings: type[Any]) -> Iterator[tuple[str, str, type[Any]]]:
    """Yield (attribute, group name, dataclass) of each group."""
    for group in dataclasses.fields(settings):
        if "group" in group.metadata:
            yield group.name, group.metadata["name"] or group.name, group.metadata["group"]


def options(settings: type[Any]) -> Iterator[Option]:
    """Yield all options in the order of declaration."""
    for _, group_name, kind in groups(settings):
        hints = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
        for attribute in dataclasses.fields(kind):
            factory = attribute.default_factory
            default = attribute.default if factory is dataclasses.MISSING else factory()
            yield Option(
                group_name,
                attribute.name,
                hints[attribute.name],
                default,
                attribute.metadata["about"],
            )


@cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """Return the types of a group's options; reading them takes most of the time of `options`."""
    return typing.get_type_hints(kind)


def load(  # noqa: C901, PLR0912 - file, environment and flags share their state
    settings: type[S],
    environ: Mapping[str, str],
    path: str | os.PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
    unused_options: Mapping[str, Iterable[str]] | None = None,
) -> Loaded:
    """
    Read the values of all options of `settings`.

    path: a TOML file, an ironic.conf, or a folder of such files, whose last one by name counts
    most; by default the path that INGOT_CONFIG has, if any.
    flags: "group.name" -> value from the command line, or None for a flag that was not given.
    unused_options: group -> names that cause a warning instead of an error; ("*",): all names of
    the group.

    Raises SettingsError.
    """
    table = {f"{option.group}.{option.name}": option for option in options(settings)}
    names = {
        old_name: name for name, option in table.items() for old_name in option.about.deprecated
    }
    all_names = [*table, *names]
    warnings: list[str] = []

    def current(place: str, origin: str) -> str:
        """Return the current name of an option, with a warning for a deprecated one."""
        if place in names:
            warnings.append(f"{origin} is deprecated: it is {table[names[place]]} now")
        return names.get(place, place)

    values: dict[str, tuple[Any, str]] = {}  # a later source replaces the values of earlier ones
    for entry in _entries(path or environ.get("INGOT_CONFIG"), environ, table):
        place, source = entry.place, entry.origin
        if place in all_names:
            _put(values, current(place, source), entry.value, source, renamed=place in names)
        elif _is_unused(place, unused_options or {}):
            warnings.append(f"{source}: {_of_ironic(place, unused_options or {})}")
        elif entry.is_ironic:
            warnings.append(f"{source}: there is no such option, it is ignored")
        else:
            raise SettingsError(f"{source}: there is no such setting{_nearest(place, all_names)}")

    file_variables = {
        option.file_variable: place
        for place, option in table.items()
        if option.about.secret and f"{place}_file" not in table
    }
    variables = {variable(*place.split(".", 1)): place for place in all_names} | file_variables
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        if name not in variables:
            warnings.append(_unknown(name, variables, unused_options or {}))
            continue
        place = variables[name]
        if name in file_variables:
            if table[place].variable in environ:
                raise SettingsError(f"{name} and {table[place].variable} exclude each other")
            values[place] = (secret_in_file(name, environ[name]), name)
            continue
        _put(values, current(place, name), environ[name], name, renamed=place in names)

    for place, value in (flags or {}).items():
        if place not in table:
            raise SettingsError(f"{place}: there is no such setting{_nearest(place, all_names)}")
        if value is not None:
            _refuse_password(table[place], value)
            values[place] = (value, "flag --" + place.partition(".")[2].replace("_", "-"))

    result = Loaded({name: {} for _, name, _ in groups(settings)}, {}, ())
    for place, option in table.items():
        value, origin = values.get(place, (option.default, "default"))
        result.origins[place] = origin
        try:
            value = value if origin == "default" else convert(option, value)
        except ValueError as error:
            raise SettingsError(f"{origin}: {error}") from None
        if option.about.secret and PLACEHOLDER in str(value):
            raise SettingsError(
                f"{origin}: {option} contains {PLACEHOLDER!r}, the placeholder of the examples:"
                " replace it by a secret of your own"
            )
        result.values[option.group][option.name] = value
    return dataclasses.replace(result, warnings=tuple(warnings))


def secret_in_file(name: str, path: str) -> str:
    """
    Read a secret from a file, without white space around it.

    name: of the variable that has the path. Raises SettingsError.
    """
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise SettingsError(f"{name}: {path}: {reason}") from None


def _refuse_password(option: Option, value: Any) -> None:
    """Raise SettingsError for a flag with a password."""
    if option.about.secret and mask_urls(str(value)) != str(value):
        raise SettingsError(
            f"{option}: every user of this host can read a password on a command line: set"
            f" {option.variable}, or {option.file_variable} to the path of a file with the value"
        )


def _put(
    values: dict[str, tuple[Any, str]], place: str, value: Any, origin: str, *, renamed: bool
) -> None:
    """Set a value, unless it has a deprecated name and the source has the current name, too."""
    source = origin.rpartition(": ")[0]
    if renamed and place in values and values[place][1].rpartition(": ")[0] == source:
        return
    values[place] = (value, origin)


def _entries(
    path: str | os.PathLike[str] | None, environ: Mapping[str, str], table: Mapping[str, Option]
) -> Iterator[files.Entry]:
    """Yield the options of files and of oslo.config's variables. Raises SettingsError."""
    defaults = {place: option.default for place, option in table.items()}
    try:
        yield from files.entries(path, environ, defaults)
    except files.NotReadable as error:
        raise SettingsError(str(error)) from None


def _is_unused(place: str, unused_options: Mapping[str, Iterable[str]]) -> bool:
    group_name, _, name = place.partition(".")
    names = unused_options.get(group_name, ())
    return name in names or "*" in names


def _unknown(
    name: str, variables: Iterable[str], unused_options: Mapping[str, Iterable[str]]
) -> str:
    """Describe a variable of the environment that is no setting."""
    place = _place(name, unused_options)
    if place is not None:
        return f"{name}: {_of_ironic(place, unused_options)}"
    matches = difflib.get_close_matches(name, variables, 1)
    hint = f"; the nearest is {matches[0]}" if matches else ""
    return f"{name}: there is no such setting, it is ignored{hint}"


def _place(name: str, unused_options: Mapping[str, Iterable[str]]) -> str | None:
    """Return the unused option, as "group.name", that a variable of the environment names."""
    for group_name, names in unused_options.items():
        prefix = variable(group_name, "")
        if "*" in names and group_name != "DEFAULT" and name.startswith(prefix):
            return f"{group_name}.{name.removeprefix(prefix).lower()}"
        for option_name in names:
            if name == variable(group_name, option_name):
                return f"{group_name}.{option_name}"
    return None


def _of_ironic(place: str, unused_options: Mapping[str, Iterable[str]]) -> str:
    """Describe an option of Ironic that is not used."""
    group_name = place.partition(".")[0]
    if "*" in unused_options[group_name]:
        return (
            f"[{group_name}] is a group of Ironic's options that Ingot does not use; it is ignored"
        )
    return "Ingot does not use this option of Ironic; it is ignored"


def _nearest(place: str, names: Iterable[str]) -> str:
    matches = difflib.get_close_matches(place, names, 1)
    if not matches:
        return ""
    group_name, _, name = matches[0].partition(".")
    return f"; the nearest is [{group_name}]{name}"


def convert(option: Option, value: Any) -> Any:
    """
    Convert a value to the option's type, and check it.

    Texts have the form of environment variables: lists are separated by commas, maps are name:value
    pairs, an empty text is None if the option may be None.

    Raises ValueError: the value is wrong; the message has the accepted values.
    """
    kind = option.type
    if isinstance(kind, types.UnionType):  # X | None
        if value is None or value == "":
            return None
        (kind,) = (member for member in typing.get_args(kind) if member is not types.NoneType)
    attributes = option.about
    converted: Any
    if typing.get_origin(kind) is dict:
        converted = _map(value, typing.get_args(kind)[1])
    else:
        converted = CONVERTERS[typing.get_origin(kind) or kind](value)
    for item in converted if isinstance(converted, tuple) else (converted,):
        if attributes.choices and item not in attributes.choices:
            matches = difflib.get_close_matches(str(item), attributes.choices, 1)
            hint = f"; did you mean {matches[0]!r}?" if matches else ""
            raise ValueError(f"{item!r} is not one of {', '.join(attributes.choices)}{hint}")
    low, high = attributes.minimum, attributes.maximum
    if low is not None and converted < low:
        raise ValueError(f"{converted} is less than {low:g}")
    if high is not None and converted > high:
        raise ValueError(f"{converted} is more than {high:g}")
    if attributes.check:
        attributes.check(converted)
    return converted


def _bool(value: Any) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.strip().lower() not in words:
        raise ValueError(f"{value!r} is not true or false")
    return words[value.strip().lower()]


def _int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"{value!r} is not a whole number") from None


def _float(value: Any) -> float:
    try:
        number = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError):
        number = float("nan")
    if number - number != 0:  # neither nan nor inf
        raise ValueError(f"{value!r} is not a number")
    return number


def _str(value: Any) -> str:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{value!r} is not a text")


def _list(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{value!r} is not a list of texts")
    return tuple(part.strip() for part in parts if part.strip())


def _map(value: Any, kind: type[Any]) -> dict[str, Any]:
    """Parse name:value pairs, split at the last colon for numbers, at the first one for texts."""
    if isinstance(value, Mapping):
        return {str(name): CONVERTERS[kind](item) for name, item in value.items()}
    result = {}
    for part in _list(value):
        name, colon, item = part.partition(":") if kind is str else part.rpartition(":")
        if not colon and kind is str:  # it may be a part of a URL with a password
            raise ValueError("expected name:value pairs; a comma in a value is written as %2C")
        if not colon:
            raise ValueError(f"{part!r} is not of the form name:value")
        result[name.strip()] = CONVERTERS[kind](item.strip())
    return result


CONVERTERS: Mapping[Any, Callable[[Any], Any]] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    tuple: _list,
}
