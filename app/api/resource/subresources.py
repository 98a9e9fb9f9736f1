"""
Parent and filters that the lists of ports, port groups and volumes have in common.
"""

from typing import Any

from sqlalchemy import Select

from app.api.node.node_identifiers import id_of
from app.api.request.context import Query, RequestContext
from app.api.resource.resource_routes import Narrow
from app.api.resource.resources import Parent
from app.models import Base, Node

_NODES = Node.__table__.c


def node_parent(model: type[Base], since: int) -> Parent:
    """Node as the parent of rows of `model`. since: minor version of their list below a node."""
    return Parent(
        "/nodes/<ident>",
        "node",
        "node",
        lambda context, ident: model.__table__.c.node_id == id_of(context, ident),
        since,
    )


def by_node(model: type[Base]) -> Narrow:
    """
    Return what applies a list's filters to rows of `model`, joined with their nodes.

    The query may have `node` (or `node_uuid`), `address`, `shard`, `conductor_groups`. Applying
    them raises NotFound if the node of the filter is unknown.
    """
    columns = model.__table__.c

    def narrow(context: RequestContext, statement: Select[Any], query: Query) -> Select[Any]:
        for name in ("node", "node_uuid"):
            if name in query:
                statement = statement.where(columns.node_id == id_of(context, query[name]))
        if "address" in query:
            statement = statement.where(columns.address == query["address"])
        if "shard" in query:
            statement = statement.where(_NODES.shard.in_(query["shard"].split(",")))
        if "conductor_groups" in query:
            groups = [group.lower() for group in query["conductor_groups"]] or [""]
            statement = statement.where(_NODES.conductor_group.in_(groups))
        return statement

    return narrow
