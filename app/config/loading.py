"""
Reading the values of options from flags, the environment and files.

Each value is that of the first source that has it: a flag of the command line, the environment, a
file (`app.config.files`), the default; and the source is recorded. A wrong value raises
`SettingsError`. An unknown environment variable is a warning, because a newer release may know it;
so is an unknown option of an ironic.conf, as for oslo.config, and one of an earlier release.
"""

import dataclasses
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from app.config import files
from app.config.ignored_options import IgnoredOptions
from app.config.option_values import convert
from app.config.options import PLACEHOLDER, Option, SettingsError, groups, options, variable
from app.text.masking import mask_urls
from drivers.net.child_environment import PREFIX

#: Variables that are no settings: path of the file, and options of the command-line client.
NOT_SETTINGS = frozenset({"INGOT_CONFIG", "INGOT_URL", "INGOT_USERNAME", "INGOT_PASSWORD"})


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Values of all options."""

    values: dict[str, dict[str, Any]]  # group -> name -> value
    origins: dict[str, str]  # "group.name" -> source of its value, for messages
    warnings: tuple[str, ...]  # lines for the log


def load(  # noqa: C901, PLR0912 - file, environment and flags share their state
    settings: type[S],
    environ: Mapping[str, str],
    path: str | os.PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
    ignored: IgnoredOptions | None = None,
) -> Loaded:
    """
    Read the values of all options of `settings`.

    path: a TOML file, an ironic.conf, or a folder of such files, whose last one by name counts
    most; by default the path that INGOT_CONFIG has, if any.
    flags: "group.name" -> value from the command line, or None for a flag that was not given.
    ignored: options that cause a warning instead of an error.

    Raises SettingsError.
    """
    table = {f"{option.group}.{option.name}": option for option in options(settings)}
    names = {
        old_name: name for name, option in table.items() for old_name in option.about.deprecated
    }
    all_names = [*table, *names]
    ignored = ignored or IgnoredOptions()
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
        elif reason := ignored.reason(place):
            warnings.append(f"{source}: {reason}")
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
            warnings.append(_unknown(name, variables, ignored))
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


def _nearest(place: str, names: Iterable[str]) -> str:
    matches = difflib.get_close_matches(place, names, 1)
    if not matches:
        return ""
    group_name, _, name = matches[0].partition(".")
    return f"; the nearest is [{group_name}]{name}"


def _unknown(name: str, variables: Iterable[str], ignored: IgnoredOptions) -> str:
    """Describe a variable of the environment that is no setting."""
    if reason := ignored.reason_of_variable(name):
        return f"{name}: {reason}"
    matches = difflib.get_close_matches(name, variables, 1)
    hint = f"; the nearest is {matches[0]}" if matches else ""
    return f"{name}: there is no such setting, it is ignored{hint}"
