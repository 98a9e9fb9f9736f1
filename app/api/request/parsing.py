"""
Parsing of requests: JSON bodies and query parameters, validated by schemas.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Never

import orjson
from flask import Request
from flask.globals import request_ctx
from flask.json.provider import JSONProvider
from marshmallow import RAISE, Schema, ValidationError, missing
from webargs.flaskparser import FlaskParser
from webargs.multidictproxy import MultiDictProxy

from app.api.declarations.public_paths import REPORT, is_of_agents
from app.api.request.context import RequestContext, current
from app.api.transport.error_text import format_errors
from app.api.transport.errors import TooDeep
from app.api.transport.request_body import data_of
from app.api.transport.responses import OPTIONS
from app.errors import Invalid
from drivers.net import json_nul

DEEPEST = 25
#: Most values in a body: short values take a hundred times as long as their text in a long one.
MOST_VALUES = 200_000
#: Bytes of a body whose values are counted at once.
PART = 256 << 10
TOO_DEEP = (
    "Request body JSON is nested too deeply. Please contact the service administrator: more than"
    f" {DEEPEST} levels."
)


class Json(JSONProvider):
    """Make Flask encode and decode JSON with orjson."""

    def dumps(self, obj: object, **_kwargs: object) -> str:
        return orjson.dumps(obj, option=OPTIONS).decode()

    def loads(self, s: str | bytes, **_kwargs: object) -> object:
        return orjson.loads(s)


class Parser(FlaskParser):
    """Load arguments by schema; unknown or invalid ones are a 400."""

    DEFAULT_VALIDATION_STATUS = 400
    DEFAULT_UNKNOWN_BY_LOCATION = {"query": RAISE, "json": RAISE, "json_or_query": RAISE}

    def get_default_request(self) -> Request:
        return request_ctx.request  # Flask's proxy is slower

    def parse(
        self, argmap: Any, req: Any = None, *, location: Any = None, **options: Any
    ) -> object:
        if location == "query" and not request_ctx.request.query_string and is_optional(argmap):
            return {}  # the schema would cost as much time as a query of the database
        return super().parse(argmap, req, location=location, **options)

    def load_json(self, req: Request, schema: Schema) -> object:
        return body(current())

    def handle_error(
        self,
        error: ValidationError,
        req: Request,
        schema: Schema,
        *,
        error_status_code: int | None,
        error_headers: Mapping[str, str] | None,
    ) -> Never:
        raise Invalid(format_errors(error, schema)) from error


@cache
def is_optional(schema: Schema) -> bool:
    """Whether a schema loads an empty document as an empty document."""
    return not any(
        field.required or field.load_default is not missing for field in schema.fields.values()
    )


parser = Parser()


@parser.location_loader("json_or_query")
def _json_or_query(req: Request, schema: Schema) -> object:
    """Merge the body with query arguments, as some routes of Ironic take both."""
    document = body(current()) if req.content_length or req.is_json else {}
    if not req.query_string or not isinstance(document, dict):
        return document
    for name in req.args.keys() & document.keys():
        raise Invalid(f"{name}: given both in the body and as an argument")
    return {**MultiDictProxy(req.args, schema), **document}


def body(context: RequestContext) -> object:
    """
    Decode the JSON body of a request, and keep it for its audit record.

    Raises Invalid, TooLarge, TooDeep.
    """
    context.audit.document = document = decoded(context.request)
    return document


def decoded(req: Request) -> object:
    """
    Decode the JSON body of a request; an empty one is an empty object.

    Raises Invalid, TooLarge, TooDeep.
    """
    data = data_of(req)
    if data and not req.is_json:
        raise Invalid("The body of a request must be JSON, its Content-Type application/json.")
    if not data:
        return {}
    if req.path == REPORT:  # some machines report it
        data = json_nul.removed(data)
    if _has_too_many_values(data):
        raise Invalid(f"Request body JSON has too many values: at most {MOST_VALUES}.")
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "recursion" in str(error).lower():
            raise TooDeep(TOO_DEEP) from error
        raise Invalid(f"Malformed JSON: {error}") from error
    if data.count(b"{") + data.count(b"[") > DEEPEST and depth(document) > DEEPEST:
        raise TooDeep(TOO_DEEP)
    if json_nul.ESCAPED in data and not is_of_agents(req.path):
        _check_nul(document)
    return document


def _check_nul(document: object) -> None:
    """Raises Invalid: a text has NUL, which PostgreSQL cannot read from a document."""
    for name, value in document.items() if isinstance(document, dict) else [("body", document)]:
        if json_nul.is_in(orjson.dumps({name: value})):
            raise Invalid(f"{name}: must not contain NUL.".replace("\0", ""))


def _has_too_many_values(data: bytes) -> bool:
    """Count values by parts, as a count of all would keep the interpreter lock for long."""
    count = 0
    for begin in range(0, len(data), PART) if len(data) > MOST_VALUES else ():
        part = data[begin : begin + PART]
        count += sum(map(part.count, (b",", b"[", b"{")))
        if count > MOST_VALUES:
            return True
    return False


def depth(document: object) -> int:
    """Count the levels of nesting; 0 for a scalar."""
    level, deepest = [document], 0
    while level := [node for node in level if isinstance(node, dict | list)]:
        deepest += 1
        level = [
            value for node in level for value in (node.values() if isinstance(node, dict) else node)
        ]
    return deepest
