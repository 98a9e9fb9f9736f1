"""
Entity tags of nodes, for optimistic locking by `If-Match`.

A tag is a digest of the fields that callers can change. Fields that the service writes (power
state, errors, progress) are left out, so that running operations do not fail callers' changes.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from flask import request
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app.api import json_rows
from app.api.schemas.nodes import NodeChange
from app.errors import PreconditionFailed
from app.models import Node

_COLUMNS = [column for column in Node.__table__.c if column.name in NodeChange().fields]
#: Columns to select along with a node; its tag is computed from their values.
PARTS: Sequence[ColumnElement[Any]] = [
    part.label(f"etag_{number}") for number, part in enumerate(json_rows.objects(_COLUMNS))
]


def tag_of(parts: Sequence[str]) -> str:
    """Return the tag, quoted, for the values of `PARTS`."""
    return f'"{hashlib.blake2b("".join(parts).encode(), digest_size=12).hexdigest()}"'


def check(session: Session, node: Node) -> None:
    """
    Check the node against the request's If-Match, if it has one.

    Raises PreconditionFailed: the node's tag is not listed.
    """
    wanted = request.if_match
    if not wanted:
        return
    parts = session.execute(select(*PARTS).where(Node.id == node.id)).one()
    tag = tag_of(parts)
    if not wanted.contains(tag.strip('"')):
        raise PreconditionFailed(f"If-Match: node {node.uuid} has changed; its tag is now {tag}")
