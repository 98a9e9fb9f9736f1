"""Route of the counts of nodes by provision state: an addition to Ironic's API."""

from typing import Any

from flask import Response
from sqlalchemy import Select, func, select

from app.api.node.nodes import filtered
from app.api.openapi.shapes import INTEGER, array, exactly, one_of
from app.api.request.context import Query, RequestContext
from app.api.request.routes import Routes
from app.api.schemas.nodes import CountedNodes
from app.api.transport.responses import json
from app.lifecycle.provision_states import State
from app.models import Node
from app.models.node import COUNTED_BY

provision_states = Routes("provision_states", "Counts of nodes by provision state")

#: Filters by columns of the index of provision states. Their conditions belong to the count and
#: not to the rows, so that a database scans this index: each node costs the same, and no row is
#: read. For a condition on the rows SQLite searches another index, and reads the row of each match.
INDEXED = {*COUNTED_BY, "provision_state", "associated", "sharded", "include_children"}
COUNTS = exactly({
    "provision_states": array(exactly({"provision_state": one_of(State), "nodes": INTEGER})),
    "nodes": INTEGER,
})  # fmt: skip


@provision_states.declare(
    "GET", "/provision_states", query="nodes", rule="baremetal:node:list", returns=COUNTS
)
@provision_states.arguments(CountedNodes, location="query")
def count_nodes(context: RequestContext, query: Query) -> Response:
    """Count the nodes in each provision state, with the filters of the list of nodes"""
    with context.runtime.read_connection() as connection:
        rows = connection.execute(_counts(context, query)).all()
    counts = {row.provision_state: row.nodes for row in rows if row.nodes}
    ordered = [state for state in State if state in counts]
    documents = [{"provision_state": state, "nodes": counts[state]} for state in ordered]
    return json({"provision_states": documents, "nodes": sum(counts.values())})


def _counts(context: RequestContext, query: Query) -> Select[Any]:
    """Select the counts by state; a state may have the count 0."""
    state = Node.__table__.c.provision_state
    scope = context.scope
    matching = filtered(context, scope, scope.narrowed(select(state), Node), query)
    if scope.is_narrow or not INDEXED.issuperset(query):
        return matching.add_columns(func.count().label("nodes")).group_by(state)
    condition = matching.whereclause
    nodes = func.count() if condition is None else func.count().filter(condition)
    return select(state, nodes.label("nodes")).group_by(state)
