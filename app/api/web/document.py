"""OpenAPI document, generated from the declarations of routes and schemas."""

from collections.abc import Iterable, Iterator
from typing import Any

from apispec.ext.marshmallow import MarshmallowPlugin
from werkzeug.http import HTTP_STATUS_CODES

from app.agents.lookup import MAC
from app.api.authentication.session_cookie import COOKIE
from app.api.declarations import versions
from app.api.declarations.public_paths import is_public, signs_in
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
from app.api.request import repeats
from app.api.request.routes import PARAMETER, Route
from app.api.transport.host_check import WRITING
from app.api.transport.responses import JSON
from app.api.values.value_types import NAME, CommaSeparated, Flag, Ident, Mac, Name, Uuid

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
    "secret": "Secret of the subscription",
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
    "bmc_documents": "Documents of BMCs", "bmc_recordings": "Recordings of operations",
    "event_subscription": "Subscriptions to the events of BMCs", "bmc_events": "Events of BMCs",
    "agent_logs": "Logs of agents", "sanitation": "Sanitation reports", "refreshes": "Refreshes",
    "benchmarks": "Measured numbers",
    "vendor": "Vendor functions", "allocations": "Allocations",
    "deploy_templates": "Deploy templates", "runbooks": "Runbooks",
    "inspection_rules": "Inspection rules", "chassis": "Chassis", "drivers": "Drivers",
    "conductors": "Conductors", "service": "State of the service",
    "networks": "Networks and switches", "switch_ports": "Switch ports of nodes",
    "baselines": "Baselines, and compliance with them",
    "quotas": "Quotas of projects",
    "shards": "Shards", "agents": "Agents", "webhooks": "Webhooks", "holds": "Holds on nodes",
    "events": "Events of other services", "audit": "Audit", "login": "Sessions of browsers",
    "permissions": "Permissions of the caller",
    "root": "The service",
}  # fmt: skip
#: Parts of the paths whose handlers wait for a call to a conductor.
CALLS = (
    "/management/", "/bmc/", "/vmedia", "/vendor_passthru", "/states/console", "/console",
    "/switch_ports",
)  # fmt: skip
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


def _pattern(_converter: Any, field: Any, **_kwargs: object) -> dict[str, Any]:
    pattern = FIELDS.get(type(field), ("", None, None))[2]
    return {"pattern": pattern} if pattern else {}


def document(spec: Any, routes: Iterable[Route]) -> dict[str, Any]:
    """
    Build the OpenAPI document.

    spec: apispec of flask-smorest, the source of parameters and request bodies.
    """
    content: dict[str, Any] = spec.to_dict()
    content["info"]["description"] = ABOUT
    tags = {tag["name"]: tag for tag in content["tags"]}
    content["tags"] = [tags[name] | {"x-displayName": title} for name, title in SECTIONS.items()]
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = PARAMETER.sub(r"{\1}", route.path)
        operations, method = content["paths"].get(path, {}), route.method.lower()
        operation, in_path = operations.get(method, {}), operations.get("parameters", [])
        paths.setdefault(path, {})[method] = _operation(route, operation, in_path)
    incoming = content["components"]["schemas"]
    for name in ("Error", "PaginationMetadata"):  # added by flask-smorest, not used here
        incoming.pop(name, None)
    for schema in incoming.values():
        schema.setdefault("additionalProperties", False)
    for kind in versions.FIELDS:
        name = f"{kind.title().replace(' ', '')}Create"
        if name in incoming:
            incoming[name] = versioned(kind, incoming[name])
    responses = {str(status): _error_response(status) for status in ERRORS}
    return content | {
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
    schemas: dict[str, Shape] = {}
    pending = [node]
    while pending:
        match pending.pop():
            case Component() as component if component.name not in schemas:
                schemas[component.name] = component.schema
                pending.append(component.schema)
            case Component() as component if schemas[component.name] != component.schema:
                raise TypeError(f"{component.name}: two JSON Schemas have this name")
            case Component():
                pass
            case dict() as document:
                pending += document.values()
            case list() as documents:
                pending += documents
    return dict(sorted(schemas.items()))


def _operation(
    route: Route, operation: dict[str, Any], in_path: list[dict[str, Any]]
) -> dict[str, Any]:
    """
    Build an OpenAPI operation: method and path.

    operation, in_path: the operation and the parameters of its path, from flask-smorest.
    """
    parameters = [
        *(parameter | {"description": PATH_PARAMETERS[parameter["name"]]} for parameter in in_path),
        *_query_parameters(route, operation.get("parameters", [])),
        *({"$ref": f"#/components/parameters/{name}"} for name in _request_headers(route)),
    ]
    body = _body(route, operation)
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


def _query_parameters(route: Route, parameters: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of the query. parameters: of the route's schemas."""
    for name, text in route.parameters.items():
        yield {
            "name": name, "in": "query", "description": text, "schema": TEXT, "required": True,
        }  # fmt: skip
    gates = versions.QUERIES.get(route.query or "", {})
    for parameter in parameters:
        name, changes = parameter["name"], dict[str, Any]()
        if route.path.endswith("/detail") and name in ("detail", "fields"):
            continue  # the route shows all fields
        if parameter["in"] == BODY_OR_QUERY:
            if {"array", "object"} & _types(parameter["schema"]):
                continue
            changes |= {"in": "query", "required": False}
        if name == "fields" and route.returns.fields:
            names = {"type": "array", "items": one_of(route.returns.fields)}
            changes |= {"schema": names, "style": "form", "explode": False}
        if name == "sort_key" and route.returns.sortable:
            changes |= {"schema": one_of(route.returns.sortable)}
        if name in gates:
            changes |= {"x-since": f"1.{gates[name]}"}
        yield parameter | changes


def _body(route: Route, operation: dict[str, Any]) -> dict[str, Any] | None:
    """Describe the body of a request; None for no body."""
    if route.takes is not None:
        is_required = route.method not in ("GET", "DELETE")
        return {"required": is_required, "content": {JSON: {"schema": route.takes}}}
    either = [
        parameter
        for parameter in operation.get("parameters", [])
        if parameter["in"] == BODY_OR_QUERY
    ]
    if not either:
        return operation.get("requestBody")
    described = {
        parameter["name"]: parameter["schema"]
        | ({"description": parameter["description"]} if "description" in parameter else {})
        for parameter in either
    }
    optional = {parameter["name"] for parameter in either if not parameter.get("required")}
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
    has_name = any("name" in parameter for parameter in parameters)
    yield 400
    if not _is_public(route):
        yield 401
    opens_socket = SWITCHING in route.returns.bodies
    if route.rule or opens_socket:
        yield 403
    if has_name or route.since > versions.MIN:
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
    further_headers = {
        401: {"WWW-Authenticate": "Authentication scheme that the service accepts"},
        409: {"Retry-After": "Seconds until a retry may succeed"},
        503: {"Retry-After": "Seconds until a retry may succeed"},
    }.get(status, {})
    return {
        "description": ERRORS[status],
        "headers": _common_headers()
        | {name: {"description": text, "schema": TEXT} for name, text in further_headers.items()},
        "content": {JSON: {"schema": shape}},
    }
