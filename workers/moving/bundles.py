"""Rows of this service with the rows that belong to them: read, and compared."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import Base, Portgroup
from app.models.base import kind_of

Values = dict[str, Any]

#: Columns of times that say nothing about the content.
_TIMES = {"created_at", "updated_at"}


class NotMoved(Exception):
    """A row cannot be moved; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A row and the rows that belong to it, which are written in one transaction."""

    model: type[Base]
    values: Values
    parts: Mapping[type[Base], Sequence[Values]] = field(default_factory=dict)
    notes: Sequence[str] = ()  # changes on the way, in words


def stored(
    session: Session, model: type[Base], uuid: str, part_models: Collection[type[Base]]
) -> Bundle | None:
    """
    Return the row with a UUID and the rows that belong to it; None if there is none.

    References between rows are UUIDs, under the name of the column with the id.
    """
    table: Any = model.__table__
    row = session.execute(select(table).where(table.c.uuid == uuid)).mappings().one_or_none()
    if row is None:
        return None
    parts = {model: _parts_of(session, model, row["id"]) for model in part_models}
    return Bundle(model, dict(row), parts)


def _parts_of(session: Session, model: Any, node_id: int) -> list[Values]:
    table = model.__table__
    query = select(table).where(table.c.node_id == node_id).order_by(*table.primary_key)
    rows = [dict(row) for row in session.execute(query).mappings()]
    for row in rows:
        row["node_id"] = None
        if row.get("portgroup_id"):
            group = select(Portgroup.uuid).where(Portgroup.id == row["portgroup_id"])
            row["portgroup_id"] = session.scalar(group)
    return rows


def differences(bundle: Bundle, present: Bundle) -> list[str]:
    """Return the names of fields, and of kinds of parts, whose content differs."""
    fields = [
        name
        for name, value in bundle.values.items()
        if name not in _TIMES and present.values[name] != value
    ]
    kinds = [
        kind_of(model)
        for model, parts in bundle.parts.items()
        if _sorted(parts) != _sorted(present.parts[model])
    ]
    return [*fields, *kinds]


def _sorted(parts: Sequence[Values]) -> list[Any]:
    """Return parts in an order, without ids and times."""
    ignored = _TIMES | {"id"}
    rows = [
        sorted((name, value) for name, value in part.items() if name not in ignored)
        for part in parts
    ]
    return sorted(rows, key=repr)
