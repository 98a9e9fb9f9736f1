"""
Entity tags of nodes, for optimistic locking by `If-Match`.

A tag is a digest of the fields that callers can change. Fields that the service writes (power
state, errors, progress) are left out, so that running operations do not fail callers' changes. The
digest has a secret key, as the fields include passwords, which callers could guess otherwise.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from flask import request
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app.api.node import json_rows
from app.api.schemas.nodes import NodeChange
from app.errors import PreconditionFailed
from app.models import Node, Secret
from app.models.secret import ETAG

_COLUMNS = [column for column in Node.__table__.c if column.name in NodeChange().fields]
_KEY = select(Secret.value).where(Secret.name == ETAG).scalar_subquery()
#: Columns to select along with a node; its tag is computed from their values, the key first.
PARTS: Sequence[ColumnElement[Any]] = [
    part.label(f"etag_{number}") for number, part in enumerate((_KEY, *json_rows.objects(_COLUMNS)))
]


def tag_of(parts: Sequence[str]) -> str:
    """Return the tag, quoted, for the values of `PARTS`."""
    key, *fields = parts
    digest = hashlib.blake2b("".join(fields).encode(), digest_size=12, key=bytes.fromhex(key))
    return f'"{digest.hexdigest()}"'


def check(session: Session, node: Node) -> None:
    """
    Check the node against the request's If-Match, if it has one.

    Raises PreconditionFailed: the node's tag is not listed.
    """
    condition = request.if_match
    if not condition:
        return
    parts = session.execute(select(*PARTS).where(Node.id == node.id)).one()
    tag = tag_of(parts)
    if not condition.contains(tag.strip('"')):
        raise PreconditionFailed(f"If-Match: node {node.uuid} has changed; its tag is now {tag}")
