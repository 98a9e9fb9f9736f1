"""OpenAPI document, generated from the declarations of routes and schemas."""

from collections.abc import Iterable, Iterator
from typing import Any

from apispec.ext.marshmallow import MarshmallowPlugin
from werkzeug.http import HTTP_STATUS_CODES

from app.agents.lookup import MAC
from app.api import repeats, versions
from app.api.answers import JSON
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import (
    INTEGER,
    TEXT,
    Component,
    Shape,
    exactly,
    one_of,
    or_null,
    versioned,
)
from app.api.public_paths import is_public, signs_in
from app.api.routes import PARAMETER, Route
from app.api.schemas.common import NAME, CommaSeparated, Flag, Ident, Mac, Name, Uuid
from app.api.sessions import COOKIE
from app.api.sites import WRITING

ABOUT = f"""\
OpenStack Ironic's API with additions. The header `{versions.HEADER}` selects the version of a
request; the default is 1.{versions.MIN}. `x-since` is the version that introduced a route, a field
or a parameter; `x-policy` is the policy rule that a caller must pass;
`x-no-key` tells why a route that changes something takes no `Idempotency-Key`."""

#: Field type -> its JSON Schema: type, format, pattern.
FIELDS = {
    Flag: ("boolean", None, None),
    Uuid: ("string", "uuid", None),
    Mac: ("string", None, f"^{MAC}$"),
    Name: ("string", None, f"^{NAME}$"),
    Ident: ("string", None, f"^{NAME}$"),
    CommaSeparated: ("string", None, None),
}
#: Parameter of a path -> its description.
PATH_PARAMETERS = {
    "ident": "UUID or name", "uuid": "UUID", "name": "Name", "hostname": "Name of the conductor",
    "trait": "Name of the trait", "vif": "Id of the VIF", "indicator": "name@component",
    "function": "Name of the function", "flow": "Flow that the steps belong to",
}  # fmt: skip
#: Tag -> title of its section, in the order of the page.
SECTIONS = {
    "nodes": "Nodes", "provision_states": "Counts of nodes",
    "states": "States of nodes", "why": "Diagnosis of waiting nodes",
    "operations": "Operations", "fleet_operations": "Operations, summed up",
    "history": "History of nodes", "change_events": "Change events", "rollouts": "Rollouts",
    "steps": "Steps of nodes",
    "traits": "Traits", "ports": "Ports", "portgroups": "Port groups", "vifs": "VIFs",
    "volume": "Volumes", "management": "Boot devices, indicators, virtual media",
    "machine_states": "Boot mode, RAID, console", "consoles": "Consoles",
    "hardware": "BIOS, firmware, inventory",
    "bmc_documents": "Documents of BMCs", "agent_logs": "Logs of agents",
    "vendor": "Vendor functions", "allocations": "Allocations",
    "deploy_templates": "Deploy templates", "runbooks": "Runbooks",
    "inspection_rules": "Inspection rules", "chassis": "Chassis", "drivers": "Drivers",
    "conductors": "Conductors", "service": "State of the service",
    "shards": "Shards", "agents": "Agents", "webhooks": "Webhooks", "holds": "Holds on nodes",
    "events": "Events of other services", "audit": "Audit", "login": "Sessions of browsers",
    "root": "The service",
}  # fmt: skip
#: Parts of the paths whose handlers wait for a call to a conductor.
CALLS = ("/management/", "/bmc/", "/vmedia", "/vendor_passthru", "/states/console", "/console")
#: Location of parameters that `parsing` accepts in the body or in the query.
BODY_OR_QUERY = "json_or_query"

PARAMETERS = {
    "version": {
        "name": versions.HEADER,
        "in": "header",
        "description": "API version of the request",
        "schema": {"type": "string", "pattern": r"^(latest|1\.[1-9][0-9]{0,2})$"},
    },
    "tag": {
        "name": "If-Match",
        "in": "header",
        "description": "`ETag`s; 412 if the node's current one is not among them",
        "schema": TEXT,
    },
    "key": {
        "name": repeats.HEADER,
        "in": "header",
        "description": "Idempotency key: requests repeated with it are executed once",
        "schema": TEXT | {"minLength": 1, "maxLength": repeats.LONGEST},
    },
}
HEADERS = {
    "Openstack-Request-Id": "Id of the request, also in the logs",
    versions.HEADER: "API version of the response; missing if the request matched no route",
    f"{versions.HEADER.removesuffix('Version')}Minimum-Version": "Oldest supported API version",
    f"{versions.HEADER.removesuffix('Version')}Maximum-Version": "Newest supported API version",
}
FAULT = Component("Fault", {
    "anyOf": [
        exactly({"faultcode": TEXT, "faultstring": TEXT, "debuginfo": or_null(TEXT)}),
        exactly({"code": INTEGER, "title": TEXT, "description": TEXT}),
    ]
})  # fmt: skip
ENCODED = {
    "description": "A JSON document in a string: decode it twice",
    "contentMediaType": JSON,
    "contentSchema": FAULT,
}
ERROR = Component("Error", exactly({"error_message": TEXT | ENCODED}))
FLAT_ERROR = Component("FlatError", exactly({"faultcode": TEXT, "faultstring": TEXT}))
#: Statuses of bodies that are refused before they are decoded.
FLAT = (400, 413)
#: Status of an answer that opens a WebSocket.
SWITCHING = 101
#: Status of an error -> its description.
ERRORS = {
    400: "The request is invalid; the message names the field",
    401: "Authentication is missing or invalid",
    403: "The policy or the protection of a node forbids the request",
    404: "The resource or the route does not exist, or not in this API version",
    405: "The route does not exist in this API version",
    406: "The route does not exist in this API version, or the version is not supported",
    409: "The resource is in use, or another operation holds the node",
    412: "The node has changed since the `ETag` in `If-Match`",
    413: "The body is too large",
    426: "The request must ask for a WebSocket",
    429: "Too many such requests are open",
    500: "A defect of the service, or the machine does not support the request",
    502: "The machine sent an invalid response",
    503: "The service is temporarily unavailable; retry",
    504: "The conductor or the machine did not answer in time",
}


class Marshmallow(MarshmallowPlugin):
    """Plugin of apispec that maps the field types of `schemas.common` to JSON Schema."""

    def init_spec(self, spec: Any) -> None:
        super().init_spec(spec)
        for field, (kind, form, _) in FIELDS.items():
            self.map_to_openapi_type(field, kind, form)
        self.converter.add_attribute_function(_pattern)


def _pattern(_converter: Any, field: Any, **_kwargs: Any) -> dict[str, Any]:
    pattern = FIELDS.get(type(field), ("", None, None))[2]
    return {"pattern": pattern} if pattern else {}


def document(spec: Any, routes: Iterable[Route]) -> dict[str, Any]:
    """
    Build the OpenAPI document.

    spec: apispec of flask-smorest, the source of parameters and request bodies.
    """
    made: dict[str, Any] = spec.to_dict()
    made["info"]["description"] = ABOUT
    about = {each["name"]: each for each in made["tags"]}
    made["tags"] = [about[name] | {"x-displayName": title} for name, title in SECTIONS.items()]
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = PARAMETER.sub(r"{\1}", route.path)
        known, method = made["paths"].get(path, {}), route.method.lower()
        declared, in_path = known.get(method, {}), known.get("parameters", [])
        paths.setdefault(path, {})[method] = _operation(route, declared, in_path)
    incoming = made["components"]["schemas"]
    for name in ("Error", "PaginationMetadata"):  # added by flask-smorest, not used here
        incoming.pop(name, None)
    for schema in incoming.values():
        schema.setdefault("additionalProperties", False)
    for kind in versions.FIELDS:
        name = f"{kind.title().replace(' ', '')}Create"
        if name in incoming:
            incoming[name] = versioned(kind, incoming[name])
    responses = {str(status): _error_response(status) for status in ERRORS}
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
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def components(node: Any) -> dict[str, Shape]:
    """
    Collect the components that a document refers to, directly or through others: name -> schema.

    Raises TypeError: two different schemas have one name.
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


def _operation(
    route: Route, declared: dict[str, Any], in_path: list[dict[str, Any]]
) -> dict[str, Any]:
    """
    Build an OpenAPI operation: method and path.

    declared, in_path: the operation and the parameters of its path, from flask-smorest.
    """
    parameters = [
        *(each | {"description": PATH_PARAMETERS[each["name"]]} for each in in_path),
        *_query_parameters(route, declared.get("parameters", [])),
        *({"$ref": f"#/components/parameters/{name}"} for name in _request_headers(route)),
    ]
    body = _body(route, declared)
    successes = {str(status): _response(route.returns, status) for status in route.returns.bodies}
    errors = {
        str(status): {"$ref": f"#/components/responses/{status}"}
        for status in _error_statuses(route, parameters, body)
    }
    return {
        "operationId": route.handler,
        "summary": route.summary,
        "tags": [route.tag],
        "x-since": f"1.{route.since}",
        **({"x-policy": route.rule} if route.rule else {}),
        **({"x-no-key": route.no_key} if route.no_key else {}),
        "security": _security(route),
        "parameters": parameters,
        **({"requestBody": body} if body else {}),
        "responses": successes | errors,
    }


def _security(route: Route) -> list[Shape]:
    """List the credentials that a route accepts; all are optional for some auth_strategy."""
    if signs_in(route.path):
        return [{}, {"session": []}]
    return [] if _is_public(route) else [{}, {"token": []}, {"password": []}, {"session": []}]


def _is_public(route: Route) -> bool:
    """Whether a route accepts no credentials."""
    return is_public(PARAMETER.sub("", route.path)) and not signs_in(route.path)


def _types(schema: Shape) -> set[str]:
    kind = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def _query_parameters(route: Route, declared: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of the query. declared: those of the route's schemas."""
    for name, text in route.parameters.items():
        yield {
            "name": name, "in": "query", "description": text, "schema": TEXT, "required": True,
        }  # fmt: skip
    gates = versions.QUERIES.get(route.query or "", {})
    for each in declared:
        name, more = each["name"], dict[str, Any]()
        if route.path.endswith("/detail") and name in ("detail", "fields"):
            continue  # the route shows all fields
        if each["in"] == BODY_OR_QUERY:
            if {"array", "object"} & _types(each["schema"]):
                continue
            more |= {"in": "query", "required": False}
        if name == "fields" and route.returns.fields:
            names = {"type": "array", "items": one_of(route.returns.fields)}
            more |= {"schema": names, "style": "form", "explode": False}
        if name == "sort_key" and route.returns.sortable:
            more |= {"schema": one_of(route.returns.sortable)}
        if name in gates:
            more |= {"x-since": f"1.{gates[name]}"}
        yield each | more


def _body(route: Route, declared: dict[str, Any]) -> dict[str, Any] | None:
    """Describe the body of a request; None for no body."""
    if route.takes is not None:
        needed = route.method not in ("GET", "DELETE")
        return {"required": needed, "content": {JSON: {"schema": route.takes}}}
    either = [each for each in declared.get("parameters", []) if each["in"] == BODY_OR_QUERY]
    if not either:
        return declared.get("requestBody")
    described = {
        each["name"]: each["schema"]
        | ({"description": each["description"]} if "description" in each else {})
        for each in either
    }
    optional = {each["name"] for each in either if not each.get("required")}
    shape = exactly(described, optional=optional)
    return {"required": False, "content": {JSON: {"schema": shape}}}


def _request_headers(route: Route) -> Iterator[str]:
    """Yield the keys in `PARAMETERS` of the headers that a route reads."""
    yield "version"
    if route.takes_tag:
        yield "tag"
    if route.takes_key:
        yield "key"


def _response(returns: Returns, status: int) -> dict[str, Any]:
    shape = returns.bodies[status]
    headers = {
        name: {"description": text, "schema": TEXT} for name, text in returns.headers.items()
    }
    response = {
        "description": HTTP_STATUS_CODES[status],
        "headers": {**_common_headers(), **headers},
    }
    if shape is None:
        return response
    return response | {"content": {kind: {"schema": shape} for kind in returns.types}}


def _common_headers() -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}


def _error_statuses(route: Route, parameters: list[Any], body: Any) -> Iterator[int]:
    """Yield the statuses of the errors that a route can return."""
    writes = route.method in WRITING
    calls = any(part in route.path for part in CALLS)
    named = any("name" in each for each in parameters)
    yield 400
    if not _is_public(route):
        yield 401
    opens_socket = SWITCHING in route.returns.bodies
    if route.rule or opens_socket:
        yield 403
    if named or route.since > versions.MIN:
        yield 404
    if route.gone == 405:
        yield 405
    yield 406
    if writes or calls:
        yield 409
    if {"$ref": "#/components/parameters/tag"} in parameters:
        yield 412
    if body:
        yield 413
    if opens_socket:
        yield 426
        yield 429
    yield 500
    if calls:
        yield 502
        yield 504
    yield 503


def _error_response(status: int) -> dict[str, Any]:
    shape = {"anyOf": [ERROR, FLAT_ERROR]} if status in FLAT else ERROR
    more = {
        401: {"WWW-Authenticate": "Authentication scheme that the service accepts"},
        409: {"Retry-After": "Seconds until a retry may succeed"},
        503: {"Retry-After": "Seconds until a retry may succeed"},
    }.get(status, {})
    return {
        "description": ERRORS[status],
        "headers": _common_headers()
        | {name: {"description": text, "schema": TEXT} for name, text in more.items()},
        "content": {JSON: {"schema": shape}},
    }
