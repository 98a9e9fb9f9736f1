"""Volume connectors and targets."""

from collections.abc import Mapping
from typing import Any

from flask import Response
from sqlalchemy import Select

from app.api.answers import host, json, links
from app.api.node_identifiers import id_of
from app.api.parts import filtered
from app.api.policy import enforce
from app.api.resources import Resource
from app.api.routes import Routes
from app.api.schemas.common import FieldsQuery, NoQuery
from app.api.schemas.volumes import (
    ConnectorChange,
    ConnectorCreate,
    TargetChange,
    TargetCreate,
    VolumeFilters,
)
from app.models import Node, VolumeConnector, VolumeTarget
from app.services import volumes as service

volumes = Routes("volume", "Remote storage that nodes boot from or use")

Query = Mapping[str, Any]

SINCE = 32
CONNECTOR: Resource[VolumeConnector] = Resource(
    name="volume connector",
    path="volume/connectors",
    model=VolumeConnector,
    short=("uuid", "node_uuid", "type", "connector_id"),
    shown=(
        "uuid", "created_at", "updated_at", "connector_id", "extra", "type", "links", "node_uuid",
    ),
    joined={"node_uuid": Node.__table__.c.uuid},
    source=lambda: VolumeConnector.__table__.join(Node.__table__),
)  # fmt: skip
TARGET: Resource[VolumeTarget] = Resource(
    name="volume target",
    path="volume/targets",
    model=VolumeTarget,
    short=("uuid", "node_uuid", "volume_type", "boot_index", "volume_id"),
    shown=(
        "uuid", "created_at", "updated_at", "boot_index", "extra", "properties", "volume_id",
        "volume_type", "links", "node_uuid",
    ),
    joined={"node_uuid": Node.__table__.c.uuid},
    source=lambda: VolumeTarget.__table__.join(Node.__table__),
    masked={"properties": enforce.target_properties},
)  # fmt: skip
CONNECTOR_CHANGE = ConnectorChange()
TARGET_CHANGE = TargetChange()


def _overview(path: str) -> Response:
    base = host()
    parts = {name: links(f"{path}{name}", base) for name in ("connectors", "targets")}
    return json({"links": links(path, base), **parts})


def _list(resource: Resource[Any], query: Query, ident: str | None = None) -> Response:
    """The rows that a query leaves, of one node or of all."""
    node_id = None if ident is None else id_of(ident)

    def narrow(selected: Select[Any]) -> Select[Any]:
        selected = filtered(selected, query, resource.model)
        if node_id is not None:
            selected = selected.where(resource.model.__table__.c.node_id == node_id)
        return selected

    return resource.listing(query, narrow)


@volumes.at("GET", "/volume", since=SINCE)
@volumes.arguments(NoQuery, location="query")
def show_volume(_query: Query) -> Response:
    """Which collections there are of volumes"""
    return _overview("volume/")


@volumes.at("GET", "/nodes/<ident>/volume", since=SINCE, rule="baremetal:volume:get")
@volumes.arguments(NoQuery, location="query")
def show_volume_of_node(_query: Query, ident: str) -> Response:
    """Which collections there are of a node's volumes"""
    id_of(ident)
    return _overview(f"nodes/{ident}/volume/")


@volumes.at("GET", "/volume/connectors", since=SINCE, rule="baremetal:volume:list")
@volumes.arguments(VolumeFilters, location="query")
def list_connectors(query: Query) -> Response:
    """List volume connectors"""
    return _list(CONNECTOR, query)


@volumes.at("GET", "/nodes/<ident>/volume/connectors", since=SINCE, rule="baremetal:volume:list")
@volumes.arguments(VolumeFilters, location="query")
def list_connectors_of_node(query: Query, ident: str) -> Response:
    """List the volume connectors of a node"""
    return _list(CONNECTOR, query, ident)


@volumes.at("POST", "/volume/connectors", since=SINCE, rule="baremetal:volume:create")
@volumes.arguments(ConnectorCreate)
def create_connector(fields: dict[str, Any]) -> Response:
    """Create a volume connector"""
    return CONNECTOR.create(lambda session: service.create(session, VolumeConnector, fields))


@volumes.at("GET", "/volume/connectors/<uuid>", since=SINCE, rule="baremetal:volume:get")
@volumes.arguments(FieldsQuery, location="query")
def show_connector(query: Query, uuid: str) -> Response:
    """Show a volume connector"""
    return CONNECTOR.show(query, uuid)


@volumes.at("PATCH", "/volume/connectors/<uuid>", since=SINCE, rule="baremetal:volume:update")
@volumes.arguments(NoQuery, location="query")
def change_connector(_query: Query, uuid: str) -> Response:
    """Change a volume connector by a JSON patch"""
    return CONNECTOR.change(uuid, CONNECTOR_CHANGE, service.change)


@volumes.at("DELETE", "/volume/connectors/<uuid>", since=SINCE, rule="baremetal:volume:delete")
@volumes.arguments(NoQuery, location="query")
def delete_connector(_query: Query, uuid: str) -> Response:
    """Forget a volume connector"""
    return CONNECTOR.delete(uuid, service.remove)


@volumes.at("GET", "/volume/targets", since=SINCE, rule="baremetal:volume:list")
@volumes.arguments(VolumeFilters, location="query")
def list_targets(query: Query) -> Response:
    """List volume targets"""
    return _list(TARGET, query)


@volumes.at("GET", "/nodes/<ident>/volume/targets", since=SINCE, rule="baremetal:volume:list")
@volumes.arguments(VolumeFilters, location="query")
def list_targets_of_node(query: Query, ident: str) -> Response:
    """List the volume targets of a node"""
    return _list(TARGET, query, ident)


@volumes.at("POST", "/volume/targets", since=SINCE, rule="baremetal:volume:create")
@volumes.arguments(TargetCreate)
def create_target(fields: dict[str, Any]) -> Response:
    """Create a volume target"""
    return TARGET.create(lambda session: service.create(session, VolumeTarget, fields))


@volumes.at("GET", "/volume/targets/<uuid>", since=SINCE, rule="baremetal:volume:get")
@volumes.arguments(FieldsQuery, location="query")
def show_target(query: Query, uuid: str) -> Response:
    """Show a volume target"""
    return TARGET.show(query, uuid)


@volumes.at("PATCH", "/volume/targets/<uuid>", since=SINCE, rule="baremetal:volume:update")
@volumes.arguments(NoQuery, location="query")
def change_target(_query: Query, uuid: str) -> Response:
    """Change a volume target by a JSON patch"""
    return TARGET.change(uuid, TARGET_CHANGE, service.change)


@volumes.at("DELETE", "/volume/targets/<uuid>", since=SINCE, rule="baremetal:volume:delete")
@volumes.arguments(NoQuery, location="query")
def delete_target(_query: Query, uuid: str) -> Response:
    """Forget a volume target"""
    return TARGET.delete(uuid, service.remove)


volumes.closed("/nodes/<ident>/volume/connectors", SINCE)
volumes.closed("/nodes/<ident>/volume/targets", SINCE)
