"""Routes of the kept logs of agents. An addition to Ironic's API."""

from dataclasses import asdict
from typing import Any

from flask import Response
from sqlalchemy.orm import Session

from app.agents import agent_logs as service
from app.api.node.node_identifiers import node_of
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import (
    BINARY,
    LINKS,
    TEXT,
    TIME,
    UUID,
    Component,
    array,
    exactly,
    or_null,
)
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import json
from app.models import Node

agent_logs = Routes("agent_logs", "Logs of agents that operations have kept")

GZIP = "application/gzip"
LOG = Component("AgentLog", exactly({
    "name": TEXT, "operation": UUID, "kind": TEXT, "conductor": TEXT, "kept_at": or_null(TIME),
    "links": LINKS,
}))  # fmt: skip


@agent_logs.declare(
    "GET",
    "/nodes/<ident>/agent-logs",
    rule="baremetal:node:history:get",
    returns=exactly({"agent-logs": array(LOG)}),
)
def list_agent_logs(context: RequestContext, ident: str) -> Response:
    """
    List the logs of a node's agents, the newest first

    Operations keep them as `[agent]deploy_logs_collect` demands. The oldest files of a host are
    removed above `[agent]deploy_logs_max_size`; they stay in this list as long as their operation.
    """
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        logs = [_view(context, node, agent_log) for agent_log in service.of_node(session, node)]
    return json({"agent-logs": logs})


def _view(context: RequestContext, node: Node, agent_log: service.KeptLog) -> dict[str, Any]:
    links = [
        {"href": f"{context.base_url}{service.path_of(node.uuid, agent_log.name)}", "rel": "self"}
    ]
    return {**asdict(agent_log), "links": links}


@agent_logs.declare(
    "GET",
    "/nodes/<ident>/agent-logs/<name>",
    rule="baremetal:node:agent_logs:get",
    returns=Returns({200: BINARY}, types=(GZIP,)),
)
def show_agent_log(context: RequestContext, ident: str, name: str) -> Response:
    """Download a log of a node's agent, an archive (tar, gzip), from the conductor that keeps it"""
    with context.runtime.reading() as session:
        node, agent_log = _found(context, session, ident, name)
    size, parts = service.content(context.runtime, node, agent_log)
    response = Response(parts, content_type=GZIP)
    response.content_length = size
    response.headers["Content-Disposition"] = f'attachment; filename="{agent_log.name}"'
    return response


def _found(
    context: RequestContext, session: Session, ident: str, name: str
) -> tuple[str, service.KeptLog]:
    node = node_of(context, session, ident)
    return node.uuid, service.find(session, node, name)
