"""
Lookup of the node that a path identifies, by UUID, or by name from microversion 1.5.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from flask import Response
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from app.api.node import etags
from app.api.request.context import RequestContext
from app.api.request.transactions import in_transaction
from app.api.transport.errors import Misaddressed
from app.api.values.value_types import is_host_name, is_ident
from app.errors import NotFound
from app.inventory import nodes
from app.models import Node
from app.rows import uuid_or_name

P = ParamSpec("P")

NAMES_SINCE = 5
#: Before it, a name must be a valid host name.
ANY_NAMES_SINCE = 10


def key_of(context: RequestContext, ident: str) -> tuple[str, str]:
    """
    Return the unique column of the identifier, and its value.

    Raises Misaddressed, NotFound.
    """
    if not is_ident(ident) or (not uuid_or_name.is_uuid(ident) and not is_name(context, ident)):
        raise Misaddressed(f"Expected UUID or name for node: {ident}")
    return uuid_or_name.key_of(ident, by_name=context.version >= NAMES_SINCE)


def is_name(context: RequestContext, text: str) -> bool:
    """Whether the text is a valid node name in the request's version."""
    return not NAMES_SINCE <= context.version < ANY_NAMES_SINCE or is_host_name(text)


def identified(context: RequestContext, ident: str) -> ColumnElement[bool]:
    """Return the SQL condition that selects the node. Raises Misaddressed, NotFound."""
    column, value = key_of(context, ident)
    condition: ColumnElement[bool] = Node.__table__.c[column] == value
    return condition


def id_of(context: RequestContext, ident: str) -> int:
    """
    Return the primary key of the node.

    In a list, a node that the caller may not list does not exist.

    Raises Misaddressed, NotFound.
    """
    with context.runtime.reading() as session:
        condition = identified(context, ident) & context.scope.listable(Node)
        node_id = session.scalar(select(Node.id).where(condition))
    if node_id is None:
        raise NotFound("node", ident)
    return node_id


def uuid_of(context: RequestContext, ident: str) -> str:
    """
    Return the node's UUID, also of a deleted node by its UUID.

    In a list, a node that the caller may not list has no name.

    Raises Misaddressed, NotFound.
    """
    condition = identified(context, ident)
    if uuid_or_name.is_uuid(ident):
        return ident.lower()
    with context.runtime.read_connection() as connection:
        uuid = connection.scalar(select(Node.uuid).where(condition, context.scope.listable(Node)))
    if uuid is None:
        raise NotFound("node", ident)
    return str(uuid)


def node_of(context: RequestContext, session: Session, ident: str) -> Node:
    """Load the node. Raises Misaddressed, NotFound."""
    key_of(context, ident)
    return nodes.find(session, ident)


def change_locked(
    context: RequestContext,
    ident: str,
    answer: Response,
    act: Callable[Concatenate[Session, Node, P], object],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Response:
    """
    Call `act` with a session, the locked node and the arguments, in a transaction; return `answer`.

    Raises the errors of `act`, `locked` and `in_transaction`.
    """

    def work(session: Session) -> None:
        act(session, locked(context, session, ident), *args, **kwargs)

    return in_transaction(context, work, answer)


def locked(context: RequestContext, session: Session, ident: str) -> Node:
    """
    Load the node and lock its row until the transaction ends.

    Raises Misaddressed, NotFound, and PreconditionFailed when the request's If-Match is not met.
    """
    key_of(context, ident)
    node = nodes.lock(session, ident)
    context.audit.concern(node.uuid, node.name)
    etags.check(session, node)
    return node
