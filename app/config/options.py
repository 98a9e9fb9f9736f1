"""
Declaration of settings.

Settings are frozen dataclasses, one per group, whose fields are made with `option()`.
`app.config.loading` reads their values.
"""

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from drivers.net.child_environment import PREFIX

#: Stands for each secret in examples, such as in compose/.
PLACEHOLDER = "change-me"


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


def option(default: object, help: str, **attributes: Any) -> Any:  # noqa: A002 - the word for it
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
