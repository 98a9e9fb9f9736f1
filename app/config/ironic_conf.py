"""
ironic.conf: the INI files and OS_GROUP__OPTION variables of oslo.config, with their references.

The rules are oslo.config's: https://docs.openstack.org/oslo.config/latest/reference/
configuration-files.html and sources.html (driver `environment`).
"""

import configparser
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

#: Suffixes of files in Ironic's form; other files are TOML.
SUFFIXES = (".conf", ".ini")
#: Prefix of oslo.config's environment variables; two underscores separate group and option.
PREFIX = "OS_"

#: Options that other ones refer to although Ingot does not use them -> Ironic's default.
_DEFAULTS: Mapping[str, str] = {
    "DEFAULT.state_path": "/var/lib/ironic",
    "inspector.default_hooks": "ramdisk-error,validate-interfaces,ports,architecture",
    "redfish.default_inspection_hooks": "validate-interfaces,ports,architecture",
}
#: Values of Ironic that mean "the default".
_MEANS_DEFAULT: Mapping[str, str] = {"api.api_workers": "0"}
#: Old names of options, as oslo.config still accepts them -> present name.
_RENAMED: Mapping[str, str] = {
    "DEFAULT.logfile": "DEFAULT.log_file",
    "DEFAULT.logdir": "DEFAULT.log_dir",
    "pxe.pxe_append_params": "pxe.kernel_append_params",
    "keystone_authtoken.memcache_servers": "keystone_authtoken.memcached_servers",
    "conductor.configdrive_use_swift": "deploy.configdrive_use_object_store",
}
#: A reference to another option in a value: $name, ${name} or ${group.name}; $$ is a dollar sign.
_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>[\w.]+)\}|(?P<plain>\w+))")
#: Most references that lead from one option to another; more are a circle.
_MOST_REFERENCES = 20


class NotReadable(ValueError):
    """A file or a value is not in the form of oslo.config. The message is one line."""


def is_ironic(path: Path) -> bool:
    """Whether a configuration file is in Ironic's form."""
    return path.suffix in SUFFIXES


def read(path: Path) -> dict[str, str]:
    """
    Return the values of a file by "group.name", without interpolation; of repeated ones the last.

    Raises OSError.
    Raises NotReadable: it is not an INI file.
    """
    parser = configparser.RawConfigParser(
        strict=False, interpolation=None, default_section="", empty_lines_in_values=False
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        parser.read_string(path.read_text(), str(path))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise NotReadable(f"not an INI file: {' '.join(str(error).split())}") from None
    return {
        f"{group}.{name}": _unquoted(value)
        for group in parser.sections()
        for name, value in parser.items(group)
    }


def _unquoted(value: str) -> str:
    text = ",".join(line.strip() for line in value.splitlines() if line.strip())
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def rename(texts: dict[str, str]) -> None:
    """Replace old names of options in a dictionary by present ones, which win if both are there."""
    for name, present_name in _RENAMED.items():
        if name in texts:
            texts.setdefault(present_name, texts.pop(name))


def of_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (variable, "group.name", value) of each variable that oslo.config would read."""
    for variable in sorted(environ):
        group, separator, name = variable.removeprefix(PREFIX).partition("__")
        if variable.startswith(PREFIX) and separator and group and name:
            group = group if group == "DEFAULT" else group.lower()
            yield variable, f"{group}.{name.lower()}", environ[variable]


def interpolated(
    place: str, values: Mapping[str, str], defaults: Mapping[str, object]
) -> str | None:
    """
    Return the value of an option with its references replaced; None for Ironic's word for the
    default.

    values: of all options by "group.name"; defaults: of those that `values` lacks.

    Raises NotReadable: a reference leads to no option, to one without a value, or in a circle.
    """
    if values[place].strip() == _MEANS_DEFAULT.get(place):
        return None
    return _replaced(place, values[place], values, defaults, _MOST_REFERENCES)


def _replaced(
    place: str,
    text: str,
    values: Mapping[str, str],
    defaults: Mapping[str, object],
    references: int,
) -> str:
    group = place.partition(".")[0]

    def value(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        name = match["braced"] or match["plain"]
        places = [name] if "." in name else [f"{group}.{name}", f"DEFAULT.{name}"]
        for target in places:
            if target in values:
                if not references:
                    raise NotReadable(f"{match[0]} refers to itself")
                return _replaced(target, values[target], values, defaults, references - 1)
            default = defaults.get(target, _DEFAULTS.get(target))
            if default is not None:
                return ",".join(default) if isinstance(default, tuple) else str(default)
        raise NotReadable(f"{match[0]} refers to an option without a value")

    return _REFERENCE.sub(value, text)
