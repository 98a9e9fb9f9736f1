"""Routes of drivers, which are hardware types."""

from collections.abc import Sequence

from flask import Response
from marshmallow import Schema

from app.api.openapi.returns import Returns
from app.api.openapi.shapes import (
    LINKS,
    TEXT,
    Component,
    array,
    exactly,
    map_of,
    one_of,
    or_null,
    subset_of,
    versioned,
)
from app.api.request.context import Query, RequestContext, View
from app.api.request.paging import requested_fields, shape
from app.api.request.routes import Routes
from app.api.transport.responses import json, links
from app.api.values.value_types import CommaSeparated, FieldsQuery, Flag, Text
from app.errors import NotFound
from app.hardware import drivers as service
from app.hardware.drivers import LoadedDriver
from drivers.core.interface_kinds import KINDS

drivers = Routes("drivers", "Hardware types, and the interfaces that they accept")

SHORT = ("name", "hosts", "type", "properties")
FULL = (
    *SHORT,
    *(f"default_{kind}_interface" for kind in KINDS),
    *(f"enabled_{kind}_interfaces" for kind in KINDS),
)

DRIVER = Component("Driver", versioned("driver", subset_of(
    {
        "name": TEXT, "hosts": array(TEXT), "type": one_of(["classic", "dynamic"]),
        "properties": LINKS,
        **{f"default_{kind}_interface": or_null(TEXT) for kind in KINDS},
        **{f"enabled_{kind}_interfaces": array(TEXT) for kind in KINDS},
        "links": LINKS,
    },
    always=["links"],
)))  # fmt: skip


class DriverQuery(Schema):
    type = Text(choices=("classic", "dynamic"))
    detail = Flag()
    fields_ = CommaSeparated(data_key="fields")


def _view(context: RequestContext, driver: LoadedDriver, fields: Sequence[str]) -> View:
    base, path = context.base_url, f"drivers/{driver.name}"
    view: View = {  # in Ironic's order
        "name": driver.name,
        "hosts": driver.hosts,
        "links": links(path, base),
        "properties": links(f"{path}/properties", base),
        "type": "dynamic",
    }
    for kind in KINDS:
        names = driver.interfaces.get(kind, [])
        view[f"default_{kind}_interface"] = names[0] if names else None
        view[f"enabled_{kind}_interfaces"] = sorted(names)
    return {name: value for name, value in view.items() if name in {*fields, "links"}}


@drivers.declare(
    "GET",
    "/drivers",
    query="drivers",
    rule="baremetal:driver:get",
    returns=Returns({200: exactly({"drivers": array(DRIVER)})}, fields=(*FULL, "links")),
)
@drivers.arguments(DriverQuery, location="query")
def list_drivers(context: RequestContext, query: Query) -> Response:
    """List drivers"""
    fields = shape(context, query, "driver", short=SHORT, full=FULL)
    with context.runtime.reading() as session:
        loaded_drivers = service.loaded(session)
    if query.get("type") == "classic":
        loaded_drivers = {}
    return json({"drivers": [_view(context, driver, fields) for driver in loaded_drivers.values()]})


@drivers.declare(
    "GET",
    "/drivers/<name>",
    query="drivers",
    rule="baremetal:driver:get",
    returns=Returns({200: DRIVER}, fields=(*FULL, "links")),
)
@drivers.arguments(FieldsQuery, location="query")
def show_driver(context: RequestContext, query: Query, name: str) -> Response:
    """Show a driver"""
    visible_fields = context.version.visible("driver", FULL if context.version >= 30 else SHORT)
    fields = requested_fields(context, query, "driver", FULL, visible_fields)
    with context.runtime.reading() as session:
        return json(_view(context, service.find(session, name), fields))


@drivers.declare(
    "GET",
    "/drivers/<name>/properties",
    rule="baremetal:driver:get_properties",
    returns=map_of(TEXT),
)
def show_driver_properties(context: RequestContext, name: str) -> Response:
    """Show the properties that a driver reads from a node"""
    with context.runtime.reading() as session:
        service.find(session, name)
    properties = service.properties(context.runtime.drivers, name)
    if not properties and name not in context.runtime.drivers.types:
        raise NotFound("driver", name, service.UNKNOWN)
    return json(properties)


@drivers.declare(
    "GET",
    "/drivers/<name>/raid/logical_disk_properties",
    since=12,
    gone=406,
    rule="baremetal:driver:get_raid_logical_disk_properties",
    returns=map_of(TEXT),
)
def show_logical_disk_properties(context: RequestContext, name: str) -> Response:
    """Show the properties of logical disks in a RAID configuration for a driver"""
    with context.runtime.reading() as session:
        service.find(session, name)
    return json(service.logical_disk_properties(context.runtime.drivers, name))
