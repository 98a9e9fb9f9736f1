"""Routes of /v1/nodes: nodes, their maintenance and validation."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from flask import Response
from sqlalchemy import ColumnElement, Select, or_, select
from sqlalchemy.orm import Session

from app.api.declarations import node_fields, versions
from app.api.node import node_query, node_view
from app.api.node.node_identifiers import (
    NAMES_SINCE,
    change_locked,
    is_name,
    key_of,
    locked,
    node_of,
)
from app.api.node.node_shapes import NODE, NODES, TAG
from app.api.openapi.returns import ACCEPTED, LOCATION, NO_CONTENT, Returns, json_patch
from app.api.openapi.shapes import BOOLEAN, LINK, TEXT, UUID, Component, array, exactly, map_of
from app.api.policy import masking
from app.api.policy.list_scope import ListScope
from app.api.request.context import Fields, Query, RequestContext
from app.api.request.paging import page_answer, page_of, requested_fields, rows_of, shape
from app.api.request.parsing import body
from app.api.request.patching import patched
from app.api.request.redaction import check_kept_secrets, concealer
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction, rehearse
from app.api.schemas.nodes import (
    MaintenanceReason,
    NodeChange,
    NodeCreate,
    NodeCreateQuery,
    NodeDeleteQuery,
    NodeFilters,
    NodePatchQuery,
    ValidateQuery,
)
from app.api.transport.responses import empty, json
from app.api.values.value_types import FieldsQuery
from app.engine import provisioning
from app.errors import Invalid
from app.hardware import targets
from app.inventory import chassis, history
from app.inventory import nodes as service
from app.lifecycle.provision_states import State
from app.models import Hold, Node, Operation
from app.models.hold import in_effect
from app.reports import fleet_operations
from app.rows import json_patch as patch
from app.rows import row_changes, uuid_or_name
from app.rows.json_patch import Change
from app.selection import conditions as selections
from app.selection.conditions import Sight
from app.selection.tree import Tree, fields_of
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError
from drivers.core.target import Target

nodes = Routes("nodes", "Nodes: the managed machines")

CHANGE = NodeChange()
CHANGEABLE = frozenset(CHANGE.fields)
#: Kinds of interfaces that come first in the document of a validation.
CORE = {"boot", "deploy", "management", "network", "power"}

#: Answer to a dry run of a patch.
CHANGED = Component("NodeChanged", exactly({"changed": array(TEXT)}))
VALIDATION = Component(
    "Validation", map_of(exactly({"result": BOOLEAN, "reason": TEXT}, optional=["reason"]))
)


@nodes.declare("GET", "/nodes", query="nodes", rule="baremetal:node:list", returns=NODES)
@nodes.arguments(NodeFilters, location="query")
def list_nodes(context: RequestContext, query: Query) -> Response:
    """List nodes"""
    return listing(context, query)


@nodes.declare("GET", "/nodes/detail", query="nodes", rule="baremetal:node:list", returns=NODES)
@nodes.arguments(NodeFilters, location="query")
def list_node_details(context: RequestContext, query: Query) -> Response:
    """List nodes with all their fields"""
    return listing(context, query, detail=True)


def listing(context: RequestContext, query: Query, *, detail: bool = False) -> Response:
    """
    Return a page of the nodes that match a query.

    Raises Invalid, NotAcceptable, Forbidden, NotFound for an unknown marker.
    """
    full = node_query.CHOOSABLE
    fields: Collection[str] = shape(
        context, query, "node", short=node_query.SHORT, full=full, detail=detail
    )
    if detail or query.get("detail"):
        fields = node_query.visible_fields(context.version)
    page = page_of(context, query, "node", sortable=node_query.SORTABLE)
    read = node_query.reading(context, fields)
    context.access.check_sort_key(context.scope, page.sort_key)
    with context.runtime.read_connection() as connection:
        if "chassis_uuid" in query:
            chassis.check(connection, query["chassis_uuid"])
        statement = filtered(context, context.scope, read.query, query)
        rows = rows_of(connection, context.scope, statement, Node, page)
        items = node_view.views(context, connection, rows, read, conductor=query.get("conductor"))
    counted_rows = () if "instance_uuid" in query else rows  # one node has it
    return page_answer(context, "nodes", items, page, counted_rows)


def _selecting(context: RequestContext, scope: ListScope, tree: Tree) -> ColumnElement[bool]:
    """Return the condition of the nodes that an expression selects. Raises NotAcceptable."""
    context.version.check_fields("node", sorted(fields_of(tree)))
    sight = Sight(lambda rows: scope.narrowed(rows, Operation), context.access.visibility())
    return selections.condition(tree, sight)


def filtered(  # noqa: C901 - one condition for each parameter
    context: RequestContext, scope: ListScope, statement: Select[Any], query: Query
) -> Select[Any]:
    """
    Limit a query for nodes to the nodes that match the filters of a list.

    Raises Invalid, NotAcceptable: the expression of `where` is wrong, or needs a newer version.
    """
    columns = Node.__table__.c  # not the model's attributes: lists are read without the ORM
    for name, filter_ in node_fields.FILTERS.items():
        if name in query:
            statement = statement.where(filter_.matches(columns[name], query[name]))
    if "associated" in query:
        is_free = columns.instance_uuid.is_(None)
        statement = statement.where(~is_free if query["associated"] else is_free)
    if "project" in query:
        project = query["project"]
        statement = statement.where(or_(columns.owner == project, columns.lessee == project))
    if "description_contains" in query:
        part = query["description_contains"]
        statement = statement.where(columns.description.contains(part, autoescape=True))
    if "hold" in query:
        held_nodes = select(Hold.node_id).where(Hold.kind == query["hold"], in_effect())
        statement = statement.where(columns.id.in_(held_nodes))
    if "sharded" in query:
        unsharded = columns.shard.is_(None)
        statement = statement.where(~unsharded if query["sharded"] else unsharded)
    if "failure_code" in query or "failure_step" in query:
        failed_nodes = fleet_operations.nodes_failed_with(
            lambda operations: scope.narrowed(operations, Operation),
            query.get("failure_code"),
            query.get("failure_step"),
        )
        statement = statement.where(columns.id.in_(failed_nodes))
    selects_children = "parent_node" in query or bool(query.get("include_children"))
    if "where" in query:
        tree = selections.parse(query["where"])
        statement = statement.where(_selecting(context, scope, tree))
        selects_children = selects_children or "parent_node" in fields_of(tree)
    if not selects_children:
        statement = statement.where(columns.parent_node.is_(None))
    return statement


@nodes.declare(
    "POST",
    "/nodes",
    rule="baremetal:node:create",
    returns=Returns({201: NODE, 200: NODE}, LOCATION | TAG),
)
@nodes.arguments(NodeCreateQuery, location="query")
@nodes.arguments(NodeCreate)
def create_node(context: RequestContext, query: Query, fields: Fields) -> Response:
    """Enroll a node; with `dry_run`, only return it as it would be"""
    context.version.check_body("node", fields)
    if not is_name(context, fields.get("name") or "unnamed"):
        raise Invalid("name: must be that of a host, before API version 1.10")
    fields = context.access.with_owner("node", fields)
    # here, as secrets are stored in the vault under it before the work runs again
    fields = {**fields, "uuid": fields.get("uuid") or str(uuid4())}
    dry_run = query.get("dry_run", False)
    state = State.ENROLL if context.version >= 11 else State.AVAILABLE
    requester = context.caller

    def work(session: Session) -> Response:
        node = service.create(session, fields, state, requester)
        context.audit.concern(node.uuid, node.name)
        return node_view.respond(context, session, node, 200 if dry_run else 201)

    return rehearse(context, work) if dry_run else in_transaction(context, work)


@nodes.declare(
    "GET",
    "/nodes/<ident>",
    query="nodes",
    rule="baremetal:node:get",
    returns=Returns({200: NODE}, TAG, fields=(*node_query.CHOOSABLE, "links")),
)
@nodes.arguments(FieldsQuery, location="query")
def show_node(context: RequestContext, query: Query, ident: str) -> Response:
    """Show a node"""
    visible_fields = node_query.visible_fields(context.version)
    fields = requested_fields(context, query, "node", node_query.CHOOSABLE, visible_fields)
    return node_view.tagged(context, key_of(context, ident), fields)


@nodes.declare(
    "PATCH",
    "/nodes/<ident>",
    query="nodes",
    rule="baremetal:node:update",
    returns=Returns({200: {"anyOf": [NODE, CHANGED]}}, TAG),
    takes=json_patch(CHANGE),
)
@nodes.arguments(NodePatchQuery, location="query")
def change_node(context: RequestContext, query: Query, ident: str) -> Response:
    """Change a node by a JSON patch; with `dry_run`, only return the names of the changed fields"""
    version = context.version
    changes = patch.parse(body(context), CHANGEABLE, escapes=version >= 98)
    for change in changes:
        if len(change.path) == 1 and change.op != "remove":
            context.version.require(versions.since("node", change.field), f"field {change.field}")
    reset = query.get("reset_interfaces", False)
    if "reset_interfaces" in query and not any(
        change.path == ("driver",) and change.op != "remove" for change in changes
    ):
        raise Invalid(
            "The reset_interfaces parameter can only be used when changing the node's driver."
        )
    requester, dry_run = context.caller, query.get("dry_run", False)

    def work(session: Session) -> Response:
        node = locked(context, session, ident)
        changed_names: list[str] = []
        if changes:
            values = patched(CHANGE, node, changes)
            changed_names = _changed_names(context, node, changes, values)
            if "chassis_uuid" in values and values["chassis_uuid"] is None:
                context.version.require(25, "removal of chassis_uuid")
            if "owner" in values:
                context.access.check_new_owner(node)
            check_kept_secrets(context, node, changes, values)
            service.change(
                session,
                node,
                changes,
                values,
                requester,
                inspecting_counts=version >= 39,
                reset_interfaces=reset,
            )
        if dry_run:
            return json({"changed": changed_names})
        return node_view.respond(context, session, node)

    return rehearse(context, work) if dry_run else in_transaction(context, work)


def _changed_names(
    context: RequestContext, node: Node, changes: Sequence[Change], values: Mapping[str, Any]
) -> list[str]:
    """
    Return the names of the fields that a patch changes, as `field/key` for keys of documents.

    A caller who may not see the secrets of a document gets each key of the patch: otherwise a
    guessed secret would be confirmed without a trace.
    """
    names = history.changed_fields(node, row_changes.with_defaults(Node, values))
    if context.caller.project_id is not None:
        for change in changes:
            rule = masking.SHOWN_BY.get(change.field)
            if rule and not context.access.shows_secrets(rule):
                document = change.value if isinstance(change.value, dict) else ()
                keys = change.path[1:2] or document
                names += [f"{change.field}/{key}" for key in keys]
    return list(dict.fromkeys(names))


@nodes.declare("DELETE", "/nodes/<ident>", rule="baremetal:node:delete", returns=NO_CONTENT)
@nodes.arguments(NodeDeleteQuery, location="query")
def delete_node(context: RequestContext, query: Query, ident: str) -> Response:
    """Delete a node; with `dry_run`, only check whether it may be deleted"""

    def work(session: Session) -> Response:
        service.remove(session, locked(context, session, ident))
        return empty(204)

    return rehearse(context, work) if query.get("dry_run") else in_transaction(context, work)


@nodes.declare(
    "PUT", "/nodes/<ident>/maintenance", rule="baremetal:node:set_maintenance", returns=ACCEPTED
)
@nodes.arguments(MaintenanceReason, location="json_or_query", required=False)
def set_maintenance(context: RequestContext, fields: Query, ident: str) -> Response:
    """Put a node into maintenance"""
    reason = fields.get("reason")
    return change_locked(
        context, ident, empty(202), service.set_maintenance, reason, context.caller
    )


@nodes.declare(
    "DELETE",
    "/nodes/<ident>/maintenance",
    rule="baremetal:node:clear_maintenance",
    returns=ACCEPTED,
)
def clear_maintenance(context: RequestContext, ident: str) -> Response:
    """Take a node out of maintenance"""
    return change_locked(context, ident, empty(202), service.clear_maintenance, context.caller)


@nodes.declare(
    "GET",
    "/nodes/<ident>/children",
    since=83,
    rule="baremetal:node:list",
    returns=exactly({"children": array(UUID), "links": LINK}),
)
def list_children(context: RequestContext, ident: str) -> Response:
    """List the child nodes of a node"""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        child_query = select(Node.uuid).where(Node.parent_node == node.uuid).order_by(Node.id)
        children = session.scalars(context.scope.narrowed(child_query, Node)).all()
    link = {"href": f"{context.base_url}/v1/nodes?parent_node={node.uuid}", "rel": "children"}
    return json({"children": children, "links": link})


@nodes.declare("GET", "/nodes/<ident>/validate", rule="baremetal:node:validate", returns=VALIDATION)
def validate_node(context: RequestContext, ident: str) -> Response:
    """Check a node's settings, without touching the machine"""
    return _validate(context, ident)


@nodes.declare("GET", "/nodes/validate", rule="baremetal:node:validate", returns=VALIDATION)
@nodes.arguments(ValidateQuery, location="query")
def validate_named_node(context: RequestContext, query: Query) -> Response:
    """Check a node's settings; the node is named in the query"""
    ident = query.get("node") or query.get("node_uuid")
    if ident is None:
        raise Invalid("node or node_uuid: one of them is required")
    if not uuid_or_name.is_uuid(ident):
        context.version.require(NAMES_SINCE, "parameter node with a name")
    return _validate(context, ident)


def _validate(context: RequestContext, ident: str) -> Response:
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        try:
            target = targets.of_node(session, node)
            refusals = {"deploy": _refused_deployment(session, node, target)}
        except HardwareError as error:
            raise Invalid(str(error)) from error
        conceal = concealer(context, node)
    results: dict[str, Any] = {}
    driver = interfaces_of(target)
    for kind in driver.by_kind:
        if kind == "vendor":
            continue
        try:
            driver.validate(kind, target)
            reason = refusals.get(kind)
        except HardwareError as error:
            reason = str(error)
        results[kind] = {"result": reason is None}
        if reason is not None:
            results[kind]["reason"] = conceal(reason)
    order = sorted(results, key=lambda kind: (kind not in CORE, kind))
    return json({kind: results[kind] for kind in order})


def _refused_deployment(session: Session, node: Node, target: Target) -> str | None:
    """Reason that prevents a deployment in addition to the interfaces' reasons, if there is one."""
    try:
        provisioning.check_deployment(session, node, target)
    except Invalid as error:
        return str(error)
    return None
