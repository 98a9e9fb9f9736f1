"""Route of the counts of nodes by provision state: an addition to Ironic's API."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from flask import Response
from sqlalchemy import Connection, func, select

from app.api.answers import json, runtime
from app.api.nodes import filtered
from app.api.openapi.shapes import INTEGER, array, exactly, one_of
from app.api.policy.enforce import narrowed
from app.api.routes import Routes
from app.api.schemas.nodes import CountedNodes
from app.models import Node
from app.states import State

provision_states = Routes("provision_states", "Counts of nodes by provision state")

Query = Mapping[str, Any]

NODES = Node.__table__.c
#: A subquery, because SQLite reads all nodes for a condition beside a group.
CHILDREN = select(NODES.id).where(NODES.parent_node.is_not(None))
COUNTS = exactly({
    "provision_states": array(exactly({"provision_state": one_of(State), "nodes": INTEGER})),
    "nodes": INTEGER,
})  # fmt: skip


@provision_states.declare(
    "GET", "/provision_states", query="nodes", rule="baremetal:node:list", returns=COUNTS
)
@provision_states.arguments(CountedNodes, location="query")
def count_nodes(query: Query) -> Response:
    """Count the nodes in each provision state, with the filters of the list of nodes"""
    with runtime().read_connection() as connection:
        counts = _counts(connection, query)
        if "parent_node" not in query and not query.get("include_children"):
            # few nodes are children; without a condition on each row, an index has the states
            counts -= _counts(connection, query, children=True)
    found = [{"provision_state": state, "nodes": counts[state]} for state in State if counts[state]]
    return json({"provision_states": found, "nodes": counts.total()})


def _counts(connection: Connection, query: Query, *, children: bool = False) -> Counter[str]:
    selected = filtered(
        narrowed(select(NODES.provision_state, func.count().label("nodes")), Node),
        {**query, "include_children": True},
    )
    if children:
        selected = selected.where(NODES.id.in_(CHILDREN))
    rows = connection.execute(selected.group_by(NODES.provision_state)).all()
    return Counter({row.provision_state: row.nodes for row in rows})
