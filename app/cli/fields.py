"""
Fields that operators set. The options of `create`, `set` and `unset`, and the bodies of their
requests, derive from one table for each resource.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from typing import Annotated, Any, NamedTuple

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


def _steps(flag: str, text: str) -> object:
    """Parse steps; give each the order of its place, unless it has one. Raises Usage."""
    steps = arguments.document(flag, text)
    if not isinstance(steps, list):
        return steps
    return [
        {"order": number, **step} if isinstance(step, dict) else step
        for number, step in enumerate(steps, 1)
    ]


def _whole_text(flag: str, path: str) -> str:
    return "".join(f"{line}\n" for line in arguments.lines(flag, path))


class _Form(NamedTuple):
    """Form of the option of a type of fields."""

    value_type: Any
    help_end: str = ""  # end of the help text
    parse: Callable[[str, Any], Any] = lambda _flag, value: value


_OF_JSON = ": a file of JSON, - for standard input, or JSON itself"
_OF_FILE = ": a file, or - for standard input"
_FORMS: Mapping[Kind, _Form] = {
    Kind.TEXT: _Form(str | None),
    Kind.NUMBER: _Form(int | None),
    Kind.FLAG: _Form(bool | None),
    Kind.WORDS: _Form(list[str] | None, ", several times"),
    Kind.PAIRS: _Form(list[str] | None, ": KEY=VALUE, several times", arguments.pairs),
    Kind.JSON: _Form(str | None, _OF_JSON, arguments.document),
    Kind.STEPS: _Form(str | None, _OF_JSON, _steps),
    Kind.SECRET: _Form(str | None, f"{_OF_FILE}; its first line counts", first_line),
    Kind.KEY: _Form(str | None, _OF_FILE, _whole_text),
}


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
        form = _FORMS[self.kind]
        flags = f"{self.flag}/--no-{self.flag[2:]}" if self.kind is Kind.FLAG else self.flag
        about = typer.Option(flags, help=f"{self.help_text}{form.help_end}")
        return option(self.name, Annotated[form.value_type, about])

    def unsetting(self) -> Parameter:
        """Option of `unset`, which removes the field or keys of it."""
        if self.kind is not Kind.PAIRS:
            about = typer.Option(self.flag, help=self.help_text)
            return option(self.name, Annotated[bool, about], False)
        of_field = f"{self.help_text[0].lower()}{self.help_text[1:]}"
        about = typer.Option(self.flag, help=f"A key of its {of_field}, several times")
        return option(self.name, Annotated[list[str] | None, about])

    def value(self, text: Any) -> Any:
        """Parse the text of an option. Raises Usage."""
        return _FORMS[self.kind].parse(self.flag, text)


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


def _given(values: Mapping[str, object], field: Field) -> bool:
    return values.get(field.name) not in (None, [], ())


def change(op: str, *path: str, **value: object) -> Document:
    """Build an operation of a JSON patch. path: the name of a field, and keys within its value."""
    keys = (key.replace("~", "~0").replace("/", "~1") for key in path)
    return {"op": op, "path": "/" + "/".join(keys), **value}
