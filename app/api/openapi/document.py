"""
The API's own documentation: one OpenAPI document of what every route takes and answers, made of
the declarations of routes and of schemas, and a page that shows it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Response
from werkzeug.http import HTTP_STATUS_CODES

from app.agents.lookup import MAC
from app.api import auth, idempotency, versions
from app.api.answers import JSON
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import TEXT, WHOLE, Component, Shape, exactly, maybe, one_of, versioned
from app.api.routes import PARAMETER, Route
from app.api.schemas.common import NAME, Flag, Ident, Mac, Name, Uuid, Words

PAGE = Path(__file__).with_name("page.html")
ABOUT = f"""\
OpenStack Ironic's API, and what Ingot adds to it. A request asks for a version with the header
`{versions.HEADER}`; without one it gets 1.{versions.MIN}. `x-since` tells from which version on
there is something, `x-policy` which rule of the policy a caller has to pass."""

#: What our fields are in JSON: type, format, pattern.
FIELDS = {
    Flag: ("boolean", None, None),
    Uuid: ("string", "uuid", None),
    Mac: ("string", None, f"^{MAC}$"),
    Name: ("string", None, f"^{NAME}$"),
    Ident: ("string", None, f"^{NAME}$"),
    Words: ("string", None, None),
}
#: What parameters of paths mean.
NAMED = {
    "ident": "UUID or name", "uuid": "UUID", "name": "Name", "hostname": "Name of the conductor",
    "trait": "Name of the trait", "vif": "Id of the VIF", "indicator": "name@component",
    "function": "Name of the function", "flow": "What the steps are for",
}  # fmt: skip
#: Tag -> title of its section, in the order of the page.
SECTIONS = {
    "nodes": "Nodes", "states": "States of nodes", "why": "Why a node waits",
    "operations": "Operations", "history": "History of nodes", "steps": "Steps of nodes",
    "traits": "Traits", "ports": "Ports", "portgroups": "Port groups", "vifs": "VIFs",
    "volume": "Volumes", "management": "Boot devices, indicators, virtual media",
    "machine_states": "Boot mode, RAID, console", "hardware": "BIOS, firmware, inventory",
    "vendor": "Vendor functions", "allocations": "Allocations",
    "deploy_templates": "Deploy templates", "runbooks": "Runbooks",
    "inspection_rules": "Inspection rules", "chassis": "Chassis", "drivers": "Drivers",
    "conductors": "Conductors", "shards": "Shards", "agents": "Agents", "events": "Events",
    "root": "The service",
}  # fmt: skip
#: Paths of what a conductor is asked about while the caller waits.
ASKED = ("/management/", "/vmedia", "/vendor_passthru", "/states/console")
#: Paths of what may be repeated under the same key.
REPEATED = ("/states/", "/vmedia", "/vendor_passthru")
#: Where flask-smorest says that our parser looks, for what may be in either.
BODY_OR_QUERY = "json_or_query"
WRITING = ("POST", "PUT", "PATCH", "DELETE")

PARAMETERS = {
    "version": {
        "name": versions.HEADER,
        "in": "header",
        "description": "The version that the request speaks",
        "schema": {"type": "string", "pattern": r"^(latest|1\.[1-9][0-9]{0,2})$"},
    },
    "tag": {
        "name": "If-Match",
        "in": "header",
        "description": "Only if the node's `ETag` is still one of these",
        "schema": TEXT,
    },
    "key": {
        "name": idempotency.HEADER,
        "in": "header",
        "description": "Done once, however often it is asked for with this key",
        "schema": TEXT | {"minLength": 1, "maxLength": idempotency.LONGEST},
    },
}
HEADERS = {
    "Openstack-Request-Id": "Names the request, also in the logs",
    versions.HEADER: "The version that the answer speaks; none where no route was found",
    f"{versions.HEADER.removesuffix('Version')}Minimum-Version": "The oldest there is",
    f"{versions.HEADER.removesuffix('Version')}Maximum-Version": "The newest there is",
}
FAULT = Component("Fault", {
    "anyOf": [
        exactly({"faultcode": TEXT, "faultstring": TEXT, "debuginfo": maybe(TEXT)}),
        exactly({"code": WHOLE, "title": TEXT, "description": TEXT}),
    ]
})  # fmt: skip
ENCODED = {
    "description": "Again a document: decode twice",
    "contentMediaType": JSON,
    "contentSchema": FAULT,
}
ERROR = Component("Error", exactly({"error_message": TEXT | ENCODED}))
FLAT_ERROR = Component("FlatError", exactly({"faultcode": TEXT, "faultstring": TEXT}))
#: Statuses of bodies that are not even looked at.
FLAT = (400, 413)
#: Status -> what it means here.
REFUSALS = {
    400: "Something is wrong with the request; it is named",
    401: "Nobody knows who the caller is",
    403: "The policy, or a node's protection, forbids it",
    404: "It is not there, or not in this version",
    405: "Not in this version",
    406: "Not in this version, or a version that is not there",
    409: "It is in use, or the node is worked on by somebody else",
    412: "`If-Match`: the node has changed",
    413: "The body is too large",
    500: "A defect of the service, or the machine cannot do it",
    502: "The machine answers nonsense",
    503: "Try again later",
    504: "The conductor or the machine has not answered in time",
}


class Marshmallow(MarshmallowPlugin):
    """Knows the types that our fields stand for."""

    def init_spec(self, spec: Any) -> None:
        super().init_spec(spec)
        for field, (kind, form, _) in FIELDS.items():
            self.map_to_openapi_type(field, kind, form)
        self.converter.add_attribute_function(_pattern)


def _pattern(_converter: Any, field: Any, **_kwargs: Any) -> dict[str, Any]:
    pattern = FIELDS.get(type(field), ("", None, None))[2]
    return {"pattern": pattern} if pattern else {}


def document(spec: Any, routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI document. spec: what flask-smorest knows of parameters and bodies."""
    made: dict[str, Any] = spec.to_dict()
    made["info"]["description"] = ABOUT
    about = {each["name"]: each for each in made["tags"]}
    made["tags"] = [about[name] | {"x-displayName": title} for name, title in SECTIONS.items()]
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = PARAMETER.sub(r"{\1}", route.path)
        known, method = made["paths"].get(path, {}), route.method.lower()
        asked, named = known.get(method, {}), known.get("parameters", [])
        paths.setdefault(path, {})[method] = _operation(route, asked, named)
    incoming = made["components"]["schemas"]
    for name in ("Error", "PaginationMetadata"):  # flask-smorest's own
        incoming.pop(name, None)
    for schema in incoming.values():
        schema.setdefault("additionalProperties", False)
    for kind in versions.FIELDS:
        name = f"{kind.title().replace(' ', '')}Create"
        if name in incoming:
            incoming[name] = versioned(kind, incoming[name])
    responses = {str(status): _refusal(status) for status in REFUSALS}
    return made | {
        "paths": paths,
        "components": {
            "schemas": {**incoming, **components([paths, responses])},
            "parameters": PARAMETERS,
            "headers": {
                name: {"description": text, "schema": TEXT} for name, text in HEADERS.items()
            },
            "responses": responses,
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
    }


def components(node: Any) -> dict[str, Shape]:
    """
    name -> schema of all that a document refers to, and of what those schemas refer to.

    Raises TypeError for two different schemas of one name.
    """
    found: dict[str, Shape] = {}
    left = [node]
    while left:
        match left.pop():
            case Component() as each if each.name not in found:
                found[each.name] = each.schema
                left.append(each.schema)
            case Component() as each if found[each.name] != each.schema:
                raise TypeError(f"{each.name}: two JSON Schemas have this name")
            case Component():
                pass
            case dict() as document:
                left += document.values()
            case list() as documents:
                left += documents
    return dict(sorted(found.items()))


def _operation(route: Route, asked: dict[str, Any], named: list[dict[str, Any]]) -> dict[str, Any]:
    """
    One operation. asked, named: its parameters and body, and those of its path, as flask-smorest
    has them.
    """
    parameters = [
        *(each | {"description": NAMED[each["name"]]} for each in named),
        *_in_query(route, asked.get("parameters", [])),
        *({"$ref": f"#/components/parameters/{name}"} for name in _headers_taken(route)),
    ]
    body = _body(route, asked)
    answers = {str(status): _answer(route.returns, status) for status in route.returns.bodies}
    refusals = {
        str(status): {"$ref": f"#/components/responses/{status}"}
        for status in _refusals(route, parameters, body)
    }
    return {
        "operationId": route.handler,
        "summary": route.summary,
        "tags": [route.tag],
        "x-since": f"1.{route.since}",
        **({"x-policy": route.rule} if route.rule else {}),
        "security": [] if auth.is_public(_bare(route)) else [{}, {"token": []}, {"password": []}],
        "parameters": parameters,
        **({"requestBody": body} if body else {}),
        "responses": answers | refusals,
    }


def _bare(route: Route) -> str:
    return PARAMETER.sub("", route.path)


def _types(schema: Shape) -> set[str]:
    kind = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def _in_query(route: Route, asked: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The parameters of the query. asked: those that schemas read."""
    for name, text in route.parameters.items():
        yield {
            "name": name, "in": "query", "description": text, "schema": TEXT, "required": True,
        }  # fmt: skip
    gates = versions.QUERIES.get(route.query or "", {})
    for each in asked:
        name, more = each["name"], dict[str, Any]()
        if route.path.endswith("/detail") and name in ("detail", "fields"):
            continue  # it is all of them
        if each["in"] == BODY_OR_QUERY:
            if {"array", "object"} & _types(each["schema"]):
                continue
            more |= {"in": "query", "required": False}
        if name == "fields" and route.returns.fields:
            words = {"type": "array", "items": one_of(route.returns.fields)}
            more |= {"schema": words, "style": "form", "explode": False}
        if name == "sort_key" and route.returns.sortable:
            more |= {"schema": one_of(route.returns.sortable)}
        if name in gates:
            more |= {"x-since": f"1.{gates[name]}"}
        yield each | more


def _body(route: Route, asked: dict[str, Any]) -> dict[str, Any] | None:
    """The body of a request, None for no body."""
    if route.takes is not None:
        needed = route.method not in ("GET", "DELETE")
        return {"required": needed, "content": {JSON: {"schema": route.takes}}}
    either = [each for each in asked.get("parameters", []) if each["in"] == BODY_OR_QUERY]
    if not either:
        return asked.get("requestBody")
    described = {
        each["name"]: each["schema"]
        | ({"description": each["description"]} if "description" in each else {})
        for each in either
    }
    optional = {each["name"] for each in either if not each.get("required")}
    shape = exactly(described, optional=optional)
    return {"required": False, "content": {JSON: {"schema": shape}}}


def _headers_taken(route: Route) -> Iterator[str]:
    yield "version"
    writes = route.method in WRITING
    if writes and route.path.startswith("/v1/nodes/<") and "vendor" not in route.path:
        yield "tag"
    if writes and any(part in route.path for part in REPEATED):
        yield "key"


def _answer(returns: Returns, status: int) -> dict[str, Any]:
    shape = returns.bodies[status]
    told = {name: {"description": text, "schema": TEXT} for name, text in returns.headers.items()}
    answer = {
        "description": HTTP_STATUS_CODES[status],
        "headers": {**_headers(), **told},
    }
    if shape is None:
        return answer
    return answer | {"content": {kind: {"schema": shape} for kind in returns.types}}


def _headers() -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}


def _refusals(route: Route, parameters: list[Any], body: Any) -> Iterator[int]:
    """The statuses of the errors that a route can answer."""
    writes = route.method in WRITING
    asked = any(part in route.path for part in ASKED)
    named = any("name" in each for each in parameters)
    yield 400
    if not auth.is_public(_bare(route)):
        yield 401
    if route.rule:
        yield 403
    if named or route.since > versions.MIN:
        yield 404
    if route.gone == 405:
        yield 405
    yield 406
    if writes or asked:
        yield 409
    if {"$ref": "#/components/parameters/tag"} in parameters:
        yield 412
    if body:
        yield 413
    yield 500
    if asked:
        yield 502
        yield 504
    yield 503


def _refusal(status: int) -> dict[str, Any]:
    shape = {"anyOf": [ERROR, FLAT_ERROR]} if status in FLAT else ERROR
    more = {
        401: {"WWW-Authenticate": "How to prove it"},
        409: {"Retry-After": "In how many seconds it may have changed"},
        503: {"Retry-After": "In how many seconds to try again"},
    }.get(status, {})
    return {
        "description": REFUSALS[status],
        "headers": _headers()
        | {name: {"description": text, "schema": TEXT} for name, text in more.items()},
        "content": {JSON: {"schema": shape}},
    }


def page() -> Response:
    """A page that renders /openapi.json, from this service alone."""
    return Response(PAGE.read_bytes(), content_type="text/html; charset=utf-8")
