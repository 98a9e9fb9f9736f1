"""
Declaration of routes: path, microversion, policy rule, arguments and responses of a handler.

    @nodes.declare("GET", "/nodes/<ident>/history", since=78, returns=ENTRIES)
    @nodes.arguments(HistoryQuery, location="query")
    def list_history(context, query, ident): ...
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Never

import flask_smorest
from flask.globals import request_ctx
from marshmallow import Schema
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.exceptions import NotFound as NoSuchRoute

from app.api.declarations import versions
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import Shape
from app.api.policy.targets import Owned, owned_at
from app.api.request import auditing, repeats
from app.api.request.context import RequestContext, current
from app.api.request.parsing import body, parser
from app.api.request.redaction import concealed_errors
from app.api.transport.host_check import WRITING
from app.errors import Invalid

View = Callable[..., Any]

PARAMETER = re.compile(r"<(?:[^>:]*:)?(\w+)>")
#: Endpoint -> the minor version before which its path is a 404.
_HIDDEN_BEFORE: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Route:
    """Declared route of a handler; `Routes.declare` describes the attributes."""

    method: str
    path: str
    handler: str
    summary: str
    tag: str
    returns: Returns
    since: int = versions.MIN
    gone: int = 404
    query: str | None = None
    rule: str | None = None
    takes: Shape | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    no_key: str | None = None

    @property
    def takes_key(self) -> bool:
        """Whether the route takes an `Idempotency-Key`."""
        return self.method in WRITING and self.no_key is None

    @property
    def takes_tag(self) -> bool:
        """Whether the route takes the entity tag of a node in `If-Match`."""
        return self.takes_key and self.path.startswith("/v1/nodes/<ident>")


class Routes(flask_smorest.Blueprint):
    """Blueprint with the routes of one kind of resource."""

    ARGUMENTS_PARSER = parser

    def __init__(self, name: str, description: str, *, since: int = versions.MIN) -> None:
        """since: first minor version of the routes that declare none of their own."""
        super().__init__(name, "app.api", url_prefix="/v1", description=description)
        self.since = since
        self.declared: list[Route] = []  # for the documentation

    def arguments(self, schema: Schema | type[Schema], **kwargs: object) -> Callable[[View], View]:
        """Load arguments by a schema that is built once, not for each request: building is slow."""
        loaded: Callable[[View], View] = super().arguments(
            schema() if isinstance(schema, type) else schema, **kwargs
        )
        return loaded

    def declare(
        self,
        method: str,
        path: str,
        *,
        since: int | None = None,
        gone: int = 404,
        query: str | None = None,
        rule: str | None = None,
        returns: Returns | Shape,
        takes: Shape | None = None,
        parameters: Mapping[str, str] | None = None,
        no_key: str | None = None,
        any_query: bool = False,
        name: str | None = None,
        summary: str | None = None,
    ) -> Callable[[View], View]:
        """
        Answer `method` on `path` (and HEAD with GET).

        since: first minor version of the route, by default of the blueprint. gone: status in older
        versions: 404, 405 or 406.
        query: key in `versions.QUERIES` for the versions of query parameters, if they are checked.
        rule: policy rule for callers, checked for the object that the first parameter of the path
        identifies; a route without a rule is open to every caller.

        returns: the responses of success, or the JSON Schema of a 200. takes: JSON Schema of a body
        that no marshmallow schema loads. parameters: required query parameters that no schema
        loads, name -> description. no_key: why a request that changes something takes no
        `Idempotency-Key` (`app.api.request.repeats`); by default its work is in a transaction,
        and it takes one. any_query: take each query parameter, although the handler declares no
        arguments. name, summary: of the handler, unless those of its function are used.
        """
        responses = returns if isinstance(returns, Returns) else Returns({200: returns})
        first_version = self.since if since is None else since

        def decorate(view: View) -> View:
            route = Route(
                method=method,
                path=f"{self.url_prefix}{path}",
                handler=name or view.__name__,
                summary=summary or summary_of(view),
                tag=self.name,
                since=first_version,
                gone=gone,
                query=query,
                rule=rule,
                returns=responses,
                takes=takes,
                parameters=parameters or {},
                no_key=no_key,
            )
            endpoint = f"{self.name}.{route.handler}"
            handler = view if any_query or _places(view) else self._without_query(view)
            guard = guard_of(route, path, handler)

            @wraps(handler)
            def guarded(**parameters: str) -> Any:
                return guard.answer(current(), parameters)

            self.declared.append(route)
            auditing.declare(endpoint, method, path, next(iter(responses.bodies)))
            if gone == 404:
                _HIDDEN_BEFORE[endpoint] = first_version
            self.route(path, methods=[method], endpoint=route.handler)(guarded)
            return view

        return decorate

    def _without_query(self, view: View) -> View:
        """Make a handler that declares no arguments refuse query parameters."""

        @self.arguments(Schema, location="query")
        @wraps(view)
        def handler(context: RequestContext, _query: object, **path: str) -> Any:
            return view(context, **path)

        return handler

    def closed(self, path: str, since: int = versions.MIN) -> None:
        """Answer writes to a list below another resource, and requests for its items, with 400."""
        reason = f"{path} can only be listed; the items have routes of their own."
        self.refused(path, lambda: Invalid(reason), since)
        self.refused(f"{path}/<item>", lambda: Invalid(reason), since, ("GET", *WRITING))

    def refused(
        self,
        path: str,
        error_of: Callable[[], Exception],
        since: int = versions.MIN,
        methods: tuple[str, ...] = WRITING,
    ) -> None:
        """Raise the error of `error_of` for these methods of a path; a 404 before `since`."""

        def refuse(**_parameters: str) -> Never:
            raise NoSuchRoute if current().version < since else error_of()

        undocumented = super(flask_smorest.Blueprint, self).add_url_rule
        name = re.sub(r"\W+", "_", path)
        undocumented(path, f"refused{name}", refuse, methods=methods)


@dataclass(frozen=True, slots=True)
class RouteGuard:
    """
    Checks of a request before its handler: access, version, headers, arguments, in this order.

    A message about the version would disclose the route to a caller who may not use it.
    """

    route: Route
    path: str  # without the prefix of the API
    view: View
    #: Kind of the resource that the path names, if it belongs to a project.
    owned: Owned | None
    #: Parameter of the path with the identifier of the resource; empty: the path has none.
    parameter: str
    takes_query: bool

    def answer(self, context: RequestContext, parameters: dict[str, str]) -> Any:
        """Answer a request, once if it has an `Idempotency-Key`. parameters: of the path."""
        if self.route.takes_key:
            return repeats.once(context, lambda: self._checked(context, parameters))
        return self._checked(context, parameters)

    def _checked(self, context: RequestContext, parameters: dict[str, str]) -> Any:
        if self._names_item and versions.DROPPED in context.request.environ:
            assert self.owned
            ident = self.owned.full_name(context.runtime, parameters[self.parameter])
            parameters = {**parameters, self.parameter: ident}
        self.check_access(context, parameters)
        self.check_version(context)
        self.check_headers(context)
        self.check_arguments(context)
        is_node = self.owned is not None and self.owned.kind == "node"
        with concealed_errors(context, parameters.get(self.parameter) if is_node else None):
            return self.view(context, **parameters)

    @property
    def _names_item(self) -> bool:
        """Whether the path ends with the identifier of the resource."""
        return self.owned is not None and self.path.endswith(f"<{self.parameter}>")

    def check_access(self, context: RequestContext, parameters: Mapping[str, str]) -> None:
        """
        Check the policy rule, and set the scope of lists.

        Raises Forbidden, NotFound, Invalid.
        """
        rule = self.route.rule
        if rule and context.caller.restricted:
            ident = parameters.get(self.parameter)
            context.scope = context.access.check(rule, self.owned, ident, lambda: body(context))

    def check_version(self, context: RequestContext) -> None:
        """
        Check that the version has the route.

        Raises NoSuchRoute, MethodNotAllowed, NotAcceptable.
        """
        since, method = self.route.since, self.route.method
        if context.version >= since:
            return
        if self.route.gone == 406:
            context.version.require(since, f"{method} {self.path}")
        reason = (
            f"The API version does not allow {_what(self.path)}: The API is not supported"
            f" for this version, it begins with 1.{since}"
        )
        if self.route.gone == 405:
            raise MethodNotAllowed(_others(method), description=reason)
        raise NoSuchRoute(description=reason)

    def check_headers(self, context: RequestContext) -> None:
        """
        Check that the headers of repeatable and of conditional requests have an effect.

        Raises Invalid.
        """
        route, headers = self.route, context.request.headers
        if route.method not in WRITING:
            return
        if route.no_key is not None:
            repeats.refuse(context.request, route.no_key)
        if repeats.IF_MATCH in headers and not route.takes_tag:
            raise Invalid(
                f"{repeats.IF_MATCH}: not taken by this request: only nodes have entity tags"
            )

    def check_arguments(self, context: RequestContext) -> None:
        """Check the names of the query's parameters. Raises Invalid, NotAcceptable."""
        route, arguments = self.route, context.request.args
        if not self.takes_query and arguments:
            names = ", ".join(arguments)
            raise Invalid(f"Unexpected arguments: {names}: not taken by {route.method} {self.path}")
        if route.query:
            context.version.check_query(route.query, arguments)


def guard_of(route: Route, path: str, view: View) -> RouteGuard:
    """Return the guard of a handler. path: without the prefix of the API."""
    return RouteGuard(
        route,
        path,
        view,
        owned_at(path),
        next(iter(PARAMETER.findall(path)), ""),
        takes_query=_places(view) != {"json"},
    )


def _what(path: str) -> str:
    """Noun for a path, as "runbook traits"."""
    *owners, noun = [part for part in path.replace("_", " ").split("/")[1:] if "<" not in part]
    return " ".join([*(word.removesuffix("s") for word in owners), noun])


def _places(view: View) -> set[str]:
    """Locations of a handler's arguments: query, json, json_or_query."""
    documented = getattr(view, "_apidoc", {}).get("arguments", {})
    return {parameter["in"] for parameter in documented.get("parameters", ())}


def _others(method: str) -> list[str]:
    """Methods of the request's path, without one that is too new."""
    adapter = request_ctx.url_adapter
    return sorted(set(adapter.allowed_methods()) - {method}) if adapter else []


def hidden(version: int) -> bool:
    """
    Whether a 405 must be a 404: all methods of the path are newer than the version.

    Collections at the top, as /v1/runbooks, stay a 405.
    """
    adapter = request_ctx.url_adapter
    if adapter is None or adapter.path_info.count("/") < 3:
        return False
    endpoints = (adapter.match(method=method)[0] for method in adapter.allowed_methods())
    return all(version < _HIDDEN_BEFORE.get(endpoint, versions.MIN) for endpoint in endpoints)


def summary_of(view: View) -> str:
    """Summary of a handler: the first line of its docstring."""
    return (view.__doc__ or "").strip().partition("\n")[0].rstrip(".")
