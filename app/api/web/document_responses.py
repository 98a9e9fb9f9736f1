"""Responses in the OpenAPI document: successes of one route, and errors, which all routes share."""

from collections.abc import Mapping

from werkzeug.http import HTTP_STATUS_CODES

from app.api.declarations import versions
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import INTEGER, TEXT, Component, Shape, exactly, or_null
from app.api.transport.responses import JSON

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


def success(returns: Returns, status: int) -> dict[str, object]:
    """Describe the response of a route with one of its statuses."""
    shape = returns.bodies[status]
    response: dict[str, object] = {
        "description": HTTP_STATUS_CODES[status],
        "headers": _common_headers() | described(returns.headers),
    }
    if shape is None:
        return response
    return response | {"content": {kind: {"schema": shape} for kind in returns.types}}


def described(headers: Mapping[str, str]) -> dict[str, Shape]:
    """Describe headers of responses. headers: name -> description."""
    return {name: {"description": text, "schema": TEXT} for name, text in headers.items()}


def _common_headers() -> dict[str, Shape]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in HEADERS}


def error(status: int) -> dict[str, object]:
    """Describe the response of any route with a status of `ERRORS`."""
    shape = {"anyOf": [ERROR, FLAT_ERROR]} if status in FLAT else ERROR
    further_headers = {
        401: {"WWW-Authenticate": "Authentication scheme that the service accepts"},
        409: {"Retry-After": "Seconds until a retry may succeed"},
        503: {"Retry-After": "Seconds until a retry may succeed"},
    }.get(status, {})
    return {
        "description": ERRORS[status],
        "headers": _common_headers() | described(further_headers),
        "content": {JSON: {"schema": shape}},
    }
