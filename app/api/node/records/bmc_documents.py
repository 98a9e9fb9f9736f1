"""Route of the documents of BMCs, for recordings of them."""

from flask import Response
from marshmallow import Schema, fields, validate

from app.api.node.management import call_conductor
from app.api.node.node_identifiers import uuid_of
from app.api.openapi.shapes import INTEGER, TEXT, Component, array, exactly, map_of, one_of
from app.api.request import repeats
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import json
from app.api.values.value_types import Text
from drivers.core.recording.bundle import ENCODINGS, LONGEST_PATH
from drivers.core.recording.crawl import BATCH

bmc_documents = Routes("bmc_documents", "Documents of BMCs, as they are")


class Paths(Schema):
    paths = fields.List(
        Text(LONGEST_PATH),
        required=True,
        validate=validate.Length(1, BATCH, error="a list of {min} to {max} paths is expected"),
        metadata={"description": "Paths below /redfish, with their queries"},
    )


ANSWER = Component("BmcAnswer", exactly({
    "path": TEXT, "status": INTEGER, "headers": map_of(TEXT), "encoding": one_of(ENCODINGS),
    "body": TEXT,
}))  # fmt: skip


@bmc_documents.declare(
    "POST",
    "/nodes/<ident>/bmc/documents",
    rule="baremetal:node:record_bmc",
    returns=exactly({"answers": array(ANSWER)}),
    no_key=repeats.CALLS,
)
@bmc_documents.arguments(Paths)
def read_documents(context: RequestContext, fields_: dict[str, object], ident: str) -> Response:
    """
    Read documents of a BMC by GET requests, for a recording

    The answers are those to some of the paths, at least one; request the others again. Status 0:
    there is no usable answer, and the body is the reason. An addition to Ironic's API.
    """
    context.audit.concern(uuid_of(context, ident))
    return json(
        {"answers": call_conductor(context, ident, "read_documents", paths=fields_["paths"])}
    )
