"""Routes of the switch ports of a node: compare them with the orders, and restore them."""

from typing import Any

from flask import Response

from app.api.node.management import call_conductor
from app.api.openapi.shapes import BOOLEAN, TEXT, array, exactly, or_null
from app.api.request import repeats
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.schemas.networks import SwitchPortsQuery
from app.api.transport.responses import json

switch_ports = Routes("switch_ports", "Switch ports of nodes, without Neutron")

PATH = "/nodes/<ident>/switch_ports"
PORTS = exactly({"switch_ports": array(exactly({
    "port_uuid": TEXT, "switch": TEXT, "port_id": TEXT, "ordered": or_null(TEXT), "actual": TEXT,
    "agrees": BOOLEAN, "commands": array(TEXT),
}))})  # fmt: skip


@switch_ports.declare("GET", PATH, rule="baremetal:node:switch_ports:get", returns=PORTS)
@switch_ports.arguments(SwitchPortsQuery, location="query")
def show_switch_ports(context: RequestContext, query: Any, ident: str) -> Response:
    """
    Compare the switch ports of a node with the last orders for them

    An addition to Ironic's API. The switches are read now, and nothing is changed. `commands`:
    those that would give a port what was ordered; with `network`, those for that network.
    """
    ports = call_conductor(context, ident, "inspect_switch_ports", network=query.get("network"))
    return json({"switch_ports": ports})


@switch_ports.declare(
    "POST",
    f"{PATH}/restore",
    rule="baremetal:node:switch_ports:restore",
    returns=exactly({"restored": array(TEXT)}),
    no_key=repeats.CALLS,
)
def restore_switch_ports(context: RequestContext, ident: str) -> Response:
    """
    Give the switch ports of a node the last orders for them again

    An addition to Ironic's API. Answers when the switches have been read back.
    """
    return json({"restored": call_conductor(context, ident, "restore_switch_ports")})
