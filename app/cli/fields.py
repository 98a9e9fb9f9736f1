"""
Fields that an operator sets: of one table per kind of thing `create`, `set` and `unset` have their
options, and what they send.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from typing import Annotated, Any

import typer

from app.cli import given
from app.cli.commands import option
from app.cli.failures import Usage
from app.cli.output import Document


class Kind(Enum):
    """What a field holds, and so how it is given."""

    TEXT = "--field VALUE"
    FLAG = "--field / --no-field"
    WORDS = "--field VALUE, several times"
    PAIRS = "--field KEY=VALUE, several times"
    JSON = "--field FILE, or JSON, or -"


@dataclass(frozen=True, slots=True)
class Field:
    """name: as the API has it. said: the option, where it is not the field's name."""

    name: str
    about: str
    kind: Kind = Kind.TEXT
    said: str = ""

    @property
    def flag(self) -> str:
        return f"--{(self.said or self.name).replace('_', '-')}"

    def setting(self) -> Parameter:
        """The option that sets it."""
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
            case _:
                about = self.about
        return option(self.name, Annotated[str | None, typer.Option(self.flag, help=about)])

    def unsetting(self) -> Parameter:
        """The option that takes it, or keys of it, away."""
        if self.kind is Kind.PAIRS:
            about = f"A key of its {self.about[0].lower()}{self.about[1:]}, several times"
            return option(
                self.name, Annotated[list[str] | None, typer.Option(self.flag, help=about)]
            )
        return option(self.name, Annotated[bool, typer.Option(self.flag, help=self.about)], False)

    def value(self, text: Any) -> Any:
        """The value to send for the text of an option. Raises Usage."""
        match self.kind:
            case Kind.PAIRS:
                return given.pairs(self.flag, text)
            case Kind.JSON:
                return given.document(self.flag, text)
            case _:
                return text


@dataclass(frozen=True, slots=True)
class Fields:
    """
    All fields of a kind of thing. required: those that something new must have. later: those that
    can only be set of what is there; first: those that can only be given to something new.
    """

    all: Sequence[Field]
    required: Sequence[str] = ()
    later: Sequence[str] = ()
    first: Sequence[str] = ()

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
        """The document of something new, of the options that were given. Raises Usage."""
        for each in self.all:
            if each.name in self.required and not _given(values, each):
                raise Usage(f"{each.flag} is needed: {each.about}")
        return {
            each.name: each.value(values[each.name]) for each in self.all if _given(values, each)
        }

    def additions(self, values: Mapping[str, Any]) -> list[Document]:
        """The JSON patch that sets what was given; of documents only their keys. Raises Usage."""
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
        """The JSON patch that takes away what was named."""
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
