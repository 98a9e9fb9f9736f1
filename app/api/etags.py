"""
Entity tags of nodes: whether what a caller is about to change is still what he has read.

A tag stands for all that callers can change of a node. What the service itself writes (power
state, errors, progress) leaves it as it is, so that work in progress fails nobody's change.
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
#: To be selected along with a node; `of` makes its tag of them.
PARTS: Sequence[ColumnElement[Any]] = [
    part.label(f"etag_{number}") for number, part in enumerate(json_rows.objects(_COLUMNS))
]


def of(parts: Sequence[str]) -> str:
    """The tag, in its quotes, out of the values of `PARTS`."""
    return f'"{hashlib.blake2b("".join(parts).encode(), digest_size=12).hexdigest()}"'


def check(session: Session, node: Node) -> None:
    """Raises PreconditionFailed when the request has an If-Match that the node does not meet."""
    wanted = request.if_match
    if not wanted:
        return
    parts = session.execute(select(*PARTS).where(Node.id == node.id)).one()
    tag = of(parts)
    if not wanted.contains(tag.strip('"')):
        raise PreconditionFailed(f"If-Match: node {node.uuid} has changed; its tag is now {tag}")
