"""Scope of a list: the rows that its caller may list."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, false, or_, select, true

from app.api.policy.targets import OWNED, Owned
from app.models import Base, Node


@dataclass(frozen=True, slots=True)
class ListScope:
    """
    Rows that a caller may list.

    project: the rows of this project alone, or all rows without one.
    """

    project: str | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether the scope excludes rows."""
        return self.project is not None

    def narrowed(self, statement: Select[Any], model: type[Base]) -> Select[Any]:
        """Limit a query for rows of `model` to this scope."""
        return statement.where(self.listable(model)) if self.is_narrow else statement

    def listable(self, model: type[Base]) -> ColumnElement[bool]:
        """Return the condition of the rows of `model` in this scope."""
        if self.project is None:
            return true()
        owned = _kind_of(model)
        if owned is None:
            return false()
        owned_rows = or_(*(column == self.project for column in owned.owners))
        if model is not Node and owned.is_part_of_node:
            owned_rows = model.__table__.c.node_id.in_(select(Node.id).where(owned_rows))
        if owned.public is not None:
            owned_rows = or_(owned_rows, owned.public)
        return owned_rows


EVERYTHING = ListScope()


def _kind_of(model: type[Base]) -> Owned | None:
    return next((owned for owned in OWNED.values() if owned.model is model), None)
