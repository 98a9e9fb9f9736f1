"""Routes of inspection rules."""

from flask import Response
from sqlalchemy.orm import Session

from app.api.openapi.returns import NO_CONTENT
from app.api.openapi.shapes import DOCUMENT, array, or_null
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.resource.resource_routes import ResourceRoutes, by_value, without_context
from app.api.resource.resources import Resource
from app.api.schemas.inspection import RuleChange, RuleCreate, RulesQuery
from app.api.transport.responses import empty
from app.inventory import inspection_rules as service
from app.models import InspectionRule

inspection_rules = Routes(
    "inspection_rules", "Rules applied to the results of inspections", since=96
)

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
    masked={
        "conditions": lambda _access, row: None if row.sensitive else row.conditions,
        "actions": lambda _access, row: None if row.sensitive else row.actions,
    },
    masked_by=("sensitive",),
    shapes={name: or_null(array(DOCUMENT)) for name in ("conditions", "actions")},
)  # fmt: skip


ROUTES = ResourceRoutes(
    RULE,
    inspection_rules,
    "inspection_rule",
    "inspection_rules",
    "baremetal:inspection_rule",
    gone=405,
)
ROUTES.lists(RulesQuery, by_value(InspectionRule.phase), rule="list_all")
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
