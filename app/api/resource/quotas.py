"""Routes of /v1/quotas: how many nodes a project may lease. An addition to Ironic's API."""

from app.api.openapi.shapes import INTEGER
from app.api.request.routes import Routes
from app.api.resource.resource_routes import ResourceRoutes, by_value, without_context
from app.api.resource.resources import Resource
from app.api.schemas.quotas import QuotaChange, QuotaCreate, QuotasQuery
from app.inventory import quotas as service
from app.models import Quota
from app.rows import row_changes

quotas = Routes("quotas", "Quotas: how many nodes a project may lease")

QUOTA = Resource(
    name="quota",
    path="quotas",
    schema="Quota",
    model=Quota,
    short=("uuid", "project", "node_limit", "leased_nodes"),
    all_fields=(
        "uuid", "created_at", "updated_at", "project", "node_limit", "leased_nodes", "links",
    ),
    joined={"leased_nodes": service.leased_nodes(Quota.project).correlate(Quota)},
    shapes={"leased_nodes": INTEGER},
)  # fmt: skip


ROUTES = ResourceRoutes(QUOTA, quotas, "quota", "quotas", "baremetal:quota")
ROUTES.lists(QuotasQuery, by_value(Quota.project))
ROUTES.creates(QuotaCreate, without_context(service.create))
ROUTES.shows()
ROUTES.changes(QuotaChange(), without_context(row_changes.change))
ROUTES.deletes(lambda _context, session, quota: session.delete(quota))
