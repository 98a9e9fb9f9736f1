"""Routes of VIFs, the virtual network interfaces of nodes."""

from flask import Response
from marshmallow import INCLUDE

from app.api.node.node_identifiers import change_locked, node_of
from app.api.openapi.returns import NO_CONTENT
from app.api.openapi.shapes import TEXT, array, exactly
from app.api.request import auditing, repeats
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.schemas.vifs import Vif
from app.api.transport.responses import empty, json
from app.api.values.value_types import is_ident
from app.engine import vif_calls
from app.errors import Invalid
from app.inventory.connectivity import vifs as service

vifs = Routes("vifs", "Virtual network interfaces of nodes", since=28)

#: The version from which a VIF may name its port or port group.
PLACED_SINCE = 67


@vifs.declare(
    "GET",
    "/nodes/<ident>/vifs",
    rule="baremetal:node:vif:list",
    returns=exactly({"vifs": array(exactly({"id": TEXT}))}),
)
def list_vifs(context: RequestContext, ident: str) -> Response:
    """List the VIFs that are attached to a node"""
    with context.runtime.reading() as session:
        vif_ids = service.attached(session, node_of(context, session, ident))
    return json({"vifs": [{"id": vif} for vif in vif_ids]})


@vifs.declare("POST", "/nodes/<ident>/vifs", rule="baremetal:node:vif:attach", returns=NO_CONTENT)
@vifs.arguments(Vif, unknown=INCLUDE)
def attach_vif(context: RequestContext, vif: dict[str, object], ident: str) -> Response:
    """Attach a VIF to a node"""
    if context.version >= PLACED_SINCE and vif.keys() >= set(service.PLACES):
        raise Invalid("Cannot specify both port_uuid and portgroup_uuid")
    if _is_remote(context, ident):
        project = context.access.vif_project(ident)
        vif_calls.attach(context.runtime, ident, vif, project)
        return empty(204)
    return change_locked(context, ident, empty(204), service.attach, vif)


@vifs.declare(
    "DELETE", "/nodes/<ident>/vifs/<vif>", rule="baremetal:node:vif:detach", returns=NO_CONTENT
)
def detach_vif(context: RequestContext, ident: str, vif: str) -> Response:
    """Detach a VIF from a node"""
    if not is_ident(vif):
        raise Invalid(f"Expected UUID or name for vif_id: {vif}")
    if _is_remote(context, ident):
        vif_calls.detach(context.runtime, ident, vif)
        return empty(204)
    return change_locked(context, ident, empty(204), service.detach, vif)


def _is_remote(context: RequestContext, ident: str) -> bool:
    """
    Whether a conductor attaches the VIFs of a node: then the request is recorded for the audit.

    Raises Invalid: it has a header that has no effect on such a request.
    """
    with context.runtime.reading() as session:
        remote = service.interface(session, node_of(context, session, ident)).remote_vifs
    if remote:
        repeats.refuse(context.request, repeats.CALLS)
        auditing.announce(context)
    return remote
