"""Routes of /v1/volume: volume connectors and targets."""

from typing import Any

from flask import Response
from marshmallow import Schema

from app.api.node.node_identifiers import id_of
from app.api.openapi.shapes import LINKS, Component, exactly
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Resource
from app.api.resource.subresources import by_node, node_parent
from app.api.schemas.volumes import (
    ConnectorChange,
    ConnectorCreate,
    TargetChange,
    TargetCreate,
    VolumeFilters,
)
from app.api.transport.responses import json, links
from app.inventory import volumes as service
from app.models import Node, VolumeConnector, VolumeTarget

SINCE = 32

volumes = Routes("volume", "Remote volumes of nodes, and the connectors for them", since=SINCE)
CONNECTOR: Resource[VolumeConnector] = Resource(
    name="volume connector",
    path="volume/connectors",
    schema="VolumeConnector",
    model=VolumeConnector,
    short=("uuid", "node_uuid", "type", "connector_id"),
    all_fields=(
        "uuid", "created_at", "updated_at", "connector_id", "extra", "type", "links", "node_uuid",
    ),
    joined={"node_uuid": Node.__table__.c.uuid},
    source=VolumeConnector.__table__.join(Node.__table__),
)  # fmt: skip
TARGET: Resource[VolumeTarget] = Resource(
    name="volume target",
    path="volume/targets",
    schema="VolumeTarget",
    model=VolumeTarget,
    short=("uuid", "node_uuid", "volume_type", "boot_index", "volume_id"),
    all_fields=(
        "uuid", "created_at", "updated_at", "boot_index", "extra", "properties", "volume_id",
        "volume_type", "links", "node_uuid",
    ),
    joined={"node_uuid": Node.__table__.c.uuid},
    source=VolumeTarget.__table__.join(Node.__table__),
    masked={"properties": lambda access, row: access.target_properties(row.properties)},
)  # fmt: skip
#: Document with links to both collections.
OVERVIEW = Component("Volumes", exactly(dict.fromkeys(("connectors", "targets", "links"), LINKS)))


def _overview(context: RequestContext, path: str) -> Response:
    base = context.base_url
    parts = {name: links(f"{path}{name}", base) for name in ("connectors", "targets")}
    return json({"links": links(path, base), **parts})


@volumes.declare("GET", "/volume", returns=OVERVIEW)
def show_volume(context: RequestContext) -> Response:
    """List the collections of volumes"""
    return _overview(context, "volume/")


@volumes.declare("GET", "/nodes/<ident>/volume", rule="baremetal:volume:get", returns=OVERVIEW)
def show_volume_of_node(context: RequestContext, ident: str) -> Response:
    """List the collections of a node's volumes"""
    id_of(context, ident)
    return _overview(context, f"nodes/{ident}/volume/")


def _declare(
    resource: Resource[Any],
    noun: str,
    create: type[Schema],
    change: type[Schema],
) -> None:
    """Declare the routes of connectors or targets, which differ in schemas only."""
    model, narrow = resource.model, by_node(resource.model)
    routes = ResourceRoutes(resource, volumes, noun, f"{noun}s", "baremetal:volume")
    routes.lists(VolumeFilters, narrow)
    routes.lists(VolumeFilters, narrow, parent=node_parent(model, SINCE))
    routes.creates(create, lambda _context, session, fields: service.create(session, model, fields))
    routes.shows()
    routes.changes(change(), without_context(service.change))
    routes.deletes(without_context(service.remove))


_declare(CONNECTOR, "connector", ConnectorCreate, ConnectorChange)
_declare(TARGET, "target", TargetCreate, TargetChange)
