"""
Routes of recorded hardware facts: BIOS settings, firmware, inventory, sensors. No BMC is contacted.
"""

from collections.abc import Sequence

from flask import Response
from sqlalchemy import select

from app.api.node.management import HEALTH, SENSOR
from app.api.node.node_identifiers import node_of
from app.api.openapi.shapes import (
    DOCUMENT,
    LINKS,
    NUMBER,
    TEXT,
    TIME,
    Component,
    array,
    column_shapes,
    exactly,
    map_of,
    one_of,
    or_null,
    subset_of,
    versioned,
)
from app.api.request.context import Query, RequestContext, View
from app.api.request.paging import checked_fields
from app.api.request.routes import Routes
from app.api.schemas.management import SettingsQuery
from app.api.transport.responses import json, links
from app.api.values.value_types import FieldsQuery
from app.errors import Invalid, NotAcceptable, NotFound
from app.inventory import hardware_inventory as inventory_service
from app.inventory import sensors as sensor_service
from app.models import BiosSetting, FirmwareComponent, Node

hardware = Routes("hardware", "BIOS settings, firmware, inventory and sensors of machines")

BIOS = "/nodes/<ident>/bios"
TIMES = ("created_at", "updated_at")
SETTING = ("name", "value")
REGISTRY = (
    "attribute_type", "allowable_values", "lower_bound", "max_length", "min_length", "read_only",
    "reset_required", "unique", "upper_bound",
)  # fmt: skip
REGISTRY_SINCE = 74
COMPONENT = (
    "component", "initial_version", "current_version", "last_version_flashed", *TIMES,
    "vendor", "model", "serial_number",
)  # fmt: skip

BIOS_SETTING = Component("BiosSetting", subset_of(
    {**column_shapes(BiosSetting, (*SETTING, *TIMES, *REGISTRY)), "links": LINKS}
))  # fmt: skip
FIRMWARE = Component(
    "Firmware", versioned("firmware", subset_of(column_shapes(FirmwareComponent, COMPONENT)))
)
SENSORS = exactly({
    "read_at": or_null(TIME), "error": or_null(TEXT), "health": one_of(HEALTH),
    "sensors": array(SENSOR),
    "history": exactly({"times": array(TIME), "values": map_of(array(or_null(NUMBER)))}),
})  # fmt: skip


@hardware.declare(
    "GET",
    BIOS,
    since=40,
    rule="baremetal:node:bios:get",
    returns=exactly({"bios": array(BIOS_SETTING)}),
)
@hardware.arguments(SettingsQuery, location="query")
def list_bios_settings(context: RequestContext, query: Query, ident: str) -> Response:
    """List the BIOS settings of a machine"""
    fields, detail = query.get("fields_"), query.get("detail")
    if "fields_" in query or "detail" in query:
        context.version.require(REGISTRY_SINCE, "parameter fields or detail")
    if fields is not None and detail:
        raise Invalid("Can not specify ?detail=True and fields in the same request.")
    requested_fields: Sequence[str] = (*TIMES, *SETTING, *(REGISTRY if detail else ()))
    if fields is not None:
        requested_fields = (
            *TIMES,
            *checked_fields(context, fields, "bios", (*SETTING, *REGISTRY, *TIMES)),
        )
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        rows = session.scalars(
            select(BiosSetting).where(BiosSetting.node_id == node.id).order_by(BiosSetting.name)
        ).all()
    return json({"bios": [_setting(context, node, row, requested_fields) for row in rows]})


@hardware.declare(
    "GET", f"{BIOS}/<name>", since=40, rule="baremetal:node:bios:get", returns=map_of(BIOS_SETTING)
)
def show_bios_setting(context: RequestContext, ident: str, name: str) -> Response:
    """Show a BIOS setting of a machine"""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        row = session.get(BiosSetting, (node.id, name))
    if row is None:
        raise NotFound(
            "BIOS setting", name, f"Node {node.uuid} doesn't have a BIOS setting '{{ident}}'"
        )
    registry = REGISTRY if context.version >= REGISTRY_SINCE else ()
    return json({name: _setting(context, node, row, (*TIMES, *SETTING, *registry))})


def _setting(
    context: RequestContext, node: Node, row: BiosSetting, requested_fields: Sequence[str]
) -> View:
    view = {name: getattr(row, name) for name in requested_fields if name != "links"}
    return view | {"links": links(f"nodes/{node.uuid}/bios/{row.name}", context.base_url)}


@hardware.declare(
    "GET",
    "/nodes/<ident>/firmware",
    since=86,
    rule="baremetal:node:firmware:get",
    returns=exactly({"firmware": array(FIRMWARE)}),
)
@hardware.arguments(FieldsQuery, location="query")
def list_firmware(context: RequestContext, query: Query, ident: str) -> Response:
    """List the firmware of a machine"""
    requested_fields: Sequence[str] = context.version.visible("firmware", COMPONENT)
    if "fields_" in query:
        try:
            requested_fields = checked_fields(context, query["fields_"], "firmware", COMPONENT)
        except NotAcceptable as error:  # Ironic answers 400 here
            raise Invalid(str(error)) from error
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        rows = session.scalars(
            select(FirmwareComponent)
            .where(FirmwareComponent.node_id == node.id)
            .order_by(FirmwareComponent.component)
        ).all()
    components = [{name: getattr(row, name) for name in requested_fields} for row in rows]
    return json({"firmware": components})


@hardware.declare(
    "GET",
    "/nodes/<ident>/inventory",
    since=81,
    rule="baremetal:node:inventory:get",
    returns=exactly({"inventory": DOCUMENT, "plugin_data": DOCUMENT}),
)
def show_inventory(context: RequestContext, ident: str) -> Response:
    """Show the inventory of a machine from its last inspection"""
    with context.runtime.reading() as session:
        inventory = inventory_service.find(session, node_of(context, session, ident))
        return json({"inventory": inventory.inventory, "plugin_data": inventory.plugin_data})


@hardware.declare(
    "GET", "/nodes/<ident>/sensors", rule="baremetal:node:get_sensors", returns=SENSORS
)
def show_sensors(context: RequestContext, ident: str) -> Response:
    """
    Show the last readings of a machine's sensors, and those before

    An addition to Ironic's API. read_at: null if the sensors were never read, as
    `[sensor_data]send_sensor_data` is off. error: of the last read, if that failed. health: the
    worst one. history: numbers of each sensor, one for each of the times.
    """
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        readings = sensor_service.of_node(session, node.id, with_history=True)
    return json(
        {
            "read_at": readings.read_at,
            "error": readings.error,
            "health": readings.health,
            "sensors": readings.readings,
            "history": {"times": [], "values": {}, **(readings.history or {})},
        }
    )
