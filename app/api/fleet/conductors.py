"""Routes of conductors."""

from collections.abc import Sequence

from flask import Response
from sqlalchemy import select, true
from sqlalchemy.orm import Session

from app.api.openapi.returns import ACCEPTED, Returns, listed
from app.api.openapi.shapes import BOOLEAN, LINKS, TEXT, Component, array, column_shapes, subset_of
from app.api.request.context import Query, RequestContext, View
from app.api.request.paging import page_answer, page_of, requested_fields, shape
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.schemas.conductors import DrainReason
from app.api.transport.responses import empty, json, links
from app.api.values.value_types import FieldsQuery, ListQuery
from app.cluster import conductors as service
from app.errors import NotFound
from app.models import Conductor
from app.rows.keyset_pages import fetch
from app.runtime import runtime_of

conductors = Routes("conductors", "Workers that own shares of the nodes", since=49)

SHORT = ("hostname", "conductor_group", "alive")
FULL = ("created_at", "updated_at", "hostname", "conductor_group", "drivers", "alive")
#: Fields beyond Ironic's: only requests that name them get them.
NAMED_ONLY = ("drained_at", "drain_reason")
CHOOSABLE = (*FULL, *NAMED_ONLY)
COMPUTED = ("alive", "drivers")
SORTABLE = frozenset(FULL).difference(COMPUTED)

CONDUCTOR = Component("Conductor", subset_of(
    {
        **column_shapes(Conductor, [name for name in CHOOSABLE if name not in COMPUTED]),
        "alive": BOOLEAN, "drivers": array(TEXT), "links": LINKS,
    },
    always=["links"],
))  # fmt: skip


def _views(
    context: RequestContext,
    session: Session,
    rows: Sequence[Conductor],
    fields: Sequence[str],
) -> list[View]:
    timeout = runtime_of(session).settings.conductor.heartbeat_timeout
    live_conductors = {conductor.name for conductor in service.alive(session, timeout)}
    base, names, result = context.base_url, {*fields, "links"}, []
    for row in rows:
        view: View = {  # in Ironic's order
            "created_at": row.created_at,
            "updated_at": row.updated_at,
            "hostname": row.hostname,
            "conductor_group": row.conductor_group,
            "drivers": sorted(row.interfaces),
            "links": links(f"conductors/{row.hostname}", base),
            "alive": row.hostname in live_conductors,
            "drained_at": row.drained_at,
            "drain_reason": row.drain_reason,
        }
        result.append({name: value for name, value in view.items() if name in names})
    return result


@conductors.declare(
    "GET",
    "/conductors",
    query="conductors",
    rule="baremetal:conductor:get",
    returns=listed("conductors", CONDUCTOR, CHOOSABLE, SORTABLE),
)
@conductors.arguments(ListQuery, location="query")
def list_conductors(context: RequestContext, query: Query) -> Response:
    """List conductors"""
    full = CHOOSABLE if "fields_" in query else FULL
    fields = shape(context, query, "conductor", short=SHORT, full=full)
    page = page_of(context, query, "conductor", sortable=SORTABLE, by_uuid=False)
    with context.runtime.reading() as session:
        records = fetch(
            session, select(Conductor), Conductor, page, among=true(), identity="hostname"
        )
        rows = [row[0] for row in records]
        items = _views(context, session, rows, fields)
    return page_answer(context, "conductors", items, page, rows, marker="hostname")


@conductors.declare(
    "GET",
    "/conductors/<hostname>",
    query="conductors",
    rule="baremetal:conductor:get",
    returns=Returns({200: CONDUCTOR}, fields=(*CHOOSABLE, "links")),
)
@conductors.arguments(FieldsQuery, location="query")
def show_conductor(context: RequestContext, query: Query, hostname: str) -> Response:
    """Show a conductor"""
    fields = requested_fields(context, query, "conductor", CHOOSABLE, FULL)
    with context.runtime.reading() as session:
        row = session.scalar(select(Conductor).where(Conductor.hostname == hostname))
        if row is None:
            raise NotFound("conductor", hostname)
        return json(_views(context, session, [row], fields)[0])


@conductors.declare(
    "PUT", "/conductors/<hostname>/drain", rule="baremetal:conductor:drain", returns=ACCEPTED
)
@conductors.arguments(DrainReason, required=False)
def drain_conductor(context: RequestContext, fields: Query, hostname: str) -> Response:
    """Drain a conductor: it completes its steps, and gets no new work until that is ended"""
    return in_transaction(
        context,
        lambda session: service.drain(session, hostname, fields.get("reason")),
        empty(202),
    )


@conductors.declare(
    "DELETE", "/conductors/<hostname>/drain", rule="baremetal:conductor:drain", returns=ACCEPTED
)
def undrain_conductor(context: RequestContext, hostname: str) -> Response:
    """Give new work to a drained conductor again"""
    return in_transaction(context, lambda session: service.undrain(session, hostname), empty(202))
