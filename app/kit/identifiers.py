"""
Identifiers: what is a UUID, and which node is meant by one, or by a name.
"""

import re
from typing import Any
from uuid import UUID

from app.errors import NotFound
from app.models import Node

_COLUMNS = Node.__table__.c
_USUAL = re.compile("[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


def is_uuid(ident: str) -> bool:
    return _uuid(ident) is not None


def _uuid(ident: str) -> str | None:
    """A UUID in its usual form; None for what is none."""
    if _USUAL.fullmatch(ident):
        return ident
    if len(ident) not in (32, 36):
        return None
    try:
        return str(UUID(ident))
    except ValueError:
        return None


def key_of(ident: str, *, by_name: bool = True) -> tuple[str, str]:
    """The unique column that a UUID or name is looked for in, and its value. Raises NotFound."""
    if uuid := _uuid(ident):
        return "uuid", uuid
    if not by_name:
        raise NotFound("node", ident)
    return "name", ident


def identified(ident: str, *, by_name: bool = True) -> Any:
    """The condition that a node is the one meant by a UUID or name. Raises NotFound."""
    column, value = key_of(ident, by_name=by_name)
    return _COLUMNS[column] == value
