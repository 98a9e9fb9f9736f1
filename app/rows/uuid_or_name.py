"""
Identifiers of nodes: normal form of UUIDs, and conditions to find a node by UUID or name.
"""

import re
from uuid import UUID

from sqlalchemy import ColumnElement

from app.errors import NotFound
from app.models import Node

_COLUMNS = Node.__table__.c
_USUAL = re.compile("[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


def is_uuid(ident: str) -> bool:
    return _uuid(ident) is not None


def _uuid(ident: str) -> str | None:
    """Return a UUID in its canonical form; None for any other text."""
    if _USUAL.fullmatch(ident):
        return ident
    if len(ident) not in (32, 36):
        return None
    try:
        return str(UUID(ident))
    except ValueError:
        return None


def key_of(ident: str, *, by_name: bool = True) -> tuple[str, str]:
    """
    Return the unique column that has this UUID or name, and the value to compare it with.

    Raises NotFound: the text is not a UUID, and names are not accepted.
    """
    if uuid := _uuid(ident):
        return "uuid", uuid
    if not by_name:
        raise NotFound("node", ident)
    return "name", ident


def identified(ident: str, *, by_name: bool = True) -> ColumnElement[bool]:
    """
    Return the SQL condition for the node of a UUID or name.

    Raises NotFound: the text is not a UUID, and names are not accepted.
    """
    column, value = key_of(ident, by_name=by_name)
    condition: ColumnElement[bool] = _COLUMNS[column] == value
    return condition
