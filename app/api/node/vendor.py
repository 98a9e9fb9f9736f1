"""Routes of vendor passthru: functions of a vendor interface, called by name."""

from flask import Response, request

from app.api.node.management import call_conductor
from app.api.node.node_identifiers import change_locked, node_of
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import (
    ANYTHING,
    BOOLEAN,
    DOCUMENT,
    TEXT,
    Component,
    array,
    exactly,
    map_of,
    one_of,
)
from app.api.request import auditing, repeats
from app.api.request.context import RequestContext
from app.api.request.parsing import body
from app.api.request.routes import Routes
from app.api.transport.responses import JSON, empty, json
from app.engine import management as service
from app.errors import Invalid
from app.hardware import drivers
from drivers.core import passthru

vendor = Routes("vendor", "Vendor passthru: functions of vendor interfaces")

NODE = "/nodes/<ident>/vendor_passthru"
DRIVER = "/drivers/<name>/vendor_passthru"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

VENDOR_FUNCTION = Component("VendorFunction", exactly({
    "http_methods": array(one_of(METHODS)), "async": BOOLEAN, "description": TEXT,
    "attach": BOOLEAN, "require_exclusive_lock": BOOLEAN,
}))  # fmt: skip
CALLED = Returns({200: ANYTHING, 202: None}, types=(JSON, "application/octet-stream"))


@vendor.declare(
    "GET", f"{NODE}/methods", rule="baremetal:node:vendor_passthru", returns=map_of(VENDOR_FUNCTION)
)
def list_functions(context: RequestContext, ident: str) -> Response:
    """List the vendor functions of a node"""
    with context.runtime.reading() as session:
        functions = service.vendor_functions(session, node_of(context, session, ident))
    return json({name: function.document() for name, function in functions.items()})


def _call(context: RequestContext, ident: str, name: str) -> Response:
    arguments = body(context)
    if not isinstance(arguments, dict):
        raise Invalid("The body of a vendor function must be an object: its arguments.")
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        function = service.vendor_function(session, node, name, request.method, arguments)
    if function.asynchronous and function.exclusive:
        return change_locked(
            context, ident, empty(202), service.request_vendor_call, name, arguments, context.caller
        )
    repeats.refuse(context.request, repeats.CALLS)
    auditing.announce(context)  # GET, too: a function may do anything
    method_name = "call" if function.exclusive else "call_shared"
    answer = call_conductor(context, ident, method_name, function=name, arguments=arguments)
    if function.asynchronous:
        return empty(202)
    return _shown(function, answer)


def _shown(function: passthru.Passthru, answer: object) -> Response:
    if function.attach:
        return Response(str(answer), content_type="application/octet-stream")
    return json(answer) if answer is not None else Response(b"null", content_type=JSON)


def _routes_for(method: str) -> None:
    """Declare handlers for one HTTP method: OpenAPI requires a unique name for each operation."""

    def call_function(context: RequestContext, ident: str, function: str) -> Response:
        """Call a vendor function of a node"""
        return _call(context, ident, function)

    def call_named_function(context: RequestContext, ident: str) -> Response:
        """Call the vendor function of a node that the query names"""
        return _call(context, ident, _named())

    def call_driver_function(context: RequestContext, name: str, function: str) -> Response:
        """Call a vendor function of a driver"""
        return _refuse(context, name, function)

    def call_named_driver_function(context: RequestContext, name: str) -> Response:
        """Call the vendor function of a driver that the query names"""
        return _refuse(context, name, _named())

    for view, path, rule in (
        (call_function, f"{NODE}/<function>", "baremetal:node:vendor_passthru"),
        (call_named_function, NODE, "baremetal:node:vendor_passthru"),
        (call_driver_function, f"{DRIVER}/<function>", "baremetal:driver:vendor_passthru"),
        (call_named_driver_function, DRIVER, "baremetal:driver:vendor_passthru"),
    ):
        vendor.declare(
            method,
            path,
            rule=rule,
            returns=CALLED,
            takes=DOCUMENT,
            parameters={} if "<function>" in path else {"method": "Name of the function"},
            no_key=repeats.NO_FUNCTIONS if path.startswith(DRIVER) else None,
            any_query=True,
            name=f"{view.__name__}_by_{method.lower()}",
        )(view)


def _named() -> str:
    name = request.args.get("method")
    if not name:
        raise Invalid("method: name the vendor function")
    return name


@vendor.declare(
    "GET",
    f"{DRIVER}/methods",
    rule="baremetal:driver:vendor_passthru",
    returns=map_of(VENDOR_FUNCTION),
)
def list_driver_functions(context: RequestContext, name: str) -> Response:
    """List the vendor functions of a driver: none has any"""
    with context.runtime.reading() as session:
        drivers.find(session, name)
    return json({})


def _refuse(context: RequestContext, name: str, function: str) -> Response:
    with context.runtime.reading() as session:
        drivers.find(session, name)
    raise Invalid(f"Driver {name} has no vendor function {function!r}; it has none.")


for _method in METHODS:
    _routes_for(_method)
