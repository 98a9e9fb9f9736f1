"""Route of the sanitation reports of nodes: an addition to Ironic's API."""

from typing import Any

import orjson
from flask import Response
from sqlalchemy import select

from app.api.node.node_identifiers import uuid_of
from app.api.openapi.returns import listed
from app.api.openapi.shapes import DOCUMENT, TEXT, TIME, UUID, Component, exactly, one_of, or_null
from app.api.request.context import Query, RequestContext
from app.api.request.paging import page_answer, page_of
from app.api.request.routes import Routes
from app.api.schemas.operations import SanitationQuery
from app.audit.sanitation_proofs import ALGORITHM, signature_document
from app.engine.records.erasures import Result
from app.errors import NotFound
from app.models import Node, SanitationReport
from app.rows.keyset_pages import fetch

sanitation = Routes("sanitation", "Signed reports of cleanings, with the erased disks")

SIGNATURE = exactly({"algorithm": one_of([ALGORITHM]), "public_key": TEXT, "value": TEXT})
REPORT = Component("SanitationReport", exactly({
    "uuid": UUID, "node_uuid": UUID, "created_at": TIME, "result": one_of(Result),
    "report": DOCUMENT, "signature": or_null(SIGNATURE),
}))  # fmt: skip


@sanitation.declare(
    "GET",
    "/nodes/<ident>/sanitation",
    rule="baremetal:node:sanitation:get",
    returns=listed("sanitation", REPORT),
)
@sanitation.arguments(SanitationQuery, location="query")
def list_sanitation_reports(context: RequestContext, query: Query, ident: str) -> Response:
    """
    List the sanitation reports of a node, the newest first

    Those of a deleted node are listed by its UUID, for callers who may read the whole system.
    """
    newest_first = {"sort_dir": "desc", **query}
    page = page_of(context, newest_first, "sanitation report", sortable=())
    node_uuid = uuid_of(context, ident)
    with context.runtime.reading() as session:
        of_node = SanitationReport.node_uuid == node_uuid
        statement = select(SanitationReport).where(of_node)
        rows = [row[0] for row in fetch(session, statement, SanitationReport, page, among=of_node)]
        if not rows and session.scalar(select(Node.id).where(Node.uuid == node_uuid)) is None:
            raise NotFound("node", ident)
    items = [_view(row) for row in rows]
    return page_answer(context, "sanitation", items, page, rows)


def _view(row: SanitationReport) -> dict[str, Any]:
    return {
        "uuid": row.uuid,
        "node_uuid": row.node_uuid,
        "created_at": row.created_at,
        "result": row.result,
        "report": orjson.loads(row.report),
        "signature": signature_document(row.signature, row.public_key),
    }
