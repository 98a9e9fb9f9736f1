"""Routes of inspection rules."""

from collections.abc import Callable
from typing import Any

from flask import Response
from sqlalchemy import Row, Select
from sqlalchemy.orm import Session

from app.api.openapi.returns import NO_CONTENT
from app.api.openapi.shapes import DOCUMENT, array, or_null
from app.api.request.context import Query, RequestContext
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Resource
from app.api.schemas.inspection import RuleChange, RuleCreate, RulesQuery
from app.api.transport.responses import empty
from app.inventory import inspection_rules as service
from app.models import InspectionRule

inspection_rules = Routes(
    "inspection_rules", "Rules applied to the results of inspections", since=96
)

_COLUMNS = InspectionRule.__table__.c


def _unless_sensitive(name: str) -> Callable[[Row[object], str], object]:
    """Show the conditions or actions of a rule; null if the rule is sensitive."""
    return lambda row, _base: None if row.sensitive else row._mapping[name]


RULE = Resource(
    name="inspection rule",
    path="inspection_rules",
    schema="InspectionRule",
    model=InspectionRule,
    short=("uuid", "priority", "phase", "description"),
    all_fields=(
        "uuid", "created_at", "updated_at", "description", "priority", "sensitive", "phase",
        "conditions", "actions", "links",
    ),
    computed={name: _unless_sensitive(name) for name in ("conditions", "actions")},
    sources={name: (name, "sensitive") for name in ("conditions", "actions")},
    shapes={name: or_null(array(DOCUMENT)) for name in ("conditions", "actions")},
)  # fmt: skip


def _narrow(_context: RequestContext, statement: Select[Any], query: Query) -> Select[Any]:
    phase = query.get("phase")
    return statement if phase is None else statement.where(_COLUMNS.phase == phase)


ROUTES = ResourceRoutes(
    RULE,
    inspection_rules,
    "inspection_rule",
    "inspection_rules",
    "baremetal:inspection_rule",
    gone=405,
)
ROUTES.lists(RulesQuery, _narrow, rule="list_all")
ROUTES.creates(RuleCreate, without_context(service.create))


@inspection_rules.declare(
    "DELETE",
    "/inspection_rules",
    gone=405,
    rule="baremetal:inspection_rule:delete",
    returns=NO_CONTENT,
)
def delete_inspection_rules(context: RequestContext) -> Response:
    """Delete all inspection rules except the built-in ones"""
    return in_transaction(context, service.remove_all, empty(204))


ROUTES.shows()
ROUTES.changes(RuleChange(), without_context(service.change))
ROUTES.deletes(without_context(Session.delete))
