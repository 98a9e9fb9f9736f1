"""Generated text from `node_fields` of the API: a table of api.md, and the options of `ingot`."""

import json
from collections.abc import Iterable, Iterator

from app.api.declarations.node_fields import (
    CHANGED,
    CREATED,
    FIELDS,
    FILTERS,
    FILTERS_SINCE,
    UPDATE,
    Field,
)
from app.api.declarations.versions import MIN
from app.api.node.node_query import SORTABLE
from app.api.schemas.nodes import NodeCreate
from app.api.values.value_types import Document, Flag

HEAD = ("field", "since", "set by", "rule", "filter", "sort key")


def rows() -> Iterator[tuple[str, ...]]:
    """The rows of the table, by name."""
    for field in sorted(FIELDS, key=lambda field: field.name):
        methods = {"POST": CREATED, "PATCH": CHANGED}
        rule = field.rule.name if field.rule else UPDATE
        filtered = f"1.{FILTERS_SINCE.get(field.name, MIN)}"
        yield (
            f"`{field.name}`",
            f"1.{field.since}",
            ", ".join(method for method, settable in methods.items() if field.name in settable),
            f"`{rule}`" if field.name in CHANGED else "",
            filtered if field.name in FILTERS else "",
            "yes" if field.name in SORTABLE else "",
        )


def options() -> Iterator[str]:
    """The module app/cli/node_commands/node_fields.py, which may not import the API."""
    fields = [field for field in FIELDS if field.option]
    required = [name for name, value in NodeCreate().fields.items() if value.required]
    later = [field.name for field in fields if field.name not in CREATED]
    yield '"""The fields of a node that an operator sets. Written by `make docs`; do not edit."""\n'
    yield "# fmt: off"
    yield "from app.cli.fields import Field, Fields, Kind\n"
    yield "FIELDS = Fields("
    yield "    ("
    for field in fields:
        yield f"        Field({', '.join(_arguments(field))}),"
    yield "    ),"
    yield f"    required={_tuple(required)},"
    yield f"    update_only={_tuple(later)},"
    yield ")"


def _arguments(field: Field) -> Iterator[str]:
    assert field.option
    kind = _kind(field)
    yield json.dumps(field.name)
    yield json.dumps(field.option.help)
    if kind != "TEXT" or field.option.flag:
        yield f"Kind.{kind}"
    if field.option.flag:
        yield json.dumps(field.option.flag)


def _kind(field: Field) -> str:
    """The name of the kind of option."""
    if isinstance(field.value, Document):
        return "JSON" if field.option and field.option.whole else "PAIRS"
    return "FLAG" if isinstance(field.value, Flag) else "TEXT"


def _tuple(names: Iterable[str]) -> str:
    return repr(tuple(names)).replace("'", '"')
