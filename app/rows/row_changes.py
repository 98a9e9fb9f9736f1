"""
Create and update rows from API fields.

Omitted and removed values become column defaults; unique violations raise AlreadyExists.
"""

from collections.abc import Mapping
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy.orm import Session

from app.db.clock import now
from app.models import Base
from app.models.base import kind_of
from app.rows import unique_violations

Model = TypeVar("Model", bound=Base)


def _empty(model: type[Base], name: str) -> Any:
    """Value of a column in a new row, and after its value was removed."""
    default: Any = model.__table__.c[name].default
    if default is None or not (default.is_scalar or default.is_callable):
        return None
    return default.arg if default.is_scalar else default.arg(None)


def with_defaults(model: type[Base], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of columns with None replaced by the column's default."""
    return {name: _empty(model, name) if value is None else value for name, value in values.items()}


def make(model: type[Model], fields: Mapping[str, Any]) -> Model:
    """Create a row, with a UUID, that no session has yet. `fields` has values of some columns."""
    names = model.__table__.columns.keys()
    unnamed = {name: None for name in names if _empty(model, name) is not None}
    values = with_defaults(model, {**unnamed, **fields})
    return model(**{**values, "uuid": values.get("uuid") or str(uuid4())})


def add(session: Session, row: Model) -> Model:
    """
    Insert a row, and return it.

    Raises AlreadyExists.
    """
    with unique_violations.checked(session, kind_of(type(row)), row):
        session.add(row)
    return row


def change(session: Session, row: Base, values: Mapping[str, Any]) -> None:
    """
    Update columns of a locked row; None sets the column's default.

    Raises AlreadyExists.
    """
    with unique_violations.checked(session, kind_of(type(row)), row):
        for name, value in with_defaults(type(row), values).items():
            setattr(row, name, value)
        if session.is_modified(row):
            row.updated_at = now()  # type: ignore[attr-defined]
