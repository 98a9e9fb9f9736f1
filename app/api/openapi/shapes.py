"""
Shapes: JSON schemas of what is shown, read off the columns and resources that it is made of.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import JSON, Boolean, Column, ColumnElement, DateTime, Float, Integer, Join

from app.api import versions
from app.api.resources import Resource
from app.models import Base

Shape = dict[str, Any]

TEXT: Shape = {"type": "string"}
UUID: Shape = {"type": "string", "format": "uuid"}
TIME: Shape = {"type": "string", "format": "date-time"}
NUMBER: Shape = {"type": "number"}
WHOLE: Shape = {"type": "integer"}
FLAG: Shape = {"type": "boolean"}
ANYTHING: Shape = {}
DOCUMENT: Shape = {"type": "object"}

#: The first of these that a column's type is; the rest is text.
TYPES = ((Boolean, FLAG), (Integer, WHOLE), (Float, NUMBER), (DateTime, TIME))


def ref(name: str) -> Shape:
    """The shape of this name among `shown.SHAPES` or the schemas of what comes in."""
    return {"$ref": f"#/components/schemas/{name}"}


def many(item: Shape) -> Shape:
    return {"type": "array", "items": item}


def mapped(value: Shape) -> Shape:
    """An object of any keys, whose values have one shape."""
    return {"type": "object", "additionalProperties": value}


def one_of(words: Iterable[str]) -> Shape:
    return {"type": "string", "enum": [str(word) for word in words]}


def maybe(shape: Shape) -> Shape:
    """The same, or null."""
    if "$ref" in shape:
        return {"anyOf": [shape, {"type": "null"}]}
    found = shape | {"type": [shape["type"], "null"]}
    return found | {"enum": [*shape["enum"], None]} if "enum" in shape else found


def exactly(properties: Mapping[str, Shape], *, optional: Iterable[str] = ()) -> Shape:
    """An object of these members and no others."""
    left_out = set(optional)
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in left_out],
        "additionalProperties": False,
    }


def some(properties: Mapping[str, Shape], *, always: Iterable[str] = ()) -> Shape:
    """An object of any of these members, and no others."""
    return exactly(properties, optional=properties.keys() - set(always))


def page(name: str, item: Shape) -> Shape:
    """A list, as a document, and the link to what comes after it."""
    return exactly({name: many(item), "next": TEXT | {"format": "uri"}}, optional=["next"])


def column(name: str, found: ColumnElement[Any], *, nullable: bool) -> Shape:
    """What a column holds that is shown under a name."""
    if isinstance(found.type, JSON):
        shape = _document(found)
    else:
        known = (shape for kind, shape in TYPES if isinstance(found.type, kind))
        shape = next(known, UUID if name.endswith("uuid") else TEXT)
    return maybe(shape) if nullable else shape


def _document(found: ColumnElement[Any]) -> Shape:
    """A list where a new row has an empty one, otherwise an object."""
    default = found.default if isinstance(found, Column) else None
    empty = default.arg(None) if default is not None and default.is_callable else {}  # type: ignore[attr-defined]
    return many(ANYTHING) if isinstance(empty, list) else DOCUMENT


def columns(model: type[Base], names: Iterable[str]) -> dict[str, Shape]:
    """name -> shape of some columns of a table."""
    table = model.__table__.c
    return {name: column(name, table[name], nullable=bool(table[name].nullable)) for name in names}


def resource(of: Resource[Any], **others: Shape) -> Shape:
    """An item of a resource. others: the shapes of what is computed, and what is known better."""
    source = of.source() if of.source else None
    inner = isinstance(source, Join) and not source.isouter
    properties = columns(of.model, of.plain)
    for name, each in of.joined.items():
        certain = inner and isinstance(each, Column) and not each.nullable
        properties[name] = column(name, each, nullable=not certain)
    properties |= {name: ref("Links") for name in of.links}
    missing = of.computed.keys() - others.keys()
    if missing:
        raise TypeError(f"{of.name}: nobody says what {missing} look like")
    return versioned(of.name, some(properties | others | {"links": ref("Links")}, always=["links"]))


def versioned(name: str, shape: Shape) -> Shape:
    """The same, with the version that each property appeared in, as `versions.FIELDS` has it."""
    known = versions.FIELDS.get(name, {})
    properties = {
        field: inner | {"x-since": f"1.{known[field]}"} if field in known else inner
        for field, inner in shape["properties"].items()
    }
    return shape | {"properties": properties}
