"""Routes of refreshes of nodes: an addition to Ironic's API."""

from flask import Response

from app.api.node.node_identifiers import change_locked, node_of
from app.api.openapi.returns import STARTED
from app.api.openapi.shapes import (
    DOCUMENT,
    INTEGER,
    TEXT,
    TIME,
    UUID,
    array,
    exactly,
    map_of,
    one_of,
    or_null,
)
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import empty, json
from app.engine import refreshes as service
from app.inventory import hardware_inventory
from app.models import NodeInventory, PartState

refreshes = Routes("refreshes", "Refreshes: recorded facts of machines, read again by their BMCs")

PATH = "/nodes/<ident>/refresh"
RESULTS = exactly({
    "operation_uuid": UUID, "read_at": TIME,
    "parts": map_of(exactly({"state": one_of(PartState), "reason": or_null(TEXT)})),
    "changed": INTEGER,
    "changes": array(exactly({"fact": TEXT, "before": or_null(TEXT), "after": or_null(TEXT)})),
    "inventory": or_null(DOCUMENT),
})  # fmt: skip


@refreshes.declare("POST", PATH, rule="baremetal:node:refresh", returns=STARTED)
def refresh_node(context: RequestContext, ident: str) -> Response:
    """
    Read BIOS settings, firmware versions and the inventory of a machine again, by its BMC

    Nothing but their record is changed, in any stable state of the node.
    """
    answer = empty(202, location=f"{context.base_url}/v1/nodes/{ident}/refresh")
    return change_locked(context, ident, answer, service.request, context.caller)


@refreshes.declare("GET", PATH, rule="baremetal:node:refresh:get", returns=RESULTS)
def show_refresh(context: RequestContext, ident: str) -> Response:
    """
    Show what the last refresh of a node has found

    changed: number of the changed facts, of which `changes` has the first 200. inventory: as the
    BMC has shown it last; null if it never has.
    """
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        row = service.find(session, node)
        inventory = hardware_inventory.of_bmc(session.get(NodeInventory, node.id))
    names = ("operation_uuid", "read_at", "parts", "changed", "changes")
    return json({name: getattr(row, name) for name in names} | {"inventory": inventory})
