"""
Reading the values of options from flags, the environment and files.

Each value is that of the first source that has it: a flag of the command line, the environment, a
file (`app.config.files`), the default; and the source is recorded. A wrong value raises
`SettingsError`. An unknown environment variable is a warning, because a newer release may know it;
so is an unknown option of an ironic.conf, as for oslo.config, and one of an earlier release.
"""

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.config import files
from app.config.ignored_options import IgnoredOptions
from app.config.option_values import convert
from app.config.options import PLACEHOLDER, Option, SettingsError, groups, options, variable
from app.text.masking import mask_urls
from drivers.net.child_environment import PREFIX

#: Variables that are no settings: path of the file, and options of the command-line client.
NOT_SETTINGS = frozenset({"INGOT_CONFIG", "INGOT_URL", "INGOT_USERNAME", "INGOT_PASSWORD"})


@dataclass(frozen=True, slots=True)
class Loaded:
    """Values of all options."""

    values: dict[str, dict[str, Any]]  # group -> name -> value
    origins: dict[str, str]  # "group.name" -> source of its value, for messages
    warnings: tuple[str, ...]  # lines for the log


def load(
    settings: type,
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
    sources = _Sources(settings, ignored or IgnoredOptions())
    sources.read_files(path or environ.get("INGOT_CONFIG"), environ)
    sources.read_environment(environ)
    sources.read_flags(flags or {})
    return sources.loaded()


class _Sources:
    """Values by source, read in the order of their rank: a later one replaces earlier ones."""

    def __init__(self, settings: type, ignored: IgnoredOptions) -> None:
        self._settings, self._ignored = settings, ignored
        #: "group.name" -> option
        self._table = {f"{option.group}.{option.name}": option for option in options(settings)}
        #: deprecated "group.name" -> current one
        self._renamed = {
            old_name: name
            for name, option in self._table.items()
            for old_name in option.about.deprecated
        }
        self._values: dict[str, tuple[Any, str]] = {}  # "group.name" -> value, origin
        self._warnings: list[str] = []

    def read_files(self, path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> None:
        """Read files and oslo.config's variables. Raises SettingsError."""
        defaults = {place: option.default for place, option in self._table.items()}
        try:
            for entry in files.entries(path, environ, defaults):
                self._put_entry(entry)
        except files.NotReadable as error:
            raise SettingsError(str(error)) from None

    def _put_entry(self, entry: files.Entry) -> None:
        if entry.place in self._table or entry.place in self._renamed:
            self._put(entry.place, entry.value, entry.origin)
        elif reason := self._ignored.reason(entry.place):
            self._warnings.append(f"{entry.origin}: {reason}")
        elif entry.is_ironic:
            self._warnings.append(f"{entry.origin}: there is no such option, it is ignored")
        else:
            raise SettingsError(f"{entry.origin}: {self._no_such_setting(entry.place)}")

    def read_environment(self, environ: Mapping[str, str]) -> None:
        """Read the variables INGOT_*. Raises SettingsError."""
        places = [*self._table, *self._renamed]
        variables = {variable(*place.split(".", 1)): place for place in places}
        file_variables = {
            option.file_variable: place
            for place, option in self._table.items()
            if option.about.secret and f"{place}_file" not in self._table
        }
        for name in sorted(environ):
            if not name.startswith(PREFIX) or name in NOT_SETTINGS:
                continue
            if place := file_variables.get(name):
                if self._table[place].variable in environ:
                    raise SettingsError(
                        f"{name} and {self._table[place].variable} exclude each other"
                    )
                self._values[place] = secret_in_file(name, environ[name]), name
            elif place := variables.get(name):
                self._put(place, environ[name], name)
            else:
                self._warnings.append(_unknown(name, [*variables, *file_variables], self._ignored))

    def read_flags(self, flags: Mapping[str, Any]) -> None:
        """Read the flags of the command line; None: not given. Raises SettingsError."""
        for place, value in flags.items():
            if place not in self._table:
                raise SettingsError(f"{place}: {self._no_such_setting(place)}")
            if value is not None:
                _refuse_password(self._table[place], value)
                flag = place.partition(".")[2].replace("_", "-")
                self._values[place] = value, f"flag --{flag}"

    def loaded(self) -> Loaded:
        """Return the values, converted, with the defaults of the others. Raises SettingsError."""
        result = Loaded(
            {name: {} for _, name, _ in groups(self._settings)}, {}, tuple(self._warnings)
        )
        for place, option in self._table.items():
            value, origin = self._values.get(place, (option.default, "default"))
            if origin != "default":
                value = _converted(option, value, origin)
            result.values[option.group][option.name] = value
            result.origins[place] = origin
        return result

    def _put(self, place: str, value: object, origin: str) -> None:
        """
        Set the value of an option, with a warning for a deprecated name.

        It is left out if the same source has a value under the current name.
        """
        if current_place := self._renamed.get(place):
            self._warnings.append(f"{origin} is deprecated: it is {self._table[current_place]} now")
            _, earlier_origin = self._values.get(current_place, (None, ""))
            if earlier_origin and _source(earlier_origin) == _source(origin):
                return
        self._values[current_place or place] = value, origin

    def _no_such_setting(self, place: str) -> str:
        return f"there is no such setting{_nearest(place, [*self._table, *self._renamed])}"


def _converted(option: Option, value: object, origin: str) -> Any:
    """Return the value of an option as its type. Raises SettingsError."""
    try:
        value = convert(option, value)
    except ValueError as error:
        raise SettingsError(f"{origin}: {error}") from None
    if option.about.secret and PLACEHOLDER in str(value):
        raise SettingsError(
            f"{origin}: {option} contains {PLACEHOLDER!r}, the placeholder of the examples:"
            " replace it by a secret of your own"
        )
    return value


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


def _refuse_password(option: Option, value: object) -> None:
    """Raise SettingsError for a flag with a password."""
    if option.about.secret and mask_urls(str(value)) != str(value):
        raise SettingsError(
            f"{option}: every user of this host can read a password on a command line: set"
            f" {option.variable}, or {option.file_variable} to the path of a file with the value"
        )


def _source(origin: str) -> str:
    """Return the file of an origin; "": a variable or a flag."""
    return origin.rpartition(": ")[0]


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
