"""
Routes: how a handler says where it is, since when, what it takes and what it answers.

    @nodes.at("GET", "/nodes/<ident>/history", since=78, returns=ENTRIES)
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

from app.api import versions
from app.api.auth import caller
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import Shape
from app.api.parsing import body, parser
from app.api.policy import enforce
from app.api.policy.targets import owned_at
from app.errors import Invalid

View = Callable[..., Any]

WRITING = ("POST", "PUT", "PATCH", "DELETE")

PARAMETER = re.compile(r"<(?:[^>:]*:)?(\w+)>")
#: endpoint -> the minor version before which there is nothing at its path
_HIDDEN_BEFORE: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Route:
    """Where a handler is, and who may ask it; see `Routes.at`."""

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


class Routes(flask_smorest.Blueprint):
    """Handlers of one kind of resource. declared: where they are."""

    ARGUMENTS_PARSER = parser

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, f"app.api.{name}", url_prefix="/v1", description=description)
        self.declared: list[Route] = []

    def arguments(self, schema: Any, **kwargs: Any) -> Any:
        """As flask-smorest's, with one schema for all requests: to make one is dear."""
        return super().arguments(schema() if isinstance(schema, type) else schema, **kwargs)

    def at(  # noqa: C901 - its decorator counts as part of it
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
        name: str | None = None,
        summary: str | None = None,
    ) -> Callable[[View], View]:
        """
        Answer `method` on `path` (and HEAD with GET) from a minor version on; older requests get
        `gone`: 404, 405 or 406. query: whose parameters' versions are checked. rule: of the
        policy, that callers must pass; None for what anybody may call. What it is asked about is
        what the path's first parameter names.

        returns: the answers of success, or the JSON Schema of the only one, a 200. takes: that of a
        body which no marshmallow schema reads. parameters: required query parameters that no schema
        reads, name -> meaning. name, summary: those of the handler, if its function has others.
        """
        owned, named = owned_at(path), next(iter(PARAMETER.findall(path)), "")
        itself = owned if path.endswith(f"<{named}>") else None

        def decorate(view: View) -> View:  # noqa: C901 - one branch per kind of refusal
            handler = name or view.__name__
            only_body = _places(view) == {"json"}

            @wraps(view)
            def checked(*args: Any, **kwargs: Any) -> Any:
                if itself and versions.DROPPED in request.environ:
                    kwargs[named] = itself.full_name(kwargs[named])
                restricted = rule is not None and caller().restricted
                if rule and restricted:  # who may not, is not told of versions either
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
                if only_body and request.args:
                    names = ", ".join(request.args)
                    raise Invalid(f"Unexpected arguments: {names}: not taken by {method} {path}")
                if query:
                    versions.check_query(query, request.args)
                answer = view(*args, **kwargs)
                if restricted:
                    enforce.confirm_narrowed(handler)
                return answer

            self.declared.append(
                Route(
                    method=method,
                    path=f"{self.url_prefix}{path}",
                    handler=handler,
                    summary=summary or summary_of(view),
                    tag=self.name,
                    since=since,
                    gone=gone,
                    query=query,
                    rule=rule,
                    returns=returns if isinstance(returns, Returns) else Returns({200: returns}),
                    takes=takes,
                    parameters=parameters or {},
                )
            )
            if gone == 404:
                _HIDDEN_BEFORE[f"{self.name}.{handler}"] = since
            self.route(path, methods=[method], endpoint=handler)(checked)
            return view

        return decorate

    def closed(self, path: str, since: int = versions.MIN) -> None:
        """
        A list of what belongs to something can only be read: whatever else is asked of it, or of
        an item below it, is a 400 that says so.
        """
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
        """Whatever some methods ask of a path is refused, in versions that have it."""

        def refuse(**_parameters: str) -> Never:
            raise NoSuchRoute if versions.current() < since else why()

        undocumented = super(flask_smorest.Blueprint, self).add_url_rule
        name = re.sub(r"\W+", "_", path)
        undocumented(path, f"refused{name}", refuse, methods=methods)


def _what(path: str) -> str:
    """What a path is about: "runbook traits"."""
    *whose, what = [part for part in path.replace("_", " ").split("/")[1:] if "<" not in part]
    return " ".join([*(word.removesuffix("s") for word in whose), what])


def _places(view: View) -> set[str]:
    """Where a handler says that its arguments are: query, json, json_or_query."""
    documented = getattr(view, "_apidoc", {}).get("arguments", {})
    return {each["in"] for each in documented.get("parameters", ())}


def _others(method: str) -> list[str]:
    """The methods of the request's path without one that is too new."""
    adapter = request_ctx.url_adapter
    return sorted(set(adapter.allowed_methods()) - {method}) if adapter else []


def hidden() -> bool:
    """
    Whether the request's path, which does not have its method, is a part of something and too new
    for the request's version by any other method.
    """
    adapter, minor = request_ctx.url_adapter, versions.current()
    if adapter is None or adapter.path_info.count("/") < 3:
        return False
    others = (adapter.match(method=each)[0] for each in adapter.allowed_methods())
    return all(minor < _HIDDEN_BEFORE.get(endpoint, versions.MIN) for endpoint in others)


def summary_of(view: View) -> str:
    """What a handler does: the first line of its docstring."""
    return (view.__doc__ or "").strip().partition("\n")[0].rstrip(".")
