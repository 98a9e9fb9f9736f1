"""Conductors."""

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.api.answers import host, json, links, runtime
from app.api.paging import chosen, collection, page_of, shape
from app.api.routes import Routes
from app.api.schemas.common import FieldsQuery, ListQuery
from app.errors import NotFound
from app.models import Conductor
from app.runtime import of
from app.services import conductors as service
from app.services.paging import fetch

conductors = Routes("conductors", "The workers that nodes belong to")

Query = Mapping[str, Any]
View = dict[str, Any]

SHORT = ("hostname", "conductor_group", "alive")
FULL = ("created_at", "updated_at", "hostname", "conductor_group", "drivers", "alive")
SORTABLE = frozenset(FULL) - {"alive", "drivers"}


def _views(session: Session, rows: Sequence[Conductor], wanted: Sequence[str]) -> list[View]:
    timeout = of(session).settings.conductor.heartbeat_timeout
    alive = {each.name for each in service.alive(session, timeout)}
    base, asked, result = host(), {*wanted, "links"}, []
    for row in rows:
        view: View = {  # in Ironic's order
            "created_at": row.created_at,
            "updated_at": row.updated_at,
            "hostname": row.hostname,
            "conductor_group": row.conductor_group,
            "drivers": sorted(row.interfaces),
            "links": links(f"conductors/{row.hostname}", base),
            "alive": row.hostname in alive,
        }
        result.append({name: value for name, value in view.items() if name in asked})
    return result


@conductors.at("GET", "/conductors", since=49, query="conductors", rule="baremetal:conductor:get")
@conductors.arguments(ListQuery, location="query")
def list_conductors(query: Query) -> Response:
    """List conductors"""
    wanted = shape(query, "conductor", short=SHORT, full=FULL)
    page = page_of(query, "conductor", sortable=SORTABLE, by_uuid=False)
    with runtime().reading() as session:
        found = fetch(session, select(Conductor), Conductor, page, identity="hostname")
        rows = [row[0] for row in found]
        items = _views(session, rows, wanted)
    last = rows[-1].hostname if len(rows) == page.limit else None
    return json(collection("conductors", items, page, last=last))


@conductors.at(
    "GET", "/conductors/<hostname>", since=49, query="conductors", rule="baremetal:conductor:get"
)
@conductors.arguments(FieldsQuery, location="query")
def show_conductor(query: Query, hostname: str) -> Response:
    """Show a conductor"""
    fields = query.get("fields_")
    wanted = list(FULL) if fields is None else chosen(fields, "conductor", FULL)
    with runtime().reading() as session:
        row = session.scalar(select(Conductor).where(Conductor.hostname == hostname))
        if row is None:
            raise NotFound("conductor", hostname)
        return json(_views(session, [row], wanted)[0])
