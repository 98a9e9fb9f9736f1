"""Why a node is where it is. Additive to Ironic's API."""

from typing import Any

from flask import Response

from app.api.answers import json, links, runtime
from app.api.nodes import node_of
from app.api.routes import Routes
from app.api.schemas.common import NoQuery
from app.services.why import explain

why = Routes("why", "Why nodes are where they are")


@why.at("GET", "/nodes/<ident>/why", rule="baremetal:node:history:get")
@why.arguments(NoQuery, location="query")
def show_why(_query: Any, ident: str) -> Response:
    """Show what a node waits for, who holds it, since when, and what happens next"""
    with runtime().reading() as session:
        node = node_of(session, ident)
        answer = explain(session, node)
        document = {
            "node_uuid": node.uuid,
            "provision_state": node.provision_state,
            "target_provision_state": node.target_provision_state,
            **answer.document(),
        }
    if answer.operation:
        document["links"] = links(f"operations/{answer.operation}")
    return json(document)
