"""Ports."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from flask import Response, request
from sqlalchemy import ColumnElement, Row, Select, select
from sqlalchemy.orm import Session

from app.api import versions
from app.api.answers import empty, host, json, links, runtime
from app.api.nodes import identified, patched
from app.api.paging import chosen, collection, page_of, shape
from app.api.routes import Routes, body
from app.api.schemas.common import FieldsQuery, NoQuery, is_ident
from app.api.schemas.ports import VTEP_KEYS, PortChange, PortCreate, PortFilters
from app.errors import Forbidden, Invalid, NotFound
from app.models import Node, Port
from app.services import nodes as node_service
from app.services import patch
from app.services import ports as service
from app.services.paging import cut

ports = Routes("ports", "The network interfaces of nodes")

Query = Mapping[str, Any]
View = dict[str, Any]

SHORT = ("uuid", "address")
PLAIN = (
    "uuid", "address", "name", "extra", "internal_info", "local_link_connection", "pxe_enabled",
    "physical_network", "is_smartnic", "description", "vendor", "category",
    "available_for_dynamic_portgroup", "created_at", "updated_at",
)  # fmt: skip
FULL = (*PLAIN, "node_uuid", "portgroup_uuid")
SORTABLE = frozenset(PLAIN) - {"extra", "internal_info", "local_link_connection"}
CHANGE = PortChange()
CHANGEABLE = frozenset(CHANGE.fields)
NAMES_SINCE = 88


def _query(wanted: Sequence[str]) -> Select[Any]:
    names = ["id", *(name for name in PLAIN if name in wanted or name == "uuid")]
    columns: list[ColumnElement[Any]] = [Port.__table__.c[name] for name in names]
    joined = select(*columns, Node.uuid.label("node_uuid"))
    return joined.select_from(Port).join(Node, Node.id == Port.node_id)


def _views(rows: Sequence[Row[Any]], wanted: Sequence[str]) -> list[View]:
    base, asked, result = host(), frozenset(wanted), []
    for row in rows:
        port: View = {name: value for name, value in row._mapping.items() if name in asked}
        if "portgroup_uuid" in asked:
            port["portgroup_uuid"] = None
        port["links"] = links(f"ports/{row.uuid}", base)
        result.append(port)
    return result


def _shown(condition: ColumnElement[bool], wanted: Sequence[str]) -> View | None:
    with runtime().reading() as session:
        rows = session.execute(_query(wanted).where(condition)).all()
    return _views(rows, wanted)[0] if rows else None


def _whole() -> list[str]:
    return versions.visible("port", FULL)


@ports.at("GET", "/ports", query="ports")
@ports.arguments(PortFilters, location="query")
def list_ports(query: Query) -> Response:
    """List ports"""
    return _list(query, detail=False)


@ports.at("GET", "/ports/detail", query="ports")
@ports.arguments(PortFilters, location="query")
def list_port_details(query: Query) -> Response:
    """List ports with all their fields"""
    return _list(query, detail=True)


@ports.at("GET", "/nodes/<ident>/ports", query="ports")
@ports.arguments(PortFilters, location="query")
def list_ports_of_node(query: Query, ident: str) -> Response:
    """List the ports of a node"""
    with runtime().reading() as session:
        node_id = session.scalar(select(Node.id).where(identified(ident)))
    if node_id is None:
        raise NotFound("node", ident)
    return _list(query, detail=False, node_id=node_id)


def _list(query: Query, *, detail: bool, node_id: int | None = None) -> Response:
    wanted = shape(query, "port", short=SHORT, full=FULL, detail=detail)
    page = page_of(query, "port", sortable=SORTABLE)
    if ("node" in query or "node_uuid" in query) and "shard" in query:
        raise Forbidden("Ask for the ports of a node or of a shard, not of both.")
    if "conductor_groups" in query and query.keys() & {"node", "node_uuid", "address"}:
        raise Invalid("conductor_groups: cannot be combined with node or address")
    selected = _query(wanted)
    if node_id is not None:
        selected = selected.where(Port.node_id == node_id)
    with runtime().reading() as session:
        rows = session.execute(cut(session, _filtered(selected, query), Port, page)).all()
    last = rows[-1].uuid if len(rows) == page.limit else None
    return json(collection("ports", _views(rows, wanted), page, last=last))


def _filtered(selected: Select[Any], query: Query) -> Select[Any]:
    for name in ("node", "node_uuid"):
        if name in query:
            selected = selected.where(node_service.identified(query[name]))
    if "address" in query:
        selected = selected.where(Port.address == query["address"])
    if "shard" in query:
        selected = selected.where(Node.shard.in_(query["shard"].split(",")))
    if "conductor_groups" in query:
        groups = [group.lower() for group in query["conductor_groups"]] or [""]
        selected = selected.where(Node.conductor_group.in_(groups))
    if "description_contains" in query:
        part = query["description_contains"]
        selected = selected.where(Port.description.contains(part, autoescape=True))
    return selected


@ports.at("POST", "/ports")
@ports.arguments(PortCreate)
def create_port(fields: dict[str, Any]) -> Response:
    """Create a port"""
    versions.check_body("port", fields)
    _check_link_version(fields)
    idents = [fields.pop(name) for name in ("node_uuid", "node_ident") if name in fields]
    if len(idents) != 1:
        raise Invalid("node_uuid or node_ident: exactly one of them is required")
    uuid = node_service.when_free(
        runtime(), lambda session: service.create(session, idents[0], fields).uuid
    )
    return json(_shown(Port.uuid == uuid, _whole()), 201, location=f"{host()}/v1/ports/{uuid}")


def _check_link_version(values: Query) -> None:
    link = values.get("local_link_connection") or {}
    if "network_type" in link:
        versions.require(64, "network_type")
    if link.keys() & VTEP_KEYS and not 90 <= versions.current() < 105:
        raise Invalid("local_link_connection: vtep keys are known from version 1.90 to 1.104")


@ports.at("GET", "/ports/<ident>", query="ports")
@ports.arguments(FieldsQuery, location="query")
def show_port(query: Query, ident: str) -> Response:
    """Show a port"""
    fields = query.get("fields_")
    wanted = _whole() if fields is None else chosen(fields, "port", FULL)
    found = _shown(_identified(ident), wanted)
    if found is None:
        raise NotFound("port", ident)
    return json(found)


def _identified(ident: str) -> ColumnElement[bool]:
    if not is_ident(ident):
        raise Invalid(f"Expected a UUID or name but received {ident!r}.")
    if node_service.is_uuid(ident):
        return Port.uuid == str(UUID(ident))
    if versions.current() < NAMES_SINCE:
        raise Invalid(f"Expected a UUID but received {ident!r}.")
    return Port.name == ident


@ports.at("PATCH", "/ports/<ident>")
@ports.arguments(NoQuery, location="query")
def change_port(_query: Query, ident: str) -> Response:
    """Change a port by a JSON patch"""
    version = versions.current()
    _identified(ident)
    changes = patch.parse(body(request), CHANGEABLE, escapes=version >= 98)
    for each in changes:
        versions.require(versions.since("port", each.field), f"field {each.field}")

    def work(session: Session) -> str:
        port = service.find(session, ident)
        if changes:
            values = patched(CHANGE, port, changes)
            _check_link_version(values)
            service.change(session, port, values, inspecting_counts=version >= 39)
        return port.uuid

    uuid = node_service.when_free(runtime(), work)
    return json(_shown(Port.uuid == uuid, _whole()))


@ports.at("DELETE", "/ports/<ident>")
@ports.arguments(NoQuery, location="query")
def delete_port(_query: Query, ident: str) -> Response:
    """Forget a port"""
    if not node_service.is_uuid(ident):
        raise Invalid(f"Expected a UUID but received {ident!r}.")
    node_service.when_free(
        runtime(),
        lambda session: service.remove(session, service.find(session, ident, by_name=False)),
    )
    return empty(204)
