"""Routes of recordings: the exchanges of a node's operations with its BMC."""

from typing import Any

from flask import Response
from marshmallow import Schema, fields, validate
from sqlalchemy.orm import Session

from app.api.node.node_identifiers import change_locked, locked, node_of
from app.api.openapi.returns import NO_CONTENT
from app.api.openapi.shapes import (
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    Component,
    array,
    exactly,
    map_of,
    one_of,
    or_null,
)
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.transport.responses import empty, json
from app.engine.records import bmc_recordings as service
from drivers.core.recording.bundle import ENCODINGS, METHODS

bmc_recordings = Routes("bmc_recordings", "Exchanges of operations with BMCs")

PATH = "/nodes/<ident>/bmc/recording"
RULE = "baremetal:node:record_bmc"


class Duration(Schema):
    minutes = fields.Integer(
        strict=True,
        load_default=60,
        validate=validate.Range(
            1,
            service.LONGEST,
            error=f"minutes: {{input}}: 1 to {service.LONGEST} minutes are expected",
        ),
        metadata={"description": "Minutes after which the recording ends"},
    )


EXCHANGE = Component("BmcExchange", exactly({
    "operation": UUID, "step": TEXT, "seconds": NUMBER, "method": one_of(METHODS), "path": TEXT,
    "request_body": or_null(TEXT), "status": INTEGER, "headers": map_of(TEXT),
    "encoding": one_of(ENCODINGS), "body": TEXT,
}))  # fmt: skip


@bmc_recordings.declare("PUT", PATH, rule=RULE, returns=exactly({"until": TIME}))
@bmc_recordings.arguments(Duration)
def start_recording(context: RequestContext, values: dict[str, Any], ident: str) -> Response:
    """
    Record the exchanges of a node's operations with its BMC, from the next step on

    An earlier recording is deleted. The recording ends after the minutes, and has limits.
    """

    def work(session: Session) -> Response:
        until = service.start(session, locked(context, session, ident), values["minutes"])
        return json({"until": until})

    return in_transaction(context, work)


@bmc_recordings.declare(
    "GET",
    PATH,
    rule=RULE,
    returns=exactly({"until": or_null(TIME), "left_out": INTEGER, "exchanges": array(EXCHANGE)}),
)
def show_recording(context: RequestContext, ident: str) -> Response:
    """
    Show the recorded exchanges of a node's operations with its BMC, without secrets

    until: null if the recording is off or over. Status 0: there was no answer, and the body is the
    reason. left_out: number of exchanges, or of their bodies, above the limits.
    """
    with context.runtime.reading() as session:
        recording = service.of_node(session, node_of(context, session, ident))
    return json(
        {
            "until": recording.until,
            "left_out": recording.left_out,
            "exchanges": recording.exchanges,
        }
    )


@bmc_recordings.declare("DELETE", PATH, rule=RULE, returns=NO_CONTENT)
def stop_recording(context: RequestContext, ident: str) -> Response:
    """End the recording of a node's operations, and delete it"""
    return change_locked(context, ident, empty(204), service.stop)
