"""Routes of /v1/rollouts: a verb for many nodes in waves. An addition to Ironic's API."""

from collections.abc import Sequence
from typing import Any

from flask import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.api.declarations import versions
from app.api.node import verb_checks
from app.api.node.nodes import filtered
from app.api.openapi.returns import LOCATION, NO_CONTENT, Returns, listed
from app.api.openapi.shapes import (
    DOCUMENT,
    INTEGER,
    LINKS,
    TEXT,
    UUID,
    Component,
    array,
    column_shapes,
    exactly,
    map_of,
    one_of,
    or_null,
)
from app.api.policy import by_body
from app.api.request import repeats
from app.api.request.context import Fields, Query, RequestContext
from app.api.request.paging import equal_to, page_answer, page_of, rows_of
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.schemas.rollouts import (
    RolloutCreate,
    RolloutFilters,
    RolloutNodeFilters,
    RolloutRequest,
)
from app.api.transport.responses import empty, json
from app.engine import power
from app.engine.refreshes import REFRESH
from app.errors import AlreadyExists, Invalid, NotFound
from app.lifecycle.rollout_states import RolloutEvent
from app.models import Node, PauseCause, Rollout, RolloutNode, RolloutNodeState, RolloutState
from app.rollouts import rollout_plan, rollout_progress
from app.rollouts import rollouts as service
from app.rollouts.rollout_plan import Plan, Strategy
from app.rows.keyset_pages import fetch
from app.text.masking import mask

rollouts = Routes("rollouts", "Rollouts: a verb for many nodes in waves")

SHOWN = (
    "uuid", "description", "owner", "user_id", "user_name", "request_id", "target", "filters",
    "strategy", "state", "pause_cause", "wave", "waves", "canary_waves", "error_budget",
    "accepted_failures", "nodes", "running", "succeeded", "failed", "created_at", "updated_at",
    "finished_at",
)  # fmt: skip
NODE_SHOWN = (
    "node_uuid", "node_name", "group", "wave", "state", "operation_uuid", "code", "error",
    "due_at", "started_at", "finished_at",
)  # fmt: skip
SORTABLE = frozenset({"uuid", "target", "state", "created_at", "finished_at"})
#: Target that is no verb -> rule of the request for one node.
_RULES = {
    **dict.fromkeys(power.TARGETS, "baremetal:node:set_power_state"),
    REFRESH: "baremetal:node:refresh",
}

ROLLOUT = Component("Rollout", exactly({
    **column_shapes(Rollout, SHOWN),
    "state": one_of(RolloutState), "pause_cause": or_null(one_of(PauseCause)),
    "arguments": DOCUMENT, "pending": INTEGER, "links": LINKS,
}))  # fmt: skip
WHOLE_ROLLOUT = Component("RolloutWithSummary", exactly({
    **ROLLOUT.schema["properties"],
    "summary": TEXT, "failures": map_of(INTEGER),
}))  # fmt: skip
ROLLOUT_NODE = Component("RolloutNode", exactly({
    "sequence": INTEGER, **column_shapes(RolloutNode, NODE_SHOWN),
    "state": one_of(RolloutNodeState),
}))  # fmt: skip
PLAN = Component("RolloutPlan", exactly({
    "target": TEXT, "waves": INTEGER, "canary_waves": INTEGER, "error_budget": INTEGER,
    "included": INTEGER, "excluded": INTEGER,
    "nodes": array(exactly({
        "node_uuid": UUID, "node_name": or_null(TEXT), "group": TEXT, "wave": INTEGER,
    })),
    "excluded_nodes": array(exactly({
        "node_uuid": UUID, "node_name": or_null(TEXT), "reason": TEXT,
    })),
}))  # fmt: skip


@rollouts.declare(
    "GET",
    "/rollouts",
    rule="baremetal:rollout:list",
    returns=listed("rollouts", ROLLOUT, sortable=SORTABLE),
)
@rollouts.arguments(RolloutFilters, location="query")
def list_rollouts(context: RequestContext, query: Query) -> Response:
    """List the rollouts, the newest first"""
    page = page_of(context, {"sort_dir": "desc", **query}, "rollout", sortable=SORTABLE)
    statement = equal_to(select(Rollout), query, {"state": Rollout.state})
    with context.runtime.reading() as session:
        rows = rows_of(session, context.scope, statement, Rollout, page)
        page_rollouts = [row[0] for row in rows]
    items = [_view(context, rollout) for rollout in page_rollouts]
    return page_answer(context, "rollouts", items, page, page_rollouts)


@rollouts.declare(
    "POST",
    "/rollouts",
    rule="baremetal:rollout:create",
    returns=Returns({201: WHOLE_ROLLOUT, 200: PLAN}, LOCATION),
)
@rollouts.arguments(RolloutCreate)
def create_rollout(context: RequestContext, fields: Fields) -> Response:
    """Create a rollout, which starts at once; with `dry_run`, return its nodes and waves only"""
    target, filters = fields.pop("target"), fields.pop("nodes")
    strategy = Strategy(**fields.pop("strategy", {}))
    dry_run, own_fields = fields.pop("dry_run", False), _named(fields)
    _check(context, target, filters, fields)
    context.audit.specify(target)
    if dry_run:
        repeats.refuse(context.request, repeats.DRY_RUN)
    if "uuid" in own_fields:
        _check_new(context, own_fields["uuid"])
    plan = _plan(context, target, filters, strategy, fields)
    if dry_run:
        context.audit.skip()
        return json(_plan_view(context, target, plan))
    document = {
        **own_fields, "target": target, "arguments": fields, "filters": _recorded(filters),
        "strategy": strategy.document(),
    }  # fmt: skip

    def work(session: Session) -> Response:
        rollout = service.create(session, plan, document, context.caller)
        context.audit.concern(rollout.uuid)
        return json(
            _whole(context, session, rollout), 201, f"{context.base_url}/v1/rollouts/{rollout.uuid}"
        )

    return in_transaction(context, work)


def _recorded(filters: Fields) -> Fields:
    """Return filters as the rollout keeps them: its nodes have the names, so it counts them."""
    return {**filters, "names": len(filters["names"])} if "names" in filters else filters


def _named(fields: Fields) -> Fields:
    """Remove the fields of the rollout itself from the fields of its verb, and return them."""
    return {name: fields.pop(name) for name in ("uuid", "description") if name in fields}


def _check_new(context: RequestContext, uuid: str) -> None:
    """Refuse a repeated request before its nodes are chosen again. Raises AlreadyExists."""
    with context.runtime.reading() as session:
        if session.scalar(select(Rollout.id).where(Rollout.uuid == uuid)) is not None:
            raise AlreadyExists("rollout", "uuid", uuid)


def _check(context: RequestContext, target: str, filters: Fields, arguments: Fields) -> None:
    """
    Check the target, its arguments and the filters, as the requests for a node do.

    Raises Invalid, NotAcceptable.
    """
    context.version.check_query("nodes", filters)
    if target in power.TARGETS:
        if unknown_names := [name for name in arguments if name != "timeout"]:
            raise Invalid(f"{unknown_names[0]}: not taken by {target}")
        verb_checks.check_power(context, target, arguments.get("timeout"))
        return
    if target == REFRESH:
        if arguments:
            raise Invalid(f"{next(iter(arguments))}: not taken by {target}")
        return
    if "timeout" in arguments:
        raise Invalid(f"timeout: only taken by {', '.join(power.TARGETS)}")
    context.version.require(versions.VERBS.get(target, versions.MIN), f"target {target}")
    verb_checks.check_arguments(context, target, arguments)


def _plan(
    context: RequestContext, target: str, filters: Fields, strategy: Strategy, arguments: Fields
) -> Plan:
    """
    Choose the nodes that the caller may see, and plan their waves.

    Raises Forbidden, NotFound. Raises Invalid: a name is that of no node that the caller may see.
    """
    denial = context.access.denial(_RULES.get(target, by_body.PROVISIONING), arguments)
    scope = context.access.list_scope("baremetal:node:list")
    names = filters.get("names", ())
    if names:  # a child node that is named takes part, too
        filters = {"include_children": True, **filters}
    query = filtered(context, scope, select(*rollout_plan.columns(strategy)), filters)
    with context.runtime.reading() as session:
        node_query = scope.narrowed(query, Node)
        if names:
            visible_nodes = scope.narrowed(select(*rollout_plan.columns(strategy)), Node)
            ids = rollout_plan.ids_of_names(session, visible_nodes, names)
            node_query = node_query.where(Node.id.in_(ids))
        return rollout_plan.plan(
            session, node_query, target, strategy, denial, arguments, context.caller
        )


@rollouts.declare("GET", "/rollouts/<uuid>", rule="baremetal:rollout:get", returns=WHOLE_ROLLOUT)
def show_rollout(context: RequestContext, uuid: str) -> Response:
    """Show a rollout, and what it waits for"""
    with context.runtime.reading() as session:
        return json(_whole(context, session, _found(session, uuid)))


@rollouts.declare("DELETE", "/rollouts/<uuid>", rule="baremetal:rollout:delete", returns=NO_CONTENT)
def delete_rollout(context: RequestContext, uuid: str) -> Response:
    """Delete a rollout that has ended, and the record of its nodes"""
    return in_transaction(
        context, lambda session: service.remove(session, uuid.lower()), empty(204)
    )


@rollouts.declare(
    "GET",
    "/rollouts/<uuid>/nodes",
    rule="baremetal:rollout:get",
    returns=listed("nodes", ROLLOUT_NODE),
)
@rollouts.arguments(RolloutNodeFilters, location="query")
def list_rollout_nodes(context: RequestContext, query: Query, uuid: str) -> Response:
    """List the nodes of a rollout that the caller may see, in the order of their waves"""
    page = page_of(context, query, "rollout node", sortable=(), by_uuid=False)
    equal = {"state": RolloutNode.state, "wave": RolloutNode.wave, "code": RolloutNode.code}
    statement = equal_to(select(RolloutNode), query, equal)
    scope = context.access.list_scope("baremetal:node:list")
    with context.runtime.reading() as session:
        of_rollout = RolloutNode.rollout_id == _found(session, uuid).id
        statement = statement.where(of_rollout)
        if scope.is_narrow:
            own_nodes = scope.narrowed(select(Node.uuid), Node)
            statement = statement.where(RolloutNode.node_uuid.in_(own_nodes))
        rows = fetch(session, statement, RolloutNode, page, among=of_rollout, identity="id")
        members = [row[0] for row in rows]
    items = [_node_view(context, member) for member in members]
    return page_answer(context, "nodes", items, page, members, marker="id")


@rollouts.declare(
    "PUT", "/rollouts/<uuid>/states", rule="baremetal:rollout:update", returns=WHOLE_ROLLOUT
)
@rollouts.arguments(RolloutRequest)
def change_rollout_state(context: RequestContext, fields: Query, uuid: str) -> Response:
    """Pause, resume or abort a rollout; operations in progress are not interrupted"""
    event = RolloutEvent(fields["target"])
    context.audit.specify(event)

    def work(session: Session) -> Response:
        rollout = service.request(session, uuid.lower(), event, context.caller)
        session.flush()
        session.refresh(rollout)
        return json(_whole(context, session, rollout))

    return in_transaction(context, work)


def _found(session: Session, uuid: str) -> Rollout:
    """Raises NotFound."""
    rollout = session.scalar(select(Rollout).where(Rollout.uuid == uuid.lower()))
    if rollout is None:
        raise NotFound("rollout", uuid)
    return rollout


def _view(context: RequestContext, rollout: Rollout) -> Fields:
    view = {name: getattr(rollout, name) for name in SHOWN}
    view["arguments"], view["pending"] = mask(rollout.arguments), rollout.pending
    return view | {"links": context.links(f"rollouts/{rollout.uuid}")}


def _whole(context: RequestContext, session: Session, rollout: Rollout) -> Fields:
    return {
        **_view(context, rollout),
        "summary": rollout_progress.summary(session, rollout),
        "failures": rollout_progress.failures(session, rollout),
    }


def _node_view(context: RequestContext, member: RolloutNode) -> Fields:
    """View of a node; the error is hidden from callers who must not see the node's."""
    view = {"sequence": member.id, **{name: getattr(member, name) for name in NODE_SHOWN}}
    if "last_error" in context.access.hidden_fields(member.owner, member.lessee):
        view["error"] = None
    return view


def _plan_view(context: RequestContext, target: str, plan: Plan) -> Fields:
    """View of a plan, with the first nodes of both kinds."""
    limit = context.runtime.settings.api.max_limit
    members: Sequence[Any] = plan.members[:limit]
    return {
        "target": target,
        "waves": plan.waves,
        "canary_waves": plan.canary_waves,
        "error_budget": plan.error_budget,
        "included": len(plan.members),
        "excluded": len(plan.excluded),
        "nodes": [
            {
                "node_uuid": member.uuid,
                "node_name": member.name,
                "group": member.group,
                "wave": member.wave,
            }
            for member in members
        ],
        "excluded_nodes": [
            {"node_uuid": node.uuid, "node_name": node.name, "reason": node.reason}
            for node in plan.excluded[:limit]
        ],
    }
