"""Operations in the OpenAPI document: a method of a path, from the declaration of its route."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from app.api.declarations import versions
from app.api.declarations.public_paths import is_public, signs_in
from app.api.openapi.shapes import TEXT, Shape, exactly, one_of
from app.api.request.routes import PARAMETER, Route
from app.api.transport.host_check import WRITING
from app.api.transport.responses import JSON
from app.api.web.document_responses import success

#: Parameter of a path -> its description.
PATH_PARAMETERS = {
    "ident": "UUID or name", "uuid": "UUID", "name": "Name", "hostname": "Name of the conductor",
    "trait": "Name of the trait", "vif": "Id of the VIF", "indicator": "name@component",
    "function": "Name of the function", "flow": "Flow that the steps belong to",
    "secret": "Secret of the subscription",
}  # fmt: skip
#: Parts of the paths whose handlers wait for a call to a conductor.
CALLS = (
    "/management/", "/bmc/", "/vmedia", "/vendor_passthru", "/states/console", "/console",
    "/switch_ports",
)  # fmt: skip
#: Location of parameters that `parsing` accepts in the body or in the query.
BODY_OR_QUERY = "json_or_query"
#: Status of an answer that opens a WebSocket.
SWITCHING = 101

#: Parameter of an operation, with the members that are read here.
Parameter = TypedDict(
    "Parameter",
    {
        "name": str, "in": str, "description": str, "required": bool, "schema": Shape,
        "style": str, "explode": bool, "x-since": str,
    },
    total=False,
)  # fmt: skip


class Operation(TypedDict, total=False):
    """Operation of a route as flask-smorest describes it, by the schemas of its arguments."""

    parameters: list[Parameter]
    requestBody: dict[str, object]


def operation(route: Route, of_arguments: Operation, in_path: list[Parameter]) -> dict[str, object]:
    """
    Build an OpenAPI operation: method and path.

    of_arguments, in_path: the operation, and the parameters of its path, from flask-smorest.
    """
    parameters = [
        *(parameter | {"description": PATH_PARAMETERS[parameter["name"]]} for parameter in in_path),
        *_query_parameters(route, of_arguments.get("parameters", [])),
        *({"$ref": f"#/components/parameters/{name}"} for name in _request_headers(route)),
    ]
    body = _body(route, of_arguments)
    successes = {str(status): success(route.returns, status) for status in route.returns.bodies}
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


def _query_parameters(route: Route, parameters: list[Parameter]) -> Iterator[Parameter]:
    """Yield the parameters of the query. parameters: of the route's schemas."""
    for name, text in route.parameters.items():
        yield {
            "name": name, "in": "query", "description": text, "schema": TEXT, "required": True,
        }  # fmt: skip
    gates = versions.QUERIES.get(route.query or "", {})
    for parameter in parameters:
        name, changes = parameter["name"], Parameter()
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


def _body(route: Route, operation: Operation) -> dict[str, object] | None:
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


def _error_statuses(
    route: Route, parameters: Sequence[Mapping[str, object]], body: object
) -> Iterator[int]:
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
