"""Nodes."""

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from marshmallow import ValidationError
from sqlalchemy import Select, or_
from sqlalchemy.orm import Session

from app.api import etags, node_view, versions
from app.api.answers import empty, json, runtime
from app.api.paging import chosen, collection, page_of, shape
from app.api.routes import Routes, body, explain
from app.api.schemas.common import FieldsQuery, NoQuery, is_ident
from app.api.schemas.nodes import (
    MaintenanceReason,
    NodeChange,
    NodeCreate,
    NodeFilters,
    NodePatchQuery,
    ValidateQuery,
)
from app.errors import Invalid
from app.models import Node
from app.services import nodes as service
from app.services import patch, targets
from app.services.paging import cut
from app.states import State
from drivers.errors import HardwareError, NotSupported

nodes = Routes("nodes", "Machines, and what is done to them")

Query = Mapping[str, Any]

NAMES_SINCE = 5
CHANGE = NodeChange()
CHANGEABLE = frozenset(CHANGE.fields)
#: Query parameters that are compared with the column of their name.
EQUAL = (
    "instance_uuid", "instance_name", "maintenance", "provision_state", "driver",
    "resource_class", "fault", "conductor_group", "owner", "lessee", "retired",
)  # fmt: skip


def identified(ident: str) -> Any:
    """The condition for the node that a path names. Raises Invalid, NotFound."""
    if not is_ident(ident):
        raise Invalid(f"Expected a UUID or name but received {ident!r}.")
    return service.identified(ident, by_name=versions.current() >= NAMES_SINCE)


def locked(session: Session, ident: str) -> Node:
    """
    The node that a path names, its row locked.

    Raises Invalid, NotFound, and PreconditionFailed when the request's If-Match is not met.
    """
    identified(ident)
    node = service.lock(session, ident)
    etags.check(session, node)
    return node


@nodes.at("GET", "/nodes", query="nodes")
@nodes.arguments(NodeFilters, location="query")
def list_nodes(query: Query) -> Response:
    """List nodes"""
    return _list(query, detail=False)


@nodes.at("GET", "/nodes/detail", query="nodes")
@nodes.arguments(NodeFilters, location="query")
def list_node_details(query: Query) -> Response:
    """List nodes with all their fields"""
    return _list(query, detail=True)


def _list(query: Query, *, detail: bool) -> Response:
    full = node_view.FULL
    wanted = shape(query, "node", short=node_view.SHORT, full=full, detail=detail)
    if detail or query.get("detail"):
        wanted = node_view.whole()
    page = page_of(query, "node", sortable=node_view.SORTABLE)
    with runtime().reading() as session:
        selected = _filtered(node_view.reading(wanted).query, query)
        rows = session.execute(cut(session, selected, Node, page)).all()
        items = node_view.views(session, rows, wanted, conductor=query.get("conductor"))
    more = len(rows) == page.limit and "instance_uuid" not in query
    return json(collection("nodes", items, page, last=rows[-1].uuid if more else None))


def _filtered(selected: Select[Any], query: Query) -> Select[Any]:
    columns = Node.__table__.c  # not the model's attributes: lists are read without the ORM
    for name in EQUAL:
        if name in query:
            selected = selected.where(columns[name] == query[name])
    if "associated" in query:
        free = columns.instance_uuid.is_(None)
        selected = selected.where(~free if query["associated"] else free)
    if "project" in query:
        project = query["project"]
        selected = selected.where(or_(columns.owner == project, columns.lessee == project))
    if "description_contains" in query:
        part = query["description_contains"]
        selected = selected.where(columns.description.contains(part, autoescape=True))
    if "shard" in query:
        selected = selected.where(columns.shard.in_(query["shard"].split(",")))
    if "sharded" in query:
        unsharded = columns.shard.is_(None)
        selected = selected.where(~unsharded if query["sharded"] else unsharded)
    if "parent_node" in query:
        selected = selected.where(columns.parent_node == _parent(query["parent_node"]))
    elif not query.get("include_children"):
        selected = selected.where(columns.parent_node.is_(None))
    return selected


def _parent(ident: str) -> Any:
    """The UUID of a node that may be given by name, as a part of a query."""
    return Select(Node.__table__.c.uuid).where(service.identified(ident)).scalar_subquery()


@nodes.at("POST", "/nodes")
@nodes.arguments(NodeCreate)
def create_node(fields: dict[str, Any]) -> Response:
    """Enroll a node"""
    versions.check_body("node", fields)
    state = State.ENROLL if versions.current() >= 11 else State.AVAILABLE
    uuid = service.when_free(runtime(), lambda session: service.create(session, fields, state).uuid)
    return node_view.tagged(Node.__table__.c.uuid == uuid, node_view.whole(), 201)


@nodes.at("GET", "/nodes/<ident>", query="nodes")
@nodes.arguments(FieldsQuery, location="query")
def show_node(query: Query, ident: str) -> Response:
    """Show a node"""
    if "fields_" in query:
        wanted = chosen(query["fields_"], "node", node_view.FULL)
    else:
        wanted = node_view.whole()
    return node_view.tagged(identified(ident), wanted)


@nodes.at("PATCH", "/nodes/<ident>", query="nodes")
@nodes.arguments(NodePatchQuery, location="query")
def change_node(query: Query, ident: str) -> Response:
    """Change a node by a JSON patch"""
    version = versions.current()
    changes = patch.parse(body(request), CHANGEABLE, escapes=version >= 98)
    for each in changes:
        if len(each.path) == 1 and each.op != "remove":
            versions.require(versions.since("node", each.field), f"field {each.field}")
    reset = query.get("reset_interfaces", False)
    if "reset_interfaces" in query and not any(
        each.path == ("driver",) and each.op != "remove" for each in changes
    ):
        raise Invalid("reset_interfaces: the patch must change the driver")

    def work(session: Session) -> str:
        node = locked(session, ident)
        if changes:
            values = patched(CHANGE, node, changes)
            service.change(
                session,
                node,
                changes,
                values,
                inspecting_counts=version >= 39,
                reset_interfaces=reset,
            )
        return node.uuid

    uuid = service.when_free(runtime(), work)
    return node_view.tagged(Node.__table__.c.uuid == uuid, node_view.whole())


def patched(schema: Any, row: Any, changes: list[patch.Change]) -> dict[str, Any]:
    """field -> new value of what the changes touch, checked. Raises Invalid."""
    fields = {each.field for each in changes}
    values = patch.apply({name: getattr(row, name, None) for name in fields}, changes)
    for name, value in values.items():
        if value is None and not schema.fields[name].allow_none:
            raise Invalid(f"{name}: cannot be removed")
    for each in changes:
        if each.path == ("name",) and each.op != "remove" and each.value is None:
            raise Invalid("name: use remove")
    try:
        loaded: dict[str, Any] = schema.load(
            {name: value for name, value in values.items() if value is not None},
            partial=tuple(schema.fields),  # by name, so that it does not hold for what is inside
        )
    except ValidationError as error:
        raise Invalid(explain(error.messages)) from error
    return {name: loaded.get(name) for name in values}


@nodes.at("DELETE", "/nodes/<ident>")
@nodes.arguments(NoQuery, location="query")
def delete_node(_query: Query, ident: str) -> Response:
    """Forget a node"""
    service.when_free(runtime(), lambda session: service.remove(session, locked(session, ident)))
    return empty(204)


@nodes.at("PUT", "/nodes/<ident>/maintenance")
@nodes.arguments(MaintenanceReason, location="json_or_query", required=False)
def set_maintenance(fields: Query, ident: str) -> Response:
    """Put a node into maintenance"""
    reason = fields.get("reason")
    service.when_free(
        runtime(), lambda session: service.set_maintenance(locked(session, ident), reason)
    )
    return empty(202)


@nodes.at("DELETE", "/nodes/<ident>/maintenance")
@nodes.arguments(NoQuery, location="query")
def clear_maintenance(_query: Query, ident: str) -> Response:
    """Take a node out of maintenance"""
    service.when_free(runtime(), lambda session: service.clear_maintenance(locked(session, ident)))
    return empty(202)


@nodes.at("GET", "/nodes/<ident>/validate")
@nodes.arguments(NoQuery, location="query")
def validate_node(_query: Query, ident: str) -> Response:
    """Check a node's settings, without touching the machine"""
    return _validate(ident)


@nodes.at("GET", "/nodes/validate")
@nodes.arguments(ValidateQuery, location="query")
def validate_named_node(query: Query) -> Response:
    """Check a node's settings; the node is named in the query"""
    ident = query.get("node") or query.get("node_uuid")
    if ident is None:
        raise Invalid("node or node_uuid: one of them is required")
    return _validate(ident)


def _validate(ident: str) -> Response:
    identified(ident)
    with runtime().reading() as session:
        node = service.find(session, ident)
        try:
            target = targets.of_node(session, node)
        except HardwareError as error:
            raise Invalid(str(error)) from error
    results: dict[str, Any] = {}
    for kind, interface in target.driver.by_kind.items():
        if kind == "vendor":
            continue
        try:
            interface.validate(target)
            results[kind] = {"result": True}
        except NotSupported as error:
            results[kind] = {"result": None, "reason": str(error)}
        except HardwareError as error:
            results[kind] = {"result": False, "reason": str(error)}
    return json(results)
