"""Inspection rules."""

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response
from sqlalchemy import Row
from sqlalchemy.orm import Session

from app.api.answers import empty, runtime
from app.api.resources import Resource
from app.api.routes import Routes
from app.api.schemas.common import FieldsQuery, NoQuery
from app.api.schemas.inspection import RuleChange, RuleCreate, RulesQuery
from app.models import InspectionRule
from app.services import inspection_rules as service
from app.services.nodes import when_free

inspection_rules = Routes("inspection_rules", "What to do with nodes that are inspected")

Query = Mapping[str, Any]

SINCE = 96
_COLUMNS = InspectionRule.__table__.c


def _shown(name: str) -> Callable[[Row[Any], str], Any]:
    """Conditions or actions, but not those of a sensitive rule."""
    return lambda row, _base: None if row.sensitive else row._mapping[name]


RULE = Resource(
    name="inspection rule",
    path="inspection_rules",
    model=InspectionRule,
    short=("uuid", "priority", "phase", "description"),
    shown=(
        "uuid", "created_at", "updated_at", "description", "priority", "sensitive", "phase",
        "conditions", "actions", "links",
    ),
    computed={"conditions": _shown("conditions"), "actions": _shown("actions")},
    sources={name: (name, "sensitive") for name in ("conditions", "actions")},
)  # fmt: skip
CHANGE = RuleChange()


@inspection_rules.at(
    "GET", "/inspection_rules", since=SINCE, rule="baremetal:inspection_rule:list_all"
)
@inspection_rules.arguments(RulesQuery, location="query")
def list_inspection_rules(query: Query) -> Response:
    """List inspection rules"""
    phase = query.get("phase")
    return RULE.listing(
        query,
        lambda selected: selected if phase is None else selected.where(_COLUMNS.phase == phase),
    )


@inspection_rules.at(
    "POST", "/inspection_rules", since=SINCE, gone=405, rule="baremetal:inspection_rule:create"
)
@inspection_rules.arguments(RuleCreate)
def create_inspection_rule(fields: dict[str, Any]) -> Response:
    """Create an inspection rule"""
    return RULE.create(lambda session: service.create(session, fields))


@inspection_rules.at(
    "DELETE", "/inspection_rules", since=SINCE, gone=405, rule="baremetal:inspection_rule:delete"
)
@inspection_rules.arguments(NoQuery, location="query")
def delete_inspection_rules(_query: Query) -> Response:
    """Forget all inspection rules but those that are built in"""
    when_free(runtime(), service.remove_all)
    return empty(204)


@inspection_rules.at(
    "GET", "/inspection_rules/<ident>", since=SINCE, rule="baremetal:inspection_rule:get"
)
@inspection_rules.arguments(FieldsQuery, location="query")
def show_inspection_rule(query: Query, ident: str) -> Response:
    """Show an inspection rule"""
    return RULE.show(query, ident)


@inspection_rules.at(
    "PATCH",
    "/inspection_rules/<ident>",
    since=SINCE,
    gone=405,
    rule="baremetal:inspection_rule:update",
)
@inspection_rules.arguments(NoQuery, location="query")
def change_inspection_rule(_query: Query, ident: str) -> Response:
    """Change an inspection rule by a JSON patch"""
    return RULE.change(ident, CHANGE, service.change)


@inspection_rules.at(
    "DELETE",
    "/inspection_rules/<ident>",
    since=SINCE,
    gone=405,
    rule="baremetal:inspection_rule:delete",
)
@inspection_rules.arguments(NoQuery, location="query")
def delete_inspection_rule(_query: Query, ident: str) -> Response:
    """Forget an inspection rule"""
    return RULE.delete(ident, Session.delete)
