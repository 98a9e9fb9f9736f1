"""
Routes of /v1/baselines, and of the compliance of nodes with them: additions to Ironic's API.
"""

from typing import Any

from flask import Response
from sqlalchemy import Row, Select, exists, select

from app.api.declarations import versions
from app.api.node.node_identifiers import id_of
from app.api.openapi.returns import listed
from app.api.openapi.shapes import TEXT, TIME, UUID, Component, array, exactly, one_of, or_null
from app.api.request.context import Query, RequestContext
from app.api.request.paging import equal_to, page_answer, page_of
from app.api.request.routes import Routes
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Resource
from app.api.schemas.baselines import BaselineChange, BaselineCreate, BaselineNodesQuery
from app.api.transport.responses import json
from app.api.values.value_types import ListQuery
from app.baselines import baselines as service
from app.baselines.rules import Operator
from app.models import Baseline, BaselineNode, Compliance, FailedBenchmark, Node
from app.rows.keyset_pages import fetch

baselines = Routes("baselines", "Baselines: expected facts of machines, and who differs from them")

VALUE = {"type": ["number", "string"]}
EXPECTED = {"anyOf": [VALUE, array(VALUE)]}
RULE = exactly({"field": TEXT, "operator": one_of(Operator), "value": EXPECTED})
DIFFERENCE = Component("Difference", exactly({
    "field": TEXT, "operator": one_of(Operator), "expected": EXPECTED,
    "actual": {"type": ["number", "string", "null"]}, "since": TIME,
}))  # fmt: skip
COMPARISON = {
    "state": one_of(Compliance), "since": TIME, "compared_at": TIME,
    "differences": array(DIFFERENCE), "hold_uuid": or_null(UUID),
}  # fmt: skip
BASELINE_NODE = Component(
    "BaselineNode", exactly({"node_uuid": UUID, "node_name": or_null(TEXT), **COMPARISON})
)
COMPLIANCE = Component(
    "Compliance", exactly({"baseline_uuid": UUID, "baseline_name": TEXT, **COMPARISON})
)
BASELINE = Resource(
    name="baseline",
    path="baselines",
    schema="Baseline",
    model=Baseline,
    short=("uuid", "name", "selection", "acceptance"),
    all_fields=(
        "uuid", "created_at", "updated_at", "name", "description", "selection", "expected",
        "acceptance", "failed_benchmark", "version", "links",
    ),
    names_since=versions.MIN,
    shapes={"expected": array(RULE), "failed_benchmark": one_of(FailedBenchmark)},
)  # fmt: skip

ROUTES = ResourceRoutes(BASELINE, baselines, "baseline", "baselines", "baremetal:baseline")
ROUTES.lists(ListQuery, rule="get")
ROUTES.creates(BaselineCreate, without_context(service.create))
ROUTES.shows()
ROUTES.changes(BaselineChange(), without_context(service.change))
ROUTES.deletes(without_context(service.remove))


@baselines.declare(
    "GET",
    "/baselines/<ident>/nodes",
    rule="baremetal:baseline:get",
    returns=listed("nodes", BASELINE_NODE),
)
@baselines.arguments(BaselineNodesQuery, location="query")
def list_baseline_nodes(context: RequestContext, query: Query, ident: str) -> Response:
    """List the nodes that a baseline is for, with their differences"""
    page = page_of(context, query, "baseline node", sortable=())
    of_baseline = BaselineNode.baseline_id == BASELINE.id_of(context, ident)
    # a join would let PostgreSQL read all nodes before the marker
    names = (
        select(column).where(Node.id == BaselineNode.node_id).scalar_subquery().label(column.key)
        for column in (Node.uuid, Node.name)
    )
    statement: Select[Any] = select(*names, *BaselineNode.__table__.c).where(of_baseline)
    statement = equal_to(statement, query, {"state": BaselineNode.state})
    is_compared = exists().where(of_baseline, BaselineNode.node_id == Node.id)
    with context.runtime.reading() as session:
        rows = fetch(
            session,
            statement,
            Node,
            page,
            among=is_compared,
            reference=BaselineNode.__table__.c.node_id,
        )
    items = [{"node_uuid": row.uuid, "node_name": row.name, **_comparison(row)} for row in rows]
    return page_answer(context, "nodes", items, page, rows)


@baselines.declare(
    "GET",
    "/nodes/<ident>/compliance",
    rule="baremetal:node:compliance:get",
    returns=exactly({"compliance": array(COMPLIANCE)}),
)
def show_compliance(context: RequestContext, ident: str) -> Response:
    """List the baselines that are for a node, with its differences"""
    statement = (
        select(Baseline.uuid, Baseline.name, *BaselineNode.__table__.c)
        .join(Baseline, Baseline.id == BaselineNode.baseline_id)
        .where(BaselineNode.node_id == id_of(context, ident))
        .order_by(Baseline.name)
    )
    with context.runtime.reading() as session:
        rows = session.execute(statement).all()
    items = [
        {"baseline_uuid": row.uuid, "baseline_name": row.name, **_comparison(row)} for row in rows
    ]
    return json({"compliance": items})


def _comparison(row: Row[Any]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in COMPARISON}
