"""JSON Schemas ("shapes") of bodies: short constructors, and schemas of database columns."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, DateTime, Float, Integer

from app.api.declarations import versions
from app.db.secret_columns import JSON_TYPES
from app.models import Base

Shape = dict[str, Any]

TEXT: Shape = {"type": "string"}
UUID: Shape = {"type": "string", "format": "uuid"}
TIME: Shape = {"type": "string", "format": "date-time"}
NUMBER: Shape = {"type": "number"}
INTEGER: Shape = {"type": "integer"}
BOOLEAN: Shape = {"type": "boolean"}
ANYTHING: Shape = {}
DOCUMENT: Shape = {"type": "object"}
BINARY: Shape = {"type": "string", "format": "binary"}

#: Type of a column -> its schema; columns of other types are text.
TYPES = ((Boolean, BOOLEAN), (Integer, INTEGER), (Float, NUMBER), (DateTime, TIME))


class Component(dict[str, Any]):
    """
    Reference to a named schema.

    It is used like other shapes; `document.components` collects the schemas behind the references.
    """

    def __init__(self, name: str, schema: Shape) -> None:
        super().__init__({"$ref": f"#/components/schemas/{name}"})
        self.name = name
        self.schema = schema

    def __or__(self, members: Mapping[str, Any]) -> "Component":  # type: ignore[override]
        component = Component(self.name, self.schema)
        component.update(members)
        return component


def array(item: Shape) -> Shape:
    return {"type": "array", "items": item}


def map_of(value: Shape) -> Shape:
    """Object with any keys, and values of one shape."""
    return {"type": "object", "additionalProperties": value}


def one_of(words: Iterable[str]) -> Shape:
    return {"type": "string", "enum": [str(word) for word in words]}


def or_null(shape: Shape) -> Shape:
    """Make a shape nullable."""
    if "$ref" in shape:
        return {"anyOf": [shape, {"type": "null"}]}
    nullable_shape = shape | {"type": [shape["type"], "null"]}
    return nullable_shape | {"enum": [*shape["enum"], None]} if "enum" in shape else nullable_shape


def exactly(properties: Mapping[str, Shape], *, optional: Iterable[str] = ()) -> Shape:
    """Object with these members and no others."""
    optional_names = set(optional)
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional_names],
        "additionalProperties": False,
    }


def subset_of(properties: Mapping[str, Shape], *, always: Iterable[str] = ()) -> Shape:
    """Object with any of these members and no others. always: the required ones."""
    return exactly(properties, optional=properties.keys() - set(always))


def page(name: str, item: Component) -> Component:
    """Object with one page of a list, and the link to the next page."""
    shape = exactly({name: array(item), "next": TEXT | {"format": "uri"}}, optional=["next"])
    return Component(f"{item.name}Page", shape)


def column_shape(name: str, column: ColumnElement[Any], *, nullable: bool) -> Shape:
    """Shape of a column's values. name: of the field that shows them."""
    if isinstance(column.type, JSON_TYPES):
        shape = _document(column)
    else:
        shapes = (shape for kind, shape in TYPES if isinstance(column.type, kind))
        shape = next(shapes, UUID if name.endswith("uuid") else TEXT)
    return or_null(shape) if nullable else shape


def _document(column: ColumnElement[Any]) -> Shape:
    """Shape of a JSON column: an array if its default is an empty list, otherwise an object."""
    default = column.default if isinstance(column, Column) else None
    empty = default.arg(None) if default is not None and default.is_callable else {}  # type: ignore[attr-defined]
    return array(ANYTHING) if isinstance(empty, list) else DOCUMENT


def column_shapes(model: type[Base], names: Iterable[str]) -> dict[str, Shape]:
    """Shapes of columns of a table, by name."""
    table = model.__table__.c
    return {
        name: column_shape(name, table[name], nullable=bool(table[name].nullable)) for name in names
    }


def versioned(name: str, shape: Shape) -> Shape:
    """Add `x-since` to the properties of a shape, by the kind's entry in `versions.FIELDS`."""
    first_versions = versions.FIELDS.get(name, {})
    properties = {
        field: inner | {"x-since": f"1.{first_versions[field]}"}
        if field in first_versions
        else inner
        for field, inner in shape["properties"].items()
    }
    return shape | {"properties": properties}


LINK = Component("Link", exactly({"href": TEXT, "rel": TEXT, "type": TEXT}, optional=["type"]))
LINKS = Component("Links", array(LINK))
