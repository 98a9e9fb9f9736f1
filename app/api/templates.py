"""Deploy templates."""

from collections.abc import Mapping
from typing import Any

from flask import Response
from sqlalchemy.orm import Session

from app.api.masking import mask
from app.api.resources import Resource
from app.api.routes import Routes
from app.api.schemas.common import FieldsQuery, ListQuery, NoQuery
from app.api.schemas.templates import TemplateChange, TemplateCreate
from app.models import DeployTemplate
from app.services import rows
from app.services import templates as service

templates = Routes("deploy_templates", "Steps of the deployments that ask for a trait")

Query = Mapping[str, Any]

SINCE = 55
TEMPLATE = Resource(
    name="deploy template",
    path="deploy_templates",
    model=DeployTemplate,
    short=("uuid", "name"),
    shown=(
        "uuid", "created_at", "updated_at", "name", "extra", "description", "links", "steps",
    ),
    masked={"steps": mask},
    named=SINCE,
)  # fmt: skip
CHANGE = TemplateChange()


@templates.at("GET", "/deploy_templates", since=SINCE, rule="baremetal:deploy_template:get")
@templates.arguments(ListQuery, location="query")
def list_templates(query: Query) -> Response:
    """List deploy templates"""
    return TEMPLATE.listing(query)


@templates.at(
    "POST", "/deploy_templates", since=SINCE, gone=405, rule="baremetal:deploy_template:create"
)
@templates.arguments(TemplateCreate)
def create_template(fields: dict[str, Any]) -> Response:
    """Create a deploy template"""
    return TEMPLATE.create(lambda session: service.create(session, fields))


@templates.at("GET", "/deploy_templates/<ident>", since=SINCE, rule="baremetal:deploy_template:get")
@templates.arguments(FieldsQuery, location="query")
def show_template(query: Query, ident: str) -> Response:
    """Show a deploy template"""
    return TEMPLATE.show(query, ident)


@templates.at(
    "PATCH",
    "/deploy_templates/<ident>",
    since=SINCE,
    gone=405,
    rule="baremetal:deploy_template:update",
)
@templates.arguments(NoQuery, location="query")
def change_template(_query: Query, ident: str) -> Response:
    """Change a deploy template by a JSON patch"""
    return TEMPLATE.change(ident, CHANGE, rows.change)


@templates.at(
    "DELETE",
    "/deploy_templates/<ident>",
    since=SINCE,
    gone=405,
    rule="baremetal:deploy_template:delete",
)
@templates.arguments(NoQuery, location="query")
def delete_template(_query: Query, ident: str) -> Response:
    """Forget a deploy template"""
    return TEMPLATE.delete(ident, Session.delete)
