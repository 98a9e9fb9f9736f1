"""Routes of /v1/deploy_templates."""

from sqlalchemy.orm import Session

from app.api.resource_routes import ResourceRoutes
from app.api.resources import Resource
from app.api.routes import Routes
from app.api.schemas.common import ListQuery
from app.api.schemas.templates import TemplateChange, TemplateCreate
from app.inventory import templates as service
from app.models import DeployTemplate
from app.rows import row_changes
from app.text.masking import mask

templates = Routes(
    "deploy_templates", "Deploy templates: deploy steps for a trait that an instance requires"
)

SINCE = 55
TEMPLATE = Resource(
    name="deploy template",
    path="deploy_templates",
    schema="DeployTemplate",
    model=DeployTemplate,
    short=("uuid", "name"),
    shown=(
        "uuid", "created_at", "updated_at", "name", "extra", "description", "links", "steps",
    ),
    masked={"steps": mask},
    named=SINCE,
)  # fmt: skip


ROUTES = ResourceRoutes(
    TEMPLATE,
    templates,
    "template",
    "templates",
    "baremetal:deploy_template",
    since=SINCE,
    gone=405,
)
ROUTES.lists(ListQuery, rule="get")
ROUTES.creates(TemplateCreate, service.create)
ROUTES.shows()
ROUTES.changes(TemplateChange(), row_changes.change)
ROUTES.deletes(Session.delete)
