"""Routes of /v1/shards."""

from flask import Response
from sqlalchemy import func, select

from app.api.openapi.shapes import INTEGER, TEXT, array, exactly, or_null
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import json
from app.models import Node

shards = Routes(
    "shards", "Shards: disjoint sets of nodes, one for each client such as nova-compute"
)


@shards.declare(
    "GET",
    "/shards",
    since=82,
    rule="baremetal:shards:get",
    returns=exactly({"shards": array(exactly({"name": or_null(TEXT), "count": INTEGER}))}),
)
def list_shards(context: RequestContext) -> Response:
    """List shards, the largest first; the name of nodes without one is null"""
    count = func.count()
    order = count.desc(), Node.shard.is_(None), Node.shard
    query = select(Node.shard, count).group_by(Node.shard).order_by(*order)
    with context.runtime.reading() as session:
        rows = session.execute(query).all()
    return json({"shards": [{"name": name, "count": number} for name, number in rows]})
