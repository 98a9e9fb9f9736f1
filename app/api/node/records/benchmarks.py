"""Route of the numbers that steps have measured on a node: an addition to Ironic's API."""

from typing import Any

from flask import Response
from sqlalchemy import Select, select

from app.api.node.node_identifiers import id_of
from app.api.openapi.returns import listed
from app.api.openapi.shapes import INTEGER, Component, column_shapes, exactly
from app.api.request.context import Query, RequestContext
from app.api.request.paging import page_answer, page_of
from app.api.request.routes import Routes
from app.api.schemas.operations import BenchmarksQuery
from app.models import Benchmark
from app.rows.keyset_pages import fetch

benchmarks = Routes("benchmarks", "Numbers that steps have measured on machines")

COLUMNS = ("metric", "value", "unit", "step", "operation_uuid", "started_at", "recorded_at")
BENCHMARK = Component("Benchmark", exactly({
    "sequence": INTEGER, **column_shapes(Benchmark, COLUMNS),
}))  # fmt: skip

_C: Any = Benchmark.__table__.c


@benchmarks.declare(
    "GET",
    "/nodes/<ident>/benchmarks",
    rule="baremetal:node:benchmarks:get",
    returns=listed("benchmarks", BENCHMARK),
)
@benchmarks.arguments(BenchmarksQuery, location="query")
def list_benchmarks(context: RequestContext, query: Query, ident: str) -> Response:
    """
    List the numbers that steps have measured on a node, the newest first

    metric: its name, or its beginning up to a full stop.
    """
    newest_first = {"sort_dir": "desc", **query}
    page = page_of(context, newest_first, "benchmark", sortable=(), by_uuid=False)
    of_node = _C.node_id == id_of(context, ident)
    statement = _filtered(select(_C.id, *(_C[name] for name in COLUMNS)).where(of_node), query)
    with context.runtime.reading() as session:
        rows = fetch(session, statement, Benchmark, page, among=of_node, identity="id")
    items = [{"sequence": row.id, **{name: getattr(row, name) for name in COLUMNS}} for row in rows]
    return page_answer(context, "benchmarks", items, page, rows, marker="id")


def _filtered(statement: Select[Any], query: Query) -> Select[Any]:
    if "metric" in query:
        is_below = _C.metric.startswith(f"{query['metric']}.", autoescape=True)
        statement = statement.where((_C.metric == query["metric"]) | is_below)
    if "since" in query:
        statement = statement.where(_C.recorded_at >= query["since"])
    if "until" in query:
        statement = statement.where(_C.recorded_at < query["until"])
    return statement
