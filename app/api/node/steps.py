"""
Routes of the steps that a node offers: an addition to Ironic's API (specs
implement-cleaning-states and manual-cleaning).
"""

from collections.abc import Mapping
from typing import Any

from flask import Response
from marshmallow import Schema, fields

from app.api.node.node_identifiers import node_of
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import BOOLEAN, DOCUMENT, NUMBER, TEXT, Component, array, exactly
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import json
from app.planning import available_steps
from drivers.core.steps import Arg, Flow

steps = Routes("steps", "Steps that nodes offer")

RETRY = "Retry-Request-After"
#: Name in the path -> flow of the driver.
FLOWS: Mapping[str, Flow] = {
    "cleaning": Flow.CLEAN, "deploy": Flow.DEPLOY, "service": Flow.SERVICE, "verify": Flow.VERIFY,
}  # fmt: skip

ARGUMENT = exactly(
    {"name": TEXT, "description": TEXT, "required": BOOLEAN, "schema": DOCUMENT},
    optional=["schema"],
)
OFFERED_STEP = Component("OfferedStep", exactly({
    "interface": TEXT, "step": TEXT, "priority": NUMBER, "abortable": BOOLEAN,
    "args": array(ARGUMENT),
}))  # fmt: skip


class StepsQuery(Schema):
    """Filter of the listed steps."""

    min_priority = fields.Float(metadata={"description": "Only steps of at least this priority"})


@steps.declare(
    "GET",
    "/nodes/<ident>/<any(cleaning,deploy,service,verify):flow>/steps",
    rule="baremetal:node:get",
    returns=Returns(
        {200: array(OFFERED_STEP), 202: exactly({"message": TEXT})},
        {RETRY: "Of 202: seconds until the next request; -1: unknown"},
    ),
)
@steps.arguments(StepsQuery, location="query")
def list_steps(context: RequestContext, query: dict[str, Any], ident: str, flow: str) -> Response:
    """List the steps of a node; 202 while its agent has not listed them yet"""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        entries = available_steps.steps_of(session, node, FLOWS[flow], query.get("min_priority"))
        if entries is not None:
            return json([_view(entry) for entry in entries])
        seconds = available_steps.retry_after(session, node)
    when = f"ask again in {seconds} seconds" if seconds > 0 else "when it will run is not known"
    answer = json({"message": f"The agent of node {ident} has not listed its steps yet; {when}."})
    answer.status_code = 202
    answer.headers[RETRY] = str(seconds)
    return answer


def _view(entry: available_steps.Entry) -> dict[str, Any]:
    step, priority = entry.step, entry.priority
    return {
        "interface": step.interface,
        "step": step.name,
        "priority": int(priority) if priority == int(priority) else priority,
        "abortable": step.abortable,
        "args": [_argument(arg) for arg in step.args],
    }


def _argument(arg: Arg) -> dict[str, object]:
    view: dict[str, Any] = {
        "name": arg.name, "description": arg.description, "required": arg.required,
    }  # fmt: skip
    return view if arg.schema is None else view | {"schema": dict(arg.schema)}
