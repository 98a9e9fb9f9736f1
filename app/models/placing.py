"""
Placing: before a session writes a row, its secrets learn the row that they are written to, and
those of a node that belong into a vault are replaced by references (`vaulting`).
"""

from collections.abc import Container, Mapping
from functools import cache
from typing import Any

from sqlalchemy import Column, Connection, event, inspect
from sqlalchemy.orm import Mapper

from app.db.secret_columns import at, is_secret, place_of, row_columns
from app.models import vaulting
from app.models.base import Base
from app.models.node import Node


@cache
def _secrets(model: type[Base]) -> list[tuple[str, Column[Any]]]:
    """Return the attributes of a model with secrets, and their columns."""
    columns = ((attribute.key, attribute.columns[0]) for attribute in inspect(model).column_attrs)
    return [
        (key, column) for key, column in columns if isinstance(column, Column) and is_secret(column)
    ]


@event.listens_for(Base, "before_insert", propagate=True)
def _before_insert(_mapper: Mapper[Base], connection: Connection, row: Base) -> None:
    if isinstance(row, Node):
        _vault(connection, row, inspect(row).dict, {})
    _place(row, inspect(row).dict)


@event.listens_for(Base, "before_update", propagate=True)
def _before_update(_mapper: Mapper[Base], connection: Connection, row: Base) -> None:
    if isinstance(row, Node):
        _vault(connection, row, inspect(row).committed_state, inspect(row).committed_state)
    _place(row, inspect(row).committed_state)


@event.listens_for(Node, "before_delete")
def _before_delete(_mapper: Mapper[Node], connection: Connection, node: Node) -> None:
    vaulting.drop_all(connection, node.uuid)


def _vault(
    connection: Connection, node: Node, changed: Container[str], old: Mapping[str, Any]
) -> None:
    values = inspect(node).dict
    for column in vaulting.COLUMNS:
        if column in changed and isinstance(values.get(column), dict):
            values[column] = vaulting.vaulted(
                connection, node.uuid, column, old.get(column), values[column]
            )


def _place(row: Base, changed: Container[str]) -> None:
    state = inspect(row)
    for name, column in _secrets(type(row)):
        value = state.dict.get(name)
        if name in changed and value:
            ident = {key: getattr(row, key) for key in row_columns(column.table)}
            state.dict[name] = at(place_of(column, ident), value)
