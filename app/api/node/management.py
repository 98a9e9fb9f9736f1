"""Routes of the management of machines: boot device, indicators, sensors, NMI, virtual media."""

from typing import Any

from flask import Response, request

from app.api.node.node_identifiers import change_locked, identified
from app.api.openapi.returns import NO_CONTENT
from app.api.openapi.shapes import (
    BOOLEAN,
    LINKS,
    NUMBER,
    TEXT,
    Component,
    array,
    exactly,
    one_of,
    or_null,
)
from app.api.request import auditing, repeats
from app.api.request.context import Fields, RequestContext
from app.api.request.redaction import concealed_media
from app.api.request.routes import Routes
from app.api.schemas.management import (
    INDICATOR_STATES,
    BootDevice,
    DeviceTypes,
    IndicatorState,
    VirtualMedium,
)
from app.api.transport.host_check import WRITING
from app.api.transport.responses import empty, json
from app.engine import management as service
from app.engine import rpc
from app.errors import Invalid

management = Routes("management", "Boot device, indicators, sensors and virtual media of machines")

DEVICE = "/nodes/<ident>/management/boot_device"
INDICATORS = "/nodes/<ident>/management/indicators"
MEDIA = "/nodes/<ident>/vmedia"
COMPONENTS = ("chassis", "system", "disk", "power", "nic")

KINDS, HEALTH = (
    ("temperature", "fan", "voltage", "power"), ("ok", "warning", "critical", "unknown"),
)  # fmt: skip
SENSOR = Component("Sensor", exactly({
    "name": TEXT, "kind": one_of(KINDS), "reading": or_null(NUMBER), "unit": TEXT,
    "health": one_of(HEALTH),
}))  # fmt: skip
INDICATOR = Component("Indicator", exactly({
    "name": TEXT, "component": one_of(COMPONENTS), "readonly": BOOLEAN,
    "states": array(one_of(INDICATOR_STATES)), "links": LINKS,
}))  # fmt: skip
MEDIUM = exactly({"media_types": array(TEXT), "inserted": BOOLEAN, "image": or_null(TEXT)})


def call_conductor(
    context: RequestContext, ident: str, method_name: str, /, **arguments: object
) -> Any:
    """
    Call a method of the conductor that owns a node; see `app.engine.rpc`.

    A request that is no read is recorded for the audit before.
    """
    identified(context, ident)
    if request.method in WRITING:
        auditing.announce(context)
    return rpc.call(context.runtime, ident, method_name, **arguments)


@management.declare(
    "GET",
    DEVICE,
    rule="baremetal:node:get_boot_device",
    returns=exactly({"boot_device": or_null(TEXT), "persistent": or_null(BOOLEAN)}),
)
def show_boot_device(context: RequestContext, ident: str) -> Response:
    """Show the boot device of a machine"""
    return json(call_conductor(context, ident, "get_boot_device"))


@management.declare(
    "PUT",
    DEVICE,
    rule="baremetal:node:set_boot_device",
    returns=NO_CONTENT,
    no_key=repeats.CALLS,
)
@management.arguments(BootDevice, location="json_or_query")
def set_boot_device(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Set the boot device of a machine"""
    persistent = bool(fields["persistent"])
    call_conductor(
        context, ident, "set_boot_device", device=fields["boot_device"], persistent=persistent
    )
    return empty(204)


@management.declare(
    "GET",
    f"{DEVICE}/supported",
    rule="baremetal:node:get_boot_device",
    returns=exactly({"supported_boot_devices": array(TEXT)}),
)
def list_boot_devices(context: RequestContext, ident: str) -> Response:
    """List the boot devices that a machine supports"""
    return json(
        {"supported_boot_devices": call_conductor(context, ident, "supported_boot_devices")}
    )


@management.declare(
    "PUT",
    "/nodes/<ident>/management/inject_nmi",
    since=29,
    rule="baremetal:node:inject_nmi",
    returns=NO_CONTENT,
    no_key=repeats.CALLS,
    any_query=True,
)
def inject_nmi(context: RequestContext, ident: str) -> Response:
    """Send a non-maskable interrupt to a machine; its operating system may write a dump"""
    call_conductor(context, ident, "inject_nmi")
    return empty(204)


@management.declare(
    "GET",
    INDICATORS,
    rule="baremetal:node:get_indicator_state",
    returns=exactly({"indicators": array(INDICATOR)}),
)
def list_indicators(context: RequestContext, ident: str) -> Response:
    """List the indicators of a machine"""
    documents = []
    for indicator in call_conductor(context, ident, "indicators"):
        name = f"{indicator['name']}@{indicator['component']}"
        path = f"nodes/{ident}/management/indicators/{name}"
        documents.append({**indicator, "name": name, "links": context.links(path)})
    return json({"indicators": documents})


@management.declare(
    "GET",
    f"{INDICATORS}/<indicator>",
    rule="baremetal:node:get_indicator_state",
    returns=exactly({"state": one_of(INDICATOR_STATES)}),
)
def show_indicator(context: RequestContext, ident: str, indicator: str) -> Response:
    """Show the state of an indicator"""
    return json({"state": call_conductor(context, ident, "get_indicator", **_parsed(indicator))})


@management.declare(
    "PUT",
    f"{INDICATORS}/<indicator>",
    rule="baremetal:node:set_indicator_state",
    returns=NO_CONTENT,
    no_key=repeats.CALLS,
)
@management.arguments(IndicatorState, location="json_or_query")
def set_indicator(context: RequestContext, fields: Fields, ident: str, indicator: str) -> Response:
    """Set the state of an indicator"""
    call_conductor(context, ident, "set_indicator", **_parsed(indicator), state=fields["state"])
    return empty(204)


@management.declare(
    "GET",
    "/nodes/<ident>/management/sensors",
    rule="baremetal:node:get_sensors",
    returns=exactly({"sensors": array(SENSOR)}),
)
def list_sensors(context: RequestContext, ident: str) -> Response:
    """
    Read the sensors of a machine: temperatures, fans, voltages, power

    An addition to Ironic's API.
    """
    return json({"sensors": call_conductor(context, ident, "sensors")})


def _parsed(indicator: str) -> Fields:
    """
    Split `name@component`.

    Raises Invalid.
    """
    name, separator, component = indicator.rpartition("@")
    if not (name and separator) or component not in COMPONENTS:
        raise Invalid(
            f"Malformed indicator name {indicator!r}: expected name@component, the component one of"
            f" {', '.join(COMPONENTS)}"
        )
    return {"component": component, "name": name}


@management.declare("GET", MEDIA, since=93, rule="baremetal:node:vmedia:get", returns=array(MEDIUM))
def list_virtual_media(context: RequestContext, ident: str) -> Response:
    """List the virtual media of a machine"""
    return json(concealed_media(context, call_conductor(context, ident, "virtual_media"), ident))


@management.declare(
    "POST", MEDIA, since=89, rule="baremetal:node:vmedia:attach", returns=NO_CONTENT
)
@management.arguments(VirtualMedium)
def attach_virtual_media(context: RequestContext, fields: Fields, ident: str) -> Response:
    """Attach an image to a machine as virtual media"""
    return change_locked(
        context,
        ident,
        empty(204),
        service.attach_virtual_media,
        fields["device_type"],
        fields["image_url"],
        context.caller,
    )


@management.declare(
    "DELETE", MEDIA, since=89, rule="baremetal:node:vmedia:detach", returns=NO_CONTENT
)
@management.arguments(DeviceTypes, location="query")
def detach_virtual_media(context: RequestContext, query: Fields, ident: str) -> Response:
    """Detach virtual media from a machine"""
    kinds = query.get("device_types") or service.DEVICE_TYPES
    return change_locked(
        context, ident, empty(204), service.detach_virtual_media, kinds, context.caller
    )
