"""Routes of conductors."""

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response
from sqlalchemy import select, true
from sqlalchemy.orm import Session

from app.api.openapi.returns import Returns, listed
from app.api.openapi.shapes import BOOLEAN, LINKS, TEXT, Component, array, column_shapes, subset_of
from app.api.request.context import RequestContext
from app.api.request.paging import checked_fields, collection, page_of, shape
from app.api.request.routes import Routes
from app.api.transport.responses import json, links
from app.api.values.value_types import FieldsQuery, ListQuery
from app.cluster import conductors as service
from app.errors import NotFound
from app.models import Conductor
from app.rows.keyset_pages import fetch
from app.runtime import runtime_of

conductors = Routes("conductors", "Workers that own shares of the nodes")

Query = Mapping[str, Any]
View = dict[str, Any]

SHORT = ("hostname", "conductor_group", "alive")
FULL = ("created_at", "updated_at", "hostname", "conductor_group", "drivers", "alive")
SORTABLE = frozenset(FULL) - {"alive", "drivers"}

CONDUCTOR = Component("Conductor", subset_of(
    {
        **column_shapes(Conductor, (name for name in FULL if name not in ("alive", "drivers"))),
        "alive": BOOLEAN, "drivers": array(TEXT), "links": LINKS,
    },
    always=["links"],
))  # fmt: skip


def _views(
    context: RequestContext,
    session: Session,
    rows: Sequence[Conductor],
    requested_fields: Sequence[str],
) -> list[View]:
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    live_conductors = {conductor.name for conductor in service.alive(session, timeout)}
    base, names, result = context.base_url, {*requested_fields, "links"}, []
    for row in rows:
        view: View = {  # in Ironic's order
            "created_at": row.created_at,
            "updated_at": row.updated_at,
            "hostname": row.hostname,
            "conductor_group": row.conductor_group,
            "drivers": sorted(row.interfaces),
            "links": links(f"conductors/{row.hostname}", base),
            "alive": row.hostname in live_conductors,
        }
        result.append({name: value for name, value in view.items() if name in names})
    return result


@conductors.declare(
    "GET",
    "/conductors",
    since=49,
    query="conductors",
    rule="baremetal:conductor:get",
    returns=listed("conductors", CONDUCTOR, FULL, SORTABLE),
)
@conductors.arguments(ListQuery, location="query")
def list_conductors(context: RequestContext, query: Query) -> Response:
    """List conductors"""
    requested_fields = shape(context, query, "conductor", short=SHORT, full=FULL)
    page = page_of(context, query, "conductor", sortable=SORTABLE, by_uuid=False)
    with context.runtime.reading() as session:
        records = fetch(
            session, select(Conductor), Conductor, page, among=true(), identity="hostname"
        )
        rows = [row[0] for row in records]
        items = _views(context, session, rows, requested_fields)
    marker = rows[-1].hostname if len(rows) == page.limit else None
    return json(collection(context, "conductors", items, page, last_item=marker))


@conductors.declare(
    "GET",
    "/conductors/<hostname>",
    since=49,
    query="conductors",
    rule="baremetal:conductor:get",
    returns=Returns({200: CONDUCTOR}, fields=(*FULL, "links")),
)
@conductors.arguments(FieldsQuery, location="query")
def show_conductor(context: RequestContext, query: Query, hostname: str) -> Response:
    """Show a conductor"""
    fields = query.get("fields_")
    requested_fields = (
        list(FULL) if fields is None else checked_fields(context, fields, "conductor", FULL)
    )
    with context.runtime.reading() as session:
        row = session.scalar(select(Conductor).where(Conductor.hostname == hostname))
        if row is None:
            raise NotFound("conductor", hostname)
        return json(_views(context, session, [row], requested_fields)[0])
