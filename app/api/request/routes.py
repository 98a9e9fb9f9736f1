"""
Declaration of routes: path, microversion, policy rule, arguments and responses of a handler.

    @nodes.declare("GET", "/nodes/<ident>/history", since=78, returns=ENTRIES)
    @nodes.arguments(HistoryQuery, location="query")
    def list_history(query, ident): ...
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Never

import flask_smorest
from flask import request
from flask.globals import request_ctx
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.exceptions import NotFound as NoSuchRoute

from app.api.authentication.strategies import caller
from app.api.declarations import versions
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import Shape
from app.api.policy import enforce
from app.api.policy.targets import owned_at
from app.api.request import auditing, repeats
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

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, "app.api", url_prefix="/v1", description=description)
        self.declared: list[Route] = []  # for the documentation

    def arguments(self, schema: Any, **kwargs: Any) -> Any:
        """Load arguments by a schema that is built once, not for each request: building is slow."""
        return super().arguments(schema() if isinstance(schema, type) else schema, **kwargs)

    def declare(  # noqa: C901 - its decorator counts as part of it
        self,
        method: str,
        path: str,
        *,
        since: int = versions.MIN,
        gone: int = 404,
        query: str | None = None,
        rule: str | None = None,
        returns: Returns | Shape,
        takes: Shape | None = None,
        parameters: Mapping[str, str] | None = None,
        no_key: str | None = None,
        name: str | None = None,
        summary: str | None = None,
    ) -> Callable[[View], View]:
        """
        Answer `method` on `path` (and HEAD with GET).

        since: first minor version of the route. gone: status in older versions: 404, 405 or 406.
        query: key in `versions.QUERIES` for the versions of query parameters; None: no check. rule:
        policy rule for callers, checked for the object that the first parameter of the path
        identifies; None: open to every caller.

        returns: the responses of success, or the JSON Schema of a 200. takes: JSON Schema of a body
        that no marshmallow schema loads. parameters: required query parameters that no schema
        loads, name -> description. no_key: why a request that changes something takes no
        `Idempotency-Key` (`app.api.request.repeats`); None: its work is in a transaction, and it
        takes one. name, summary: of the handler, unless those of its function are used.
        """
        owned, named = owned_at(path), next(iter(PARAMETER.findall(path)), "")
        answers = returns if isinstance(returns, Returns) else Returns({200: returns})
        itself = owned if path.endswith(f"<{named}>") else None
        of_node = bool(owned and owned.kind == "node" and named)

        def decorate(view: View) -> View:  # noqa: C901 - one branch per kind of refusal
            handler = name or view.__name__
            only_body = _places(view) == {"json"}
            route = Route(
                method=method,
                path=f"{self.url_prefix}{path}",
                handler=handler,
                summary=summary or summary_of(view),
                tag=self.name,
                since=since,
                gone=gone,
                query=query,
                rule=rule,
                returns=answers,
                takes=takes,
                parameters=parameters or {},
                no_key=no_key,
            )

            @wraps(view)
            def checked(*args: Any, **kwargs: Any) -> Any:
                if itself and versions.DROPPED in request.environ:
                    kwargs[named] = itself.full_name(kwargs[named])
                restricted = rule is not None and caller().restricted
                if (
                    rule and restricted
                ):  # before the version check, whose message would disclose the route
                    enforce.check(rule, owned, kwargs.get(named), lambda: body(request))
                if versions.current() < since:
                    if gone == 406:
                        versions.require(since, f"{method} {path}")
                    why = (
                        f"The API version does not allow {_what(path)}: The API is not supported"
                        f" for this version, it begins with 1.{since}"
                    )
                    if gone == 405:
                        raise MethodNotAllowed(_others(method), description=why)
                    raise NoSuchRoute(description=why)
                if route.method in WRITING:
                    _check_headers(route)
                if only_body and request.args:
                    names = ", ".join(request.args)
                    raise Invalid(f"Unexpected arguments: {names}: not taken by {method} {path}")
                if query:
                    versions.check_query(query, request.args)
                with concealed_errors(kwargs[named] if of_node else None):
                    answer = view(*args, **kwargs)
                if restricted:
                    enforce.confirm_narrowed(handler)
                return answer

            self.declared.append(route)
            auditing.declare(f"{self.name}.{handler}", method, path, next(iter(answers.bodies)))
            if gone == 404:
                _HIDDEN_BEFORE[f"{self.name}.{handler}"] = since
            self.route(path, methods=[method], endpoint=handler)(
                repeats.repeatable(checked) if route.takes_key else checked
            )
            return view

        return decorate

    def closed(self, path: str, since: int = versions.MIN) -> None:
        """Answer writes to a list below another resource, and requests for its items, with 400."""
        why = f"{path} can only be listed; the items have routes of their own."
        self.refused(path, lambda: Invalid(why), since)
        self.refused(f"{path}/<item>", lambda: Invalid(why), since, ("GET", *WRITING))

    def refused(
        self,
        path: str,
        why: Callable[[], Exception],
        since: int = versions.MIN,
        methods: tuple[str, ...] = WRITING,
    ) -> None:
        """Raise `why()` for these methods of a path; in versions older than `since` a 404."""

        def refuse(**_parameters: str) -> Never:
            raise NoSuchRoute if versions.current() < since else why()

        undocumented = super(flask_smorest.Blueprint, self).add_url_rule
        name = re.sub(r"\W+", "_", path)
        undocumented(path, f"refused{name}", refuse, methods=methods)


def _check_headers(route: Route) -> None:
    """
    Refuse the headers of repeatable and of conditional requests where they have no effect.

    Raises Invalid.
    """
    if route.no_key is not None:
        repeats.refuse(route.no_key)
    if repeats.IF_MATCH in request.headers and not route.takes_tag:
        raise Invalid(f"{repeats.IF_MATCH}: not taken by this request: only nodes have entity tags")


def _what(path: str) -> str:
    """Noun for a path, as "runbook traits"."""
    *whose, what = [part for part in path.replace("_", " ").split("/")[1:] if "<" not in part]
    return " ".join([*(word.removesuffix("s") for word in whose), what])


def _places(view: View) -> set[str]:
    """Locations of a handler's arguments: query, json, json_or_query."""
    documented = getattr(view, "_apidoc", {}).get("arguments", {})
    return {each["in"] for each in documented.get("parameters", ())}


def _others(method: str) -> list[str]:
    """Methods of the request's path, without one that is too new."""
    adapter = request_ctx.url_adapter
    return sorted(set(adapter.allowed_methods()) - {method}) if adapter else []


def hidden() -> bool:
    """
    Whether a 405 must be a 404: all methods of the path are newer than the request's version.

    Collections at the top, as /v1/runbooks, stay a 405.
    """
    adapter, minor = request_ctx.url_adapter, versions.current()
    if adapter is None or adapter.path_info.count("/") < 3:
        return False
    others = (adapter.match(method=each)[0] for each in adapter.allowed_methods())
    return all(minor < _HIDDEN_BEFORE.get(endpoint, versions.MIN) for endpoint in others)


def summary_of(view: View) -> str:
    """Summary of a handler: the first line of its docstring."""
    return (view.__doc__ or "").strip().partition("\n")[0].rstrip(".")
