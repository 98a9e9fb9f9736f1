"""
Fields that operators set. The options of `create`, `set` and `unset`, and the bodies of their
requests, derive from one table for each resource.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from typing import Annotated, Any

import typer

from app.cli.commands import option
from app.cli.terminal import arguments
from app.cli.terminal.errors import Usage
from app.cli.terminal.output import Document


class Kind(Enum):
    """Type of a field, which determines the form of its option."""

    TEXT = "--field VALUE"
    FLAG = "--field / --no-field"
    WORDS = "--field VALUE, several times"
    PAIRS = "--field KEY=VALUE, several times"
    JSON = "--field FILE, or JSON, or -"
    SECRET = "--field FILE, or -"


@dataclass(frozen=True, slots=True)
class Field:
    """A field and its option."""

    name: str  # as in the API
    about: str  # help text of the option
    kind: Kind = Kind.TEXT
    said: str = ""  # name of the option; empty: that of the field

    @property
    def flag(self) -> str:
        return f"--{(self.said or self.name).replace('_', '-')}"

    def setting(self) -> Parameter:
        """Option of `create` and `set`."""
        match self.kind:
            case Kind.FLAG:
                flags = f"{self.flag}/--no-{self.flag[2:]}"
                return option(
                    self.name, Annotated[bool | None, typer.Option(flags, help=self.about)]
                )
            case Kind.PAIRS:
                about = f"{self.about}: KEY=VALUE, several times"
                return option(
                    self.name, Annotated[list[str] | None, typer.Option(self.flag, help=about)]
                )
            case Kind.WORDS:
                about = f"{self.about}, several times"
                return option(
                    self.name, Annotated[list[str] | None, typer.Option(self.flag, help=about)]
                )
            case Kind.JSON:
                about = f"{self.about}: a file of JSON, - for standard input, or JSON itself"
            case Kind.SECRET:
                about = f"{self.about}: a file, or - for standard input; its first line counts"
            case _:
                about = self.about
        return option(self.name, Annotated[str | None, typer.Option(self.flag, help=about)])

    def unsetting(self) -> Parameter:
        """Option of `unset`, which removes the field or keys of it."""
        if self.kind is Kind.PAIRS:
            about = f"A key of its {self.about[0].lower()}{self.about[1:]}, several times"
            return option(
                self.name, Annotated[list[str] | None, typer.Option(self.flag, help=about)]
            )
        return option(self.name, Annotated[bool, typer.Option(self.flag, help=self.about)], False)

    def value(self, text: Any) -> Any:
        """Parse the text of an option. Raises Usage."""
        match self.kind:
            case Kind.PAIRS:
                return arguments.pairs(self.flag, text)
            case Kind.JSON:
                return arguments.document(self.flag, text)
            case Kind.SECRET:
                return arguments.first_line(self.flag, text)
            case _:
                return text


@dataclass(frozen=True, slots=True)
class Fields:
    """All fields of a resource."""

    all: Sequence[Field]
    required: Sequence[str] = ()  # on creation
    later: Sequence[str] = ()  # cannot be set on creation
    first: Sequence[str] = ()  # can only be set on creation

    @property
    def creating(self) -> list[Parameter]:
        return [each.setting() for each in self.all if each.name not in self.later]

    @property
    def setting(self) -> list[Parameter]:
        return [each.setting() for each in self.all if each.name not in self.first]

    @property
    def unsetting(self) -> list[Parameter]:
        fixed = {*self.required, *self.first}
        return [each.unsetting() for each in self.all if each.name not in fixed]

    def body(self, values: Mapping[str, Any]) -> Document:
        """Build the body of a creation from the given options. Raises Usage."""
        for each in self.all:
            if each.name in self.required and not _given(values, each):
                raise Usage(f"{each.flag} is needed: {each.about}")
        return {
            each.name: each.value(values[each.name]) for each in self.all if _given(values, each)
        }

    def additions(self, values: Mapping[str, Any]) -> list[Document]:
        """Build the JSON patch that sets the given fields, or single keys of them. Raises Usage."""
        patch = []
        for field in self.all:
            if not _given(values, field):
                continue
            value = field.value(values[field.name])
            if field.kind is Kind.PAIRS:
                patch += [_change("add", field.name, key, value=value[key]) for key in value]
            else:
                patch.append(_change("add", field.name, value=value))
        return patch

    def removals(self, values: Mapping[str, Any]) -> list[Document]:
        """Build the JSON patch that removes the given fields, or single keys of them."""
        patch = []
        for field in self.all:
            if not _given(values, field) or values[field.name] is False:
                continue
            if field.kind is Kind.PAIRS:
                patch += [_change("remove", field.name, key) for key in values[field.name]]
            else:
                patch.append(_change("remove", field.name))
        return patch


def _given(values: Mapping[str, Any], field: Field) -> bool:
    return values.get(field.name) not in (None, [], ())


def _change(op: str, *path: str, **value: Any) -> Document:
    keys = (key.replace("~", "~0").replace("/", "~1") for key in path)
    return {"op": op, "path": "/" + "/".join(keys), **value}
