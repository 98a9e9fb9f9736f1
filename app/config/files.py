"""
Configuration files: TOML, ironic.conf, folders of both; and variables of oslo.config.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.config import ironic_conf
from app.config.ironic_conf import NotReadable

__all__ = ["Entry", "NotReadable", "entries"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An option in a file or in a variable of oslo.config."""

    place: str  # "group.name"
    value: Any
    origin: str  # file and option, or variable; for messages
    is_ironic: bool  # of Ironic: an unknown one is no error, as for oslo.config


def entries(
    path: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
    defaults: Mapping[str, object],
) -> Iterator[Entry]:
    """
    Yield the options of a file or folder, then of the environment, in ascending precedence.

    defaults: values of options, by "group.name", for references of an ironic.conf.

    Raises NotReadable: the message names the file, and the option if there is one.
    """
    values, origins = dict[str, str](), dict[str, str]()
    for file in _files(path):
        if ironic_conf.is_ironic(file):
            texts = _ironic(file)
            values |= texts
            origins |= {place: _origin(file, place) for place in texts}
        else:
            yield from _toml(file)
    for variable, place, text in ironic_conf.of_environment(environ):
        if place in defaults or place in values:
            values[place], origins[place] = text, variable
    ironic_conf.rename(values)
    ironic_conf.rename(origins)
    for place, origin in origins.items():
        try:
            value = ironic_conf.interpolated(place, values, defaults)
        except NotReadable as error:
            raise NotReadable(f"{origin}: {error}") from None
        if value is not None:
            yield Entry(place, value, origin, is_ironic=True)


def _files(path: str | os.PathLike[str] | None) -> list[Path]:
    if not path:
        return []
    if not Path(path).is_dir():
        return [Path(path)]
    suffixes = (*ironic_conf.SUFFIXES, ".toml")
    return sorted(file for file in Path(path).iterdir() if file.suffix in suffixes)


def _ironic(path: Path) -> dict[str, str]:
    try:
        return ironic_conf.read(path)
    except NotReadable as error:
        raise NotReadable(f"{path}: {error}") from None
    except OSError as error:
        raise NotReadable(f"{path}: {error.strerror}") from None


def _toml(path: Path) -> Iterator[Entry]:
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise NotReadable(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotReadable(f"{path}: not TOML: {error}") from None
    for group, values in document.items():
        if not isinstance(values, dict):
            raise NotReadable(f"{path}: {group} stands outside of a table, as [DEFAULT]")
        for name, value in values.items():
            place = f"{group}.{name}"
            yield Entry(place, value, _origin(path, place), is_ironic=False)


def _origin(path: Path, place: str) -> str:
    group, _, name = place.partition(".")
    return f"{path}: [{group}]{name}"
