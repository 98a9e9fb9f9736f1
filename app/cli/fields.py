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
from app.cli.terminal.inputs import first_line
from app.cli.terminal.output import Document


class Kind(Enum):
    """Type of a field, which determines the form of its option."""

    TEXT = "--field VALUE"
    NUMBER = "--field NUMBER"
    FLAG = "--field / --no-field"
    WORDS = "--field VALUE, several times"
    PAIRS = "--field KEY=VALUE, several times"
    JSON = "--field FILE, or JSON, or -"
    STEPS = "--field FILE, JSON, or - of steps in their order"
    SECRET = "--field FILE, or -"
    KEY = "--field FILE, or -, with several lines"


@dataclass(frozen=True, slots=True)
class Field:
    """A field and its option."""

    name: str  # as in the API
    help_text: str  # help text of the option
    kind: Kind = Kind.TEXT
    option_name: str = ""  # name of the option; empty: that of the field

    @property
    def flag(self) -> str:
        return f"--{(self.option_name or self.name).replace('_', '-')}"

    def setting(self) -> Parameter:
        """Option of `create` and `set`."""
        match self.kind:
            case Kind.FLAG:
                flags = f"{self.flag}/--no-{self.flag[2:]}"
                return option(
                    self.name, Annotated[bool | None, typer.Option(flags, help=self.help_text)]
                )
            case Kind.NUMBER:
                return option(
                    self.name,
                    Annotated[int | None, typer.Option(self.flag, help=self.help_text)],
                )
            case Kind.PAIRS:
                help_text = f"{self.help_text}: KEY=VALUE, several times"
                return option(
                    self.name, Annotated[list[str] | None, typer.Option(self.flag, help=help_text)]
                )
            case Kind.WORDS:
                help_text = f"{self.help_text}, several times"
                return option(
                    self.name, Annotated[list[str] | None, typer.Option(self.flag, help=help_text)]
                )
            case Kind.JSON | Kind.STEPS:
                help_text = (
                    f"{self.help_text}: a file of JSON, - for standard input, or JSON itself"
                )
            case Kind.SECRET:
                help_text = (
                    f"{self.help_text}: a file, or - for standard input; its first line counts"
                )
            case Kind.KEY:
                help_text = f"{self.help_text}: a file, or - for standard input"
            case _:
                help_text = self.help_text
        return option(self.name, Annotated[str | None, typer.Option(self.flag, help=help_text)])

    def unsetting(self) -> Parameter:
        """Option of `unset`, which removes the field or keys of it."""
        if self.kind is Kind.PAIRS:
            help_text = (
                f"A key of its {self.help_text[0].lower()}{self.help_text[1:]}, several times"
            )
            return option(
                self.name, Annotated[list[str] | None, typer.Option(self.flag, help=help_text)]
            )
        return option(
            self.name, Annotated[bool, typer.Option(self.flag, help=self.help_text)], False
        )

    def value(self, text: Any) -> Any:
        """Parse the text of an option. Raises Usage."""
        match self.kind:
            case Kind.PAIRS:
                return arguments.pairs(self.flag, text)
            case Kind.JSON:
                return arguments.document(self.flag, text)
            case Kind.STEPS:
                return _ordered(arguments.document(self.flag, text))
            case Kind.SECRET:
                return first_line(self.flag, text)
            case Kind.KEY:
                return "".join(f"{line}\n" for line in arguments.lines(self.flag, text))
            case _:
                return text


@dataclass(frozen=True, slots=True)
class Fields:
    """All fields of a resource."""

    all: Sequence[Field]
    required: Sequence[str] = ()  # on creation
    update_only: Sequence[str] = ()  # cannot be set on creation
    creation_only: Sequence[str] = ()  # can only be set on creation

    @property
    def creating(self) -> list[Parameter]:
        return [field.setting() for field in self.all if field.name not in self.update_only]

    @property
    def setting(self) -> list[Parameter]:
        return [field.setting() for field in self.all if field.name not in self.creation_only]

    @property
    def unsetting(self) -> list[Parameter]:
        immutable_names = {*self.required, *self.creation_only}
        return [field.unsetting() for field in self.all if field.name not in immutable_names]

    def body(self, values: Mapping[str, Any]) -> Document:
        """Build the body of a creation from the given options. Raises Usage."""
        for field in self.all:
            if field.name in self.required and not _given(values, field):
                raise Usage(f"{field.flag} is needed: {field.help_text}")
        return {
            field.name: field.value(values[field.name])
            for field in self.all
            if _given(values, field)
        }

    def additions(self, values: Mapping[str, Any]) -> list[Document]:
        """Build the JSON patch that sets the given fields, or single keys of them. Raises Usage."""
        patch = []
        for field in self.all:
            if not _given(values, field):
                continue
            value = field.value(values[field.name])
            if field.kind is Kind.PAIRS:
                patch += [change("add", field.name, key, value=value[key]) for key in value]
            else:
                patch.append(change("add", field.name, value=value))
        return patch

    def removals(self, values: Mapping[str, Any]) -> list[Document]:
        """Build the JSON patch that removes the given fields, or single keys of them."""
        patch = []
        for field in self.all:
            if not _given(values, field) or values[field.name] is False:
                continue
            if field.kind is Kind.PAIRS:
                patch += [change("remove", field.name, key) for key in values[field.name]]
            else:
                patch.append(change("remove", field.name))
        return patch


def _ordered(steps: object) -> object:
    """Give each step the order of its place, unless it has one."""
    if not isinstance(steps, list):
        return steps
    return [
        {"order": number, **step} if isinstance(step, dict) else step
        for number, step in enumerate(steps, 1)
    ]


def _given(values: Mapping[str, object], field: Field) -> bool:
    return values.get(field.name) not in (None, [], ())


def change(op: str, *path: str, **value: object) -> Document:
    """Build an operation of a JSON patch. path: the name of a field, and keys within its value."""
    keys = (key.replace("~", "~0").replace("/", "~1") for key in path)
    return {"op": op, "path": "/" + "/".join(keys), **value}
