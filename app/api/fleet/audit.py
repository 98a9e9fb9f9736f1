"""Route of the audit records: an addition to Ironic's API."""

from collections.abc import Mapping
from typing import Any

from flask import Response
from sqlalchemy import ColumnElement, Select, or_, select, true

from app.api.openapi.returns import listed
from app.api.openapi.shapes import INTEGER, TEXT, Component, array, column_shapes, exactly, one_of
from app.api.request.context import Query, RequestContext
from app.api.request.paging import equal_to, page_answer, page_of
from app.api.request.routes import Routes
from app.api.schemas.audit import AuditFilters
from app.models import AuditRecord, Outcome
from app.rows.keyset_pages import fetch

audit = Routes("audit", "Audit records: the requests, their callers and their outcomes")

COLUMNS = (
    "created_at", "action", "outcome", "status", "requests", "target_type", "target", "target_name",
    "user_id", "user_name", "project_id", "project_name", "system_scope", "auth", "address",
    "user_agent", "request_id", "reason",
)  # fmt: skip
#: Columns with names that are separated by commas.
LISTS = ("roles", "fields")

_C: Any = AuditRecord.__table__.c
#: Parameter -> the column that it compares.
EQUAL = {
    "user": _C.user_id, "project": _C.project_id, "target": _C.target, "outcome": _C.outcome,
    "address": _C.address,
}  # fmt: skip
_SELECTED = select(_C.id, *(_C[name] for name in (*COLUMNS, *LISTS)))

AUDIT_RECORD = Component("AuditRecord", exactly({
    "sequence": INTEGER, **column_shapes(AuditRecord, COLUMNS), "outcome": one_of(Outcome),
    **dict.fromkeys(LISTS, array(TEXT)),
}))  # fmt: skip


@audit.declare("GET", "/audit", rule="baremetal:audit:get", returns=listed("audit", AUDIT_RECORD))
@audit.arguments(AuditFilters, location="query")
def list_audit_records(context: RequestContext, query: Query) -> Response:
    """List the audit records, the newest first"""
    newest_first = {"sort_dir": "desc", **query, "sort_key": "created_at"}
    page = page_of(context, newest_first, "audit record", sortable={"created_at"}, by_uuid=False)
    with context.runtime.reading() as session:
        rows = fetch(session, _filtered(query), AuditRecord, page, among=true(), identity="id")
    items = [_view(row._mapping) for row in rows]
    return page_answer(context, "audit", items, page, rows, marker="id")


def _filtered(query: Query) -> Select[Any]:
    statement = equal_to(_SELECTED, query, EQUAL)
    if "since" in query:
        statement = statement.where(_C.created_at >= query["since"])
    if "until" in query:
        statement = statement.where(_C.created_at < query["until"])
    if "action" in query:
        statement = statement.where(_is_below(query["action"]))
    return statement


def _is_below(action: str) -> ColumnElement[bool]:
    """Return the condition of an action and its variants: `x` and `x/y`, but not `xy`."""
    return or_(_C.action == action, _C.action.startswith(f"{action}/", autoescape=True))


def _view(row: Mapping[Any, Any]) -> dict[str, Any]:
    names = {name: row[name].split(",") if row[name] else [] for name in LISTS}
    return {"sequence": row["id"], **{name: row[name] for name in COLUMNS}, **names}
