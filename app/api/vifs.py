"""Routes of VIFs, the virtual network interfaces of nodes."""

from collections.abc import Mapping
from typing import Any

from flask import Response
from marshmallow import INCLUDE

from app.api import auditing, repeats, versions
from app.api.answers import empty, json, runtime
from app.api.node_identifiers import locked, node_of
from app.api.openapi.returns import NO_CONTENT
from app.api.openapi.shapes import TEXT, array, exactly
from app.api.policy.enforce import vif_project
from app.api.routes import Routes
from app.api.schemas.common import NoQuery, is_ident
from app.api.schemas.vifs import Vif
from app.api.transactions import in_transaction
from app.engine import vif_calls
from app.errors import Invalid
from app.inventory import vifs as service

vifs = Routes("vifs", "Virtual network interfaces of nodes")

Query = Mapping[str, Any]

SINCE = 28
#: The version from which a VIF may name its port or port group.
PLACED_SINCE = 67


@vifs.declare(
    "GET",
    "/nodes/<ident>/vifs",
    since=SINCE,
    rule="baremetal:node:vif:list",
    returns=exactly({"vifs": array(exactly({"id": TEXT}))}),
)
@vifs.arguments(NoQuery, location="query")
def list_vifs(_query: Query, ident: str) -> Response:
    """List the VIFs that are attached to a node"""
    with runtime().reading() as session:
        found = service.attached(session, node_of(session, ident))
    return json({"vifs": [{"id": vif} for vif in found]})


@vifs.declare(
    "POST", "/nodes/<ident>/vifs", since=SINCE, rule="baremetal:node:vif:attach", returns=NO_CONTENT
)
@vifs.arguments(Vif, unknown=INCLUDE)
def attach_vif(vif: dict[str, Any], ident: str) -> Response:
    """Attach a VIF to a node"""
    if versions.current() >= PLACED_SINCE and vif.keys() >= set(service.PLACES):
        raise Invalid("Cannot specify both port_uuid and portgroup_uuid")
    if _is_remote(ident):
        vif_calls.attach(runtime(), ident, vif, vif_project(ident))
        return empty(204)
    return in_transaction(
        lambda session: service.attach(session, locked(session, ident), vif), empty(204)
    )


@vifs.declare(
    "DELETE",
    "/nodes/<ident>/vifs/<vif>",
    since=SINCE,
    rule="baremetal:node:vif:detach",
    returns=NO_CONTENT,
)
@vifs.arguments(NoQuery, location="query")
def detach_vif(_query: Query, ident: str, vif: str) -> Response:
    """Detach a VIF from a node"""
    if not is_ident(vif):
        raise Invalid(f"Expected UUID or name for vif_id: {vif}")
    if _is_remote(ident):
        vif_calls.detach(runtime(), ident, vif)
        return empty(204)
    return in_transaction(
        lambda session: service.detach(session, locked(session, ident), vif), empty(204)
    )


def _is_remote(ident: str) -> bool:
    """
    Whether a conductor attaches the VIFs of a node: then the request is recorded for the audit.

    Raises Invalid: it has a header that has no effect on such a request.
    """
    with runtime().reading() as session:
        remote = service.interface(session, node_of(session, ident)).remote_vifs
    if remote:
        repeats.refuse(repeats.CALLS)
        auditing.announce()
    return remote
