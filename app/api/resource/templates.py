"""Routes of /v1/deploy_templates."""

from sqlalchemy.orm import Session

from app.api.request.routes import Routes
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Resource
from app.api.schemas.templates import TemplateChange, TemplateCreate
from app.api.values.value_types import ListQuery
from app.inventory import templates as service
from app.models import DeployTemplate
from app.rows import row_changes
from app.text.masking import mask

SINCE = 55

templates = Routes(
    "deploy_templates",
    "Deploy templates: deploy steps for a trait that an instance requires",
    since=SINCE,
)
TEMPLATE = Resource(
    name="deploy template",
    path="deploy_templates",
    schema="DeployTemplate",
    model=DeployTemplate,
    short=("uuid", "name"),
    all_fields=(
        "uuid", "created_at", "updated_at", "name", "extra", "description", "links", "steps",
    ),
    masked={"steps": lambda _access, row: mask(row.steps)},
    names_since=SINCE,
)  # fmt: skip


ROUTES = ResourceRoutes(
    TEMPLATE, templates, "template", "templates", "baremetal:deploy_template", gone=405
)
ROUTES.lists(ListQuery, rule="get")
ROUTES.creates(TemplateCreate, without_context(service.create))
ROUTES.shows()
ROUTES.changes(TemplateChange(), without_context(row_changes.change))
ROUTES.deletes(without_context(Session.delete))
