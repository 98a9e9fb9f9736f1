"""
The fields of a node that an operator sets: one table, from which `create`, `set` and `unset` have
their options.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from typing import Annotated, Any

import typer

from app.cli import given
from app.cli.commands import option
from app.cli.rest import Document
from drivers.interfaces import KINDS


class Kind(Enum):
    """What a field holds, and so how it is given."""

    TEXT = "--field VALUE"
    FLAG = "--field / --no-field"
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
        """What the API is given for what was written. Raises Failure."""
        match self.kind:
            case Kind.PAIRS:
                return given.pairs(self.flag, text)
            case Kind.JSON:
                return given.document(self.flag, text)
            case _:
                return text


FIELDS = (
    Field("name", "A name that no other node has"),
    Field("driver", "The hardware type, as redfish"),
    Field("driver_info", "How to reach its BMC", Kind.PAIRS),
    Field("properties", "What it is made of", Kind.PAIRS, "property"),
    Field("extra", "Anything else that is worth remembering", Kind.PAIRS),
    Field("instance_info", "What to deploy", Kind.PAIRS),
    Field("instance_uuid", "The instance that it is given to"),
    Field("instance_name", "The name of that instance"),
    Field("resource_class", "What kind of machine it is, for scheduling"),
    Field("conductor_group", "The conductors that may work on it"),
    Field("owner", "The project that it belongs to"),
    Field("lessee", "The project that may use it"),
    Field("description", "A few words about it"),
    Field("shard", "The part of the fleet that it belongs to"),
    Field("parent_node", "The node that it is a part of"),
    Field("chassis_uuid", "The chassis that it is in", said="chassis"),
    Field("automated_clean", "Clean it before it becomes available", Kind.FLAG),
    Field("protected", "Nothing may destroy its instance", Kind.FLAG),
    Field("protected_reason", "Why it is protected"),
    Field("retired", "It is to leave: no instance is put on it any more", Kind.FLAG),
    Field("retired_reason", "Why it is retired"),
    Field("disable_power_off", "It must never be switched off", Kind.FLAG),
    Field("network_data", "The network of its agent", Kind.JSON),
    *(Field(f"{kind}_interface", f"Its {kind} interface") for kind in KINDS),
)
#: What is only set later: a node is made unprotected.
LATER = ("protected", "protected_reason")
SETTING = tuple(field.setting() for field in FIELDS)
CREATING = tuple(field.setting() for field in FIELDS if field.name not in LATER)
UNSETTING = tuple(field.unsetting() for field in FIELDS if field.name != "driver")


def body(values: Mapping[str, Any]) -> Document:
    """The document of a new node, of the options that were given. Raises Failure."""
    return {each.name: each.value(values[each.name]) for each in FIELDS if _given(values, each)}


def additions(values: Mapping[str, Any]) -> list[Document]:
    """The JSON patch that sets what was given; of documents only their keys. Raises Failure."""
    patch = []
    for field in FIELDS:
        if not _given(values, field):
            continue
        value = field.value(values[field.name])
        if field.kind is Kind.PAIRS:
            patch += [_change("add", field.name, key, value=value[key]) for key in value]
        else:
            patch.append(_change("add", field.name, value=value))
    return patch


def removals(values: Mapping[str, Any]) -> list[Document]:
    """The JSON patch that takes away what was named."""
    patch = []
    for field in FIELDS:
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
