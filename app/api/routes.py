"""
Routes: how a handler says where it is, since when, and what it takes.

    @nodes.at("GET", "/nodes/<ident>/history", since=78)
    @nodes.arguments(HistoryQuery, location="query")
    def list_history(query, ident): ...
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, Never

import flask_smorest
import orjson
from flask import Request, request
from flask.globals import request_ctx
from flask.json.provider import JSONProvider
from marshmallow import RAISE, Schema, ValidationError, missing
from webargs.flaskparser import FlaskParser
from webargs.multidictproxy import MultiDictProxy
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.exceptions import NotFound as NoSuchRoute

from app.api import access, versions
from app.api.answers import OPTIONS
from app.api.auth import caller
from app.api.errors import TooDeep
from app.api.owned import owned_at
from app.api.wording import told
from app.errors import Invalid, TooLarge

View = Callable[..., Any]

#: Largest bodies in bytes, by how the path ends.
DEFAULT_LIMIT = 1024 << 10
LIMITS = {"/states/provision": 65536 << 10, "/continue_inspection": 16384 << 10}
DEEPEST = 25
TOO_DEEP = (
    "Request body JSON is nested too deeply. Please contact the service administrator: more than"
    f" {DEEPEST} levels."
)
WRITING = ("POST", "PUT", "PATCH", "DELETE")

PARAMETER = re.compile(r"<(?:[^>:]*:)?(\w+)>")
#: endpoint -> the minor version before which there is nothing at its path
_HIDDEN_BEFORE: dict[str, int] = {}


class Json(JSONProvider):
    """JSON by orjson, for flask's own use too."""

    def dumps(self, obj: Any, **_kwargs: Any) -> str:
        return orjson.dumps(obj, option=OPTIONS).decode()

    def loads(self, s: str | bytes, **_kwargs: Any) -> Any:
        return orjson.loads(s)


class Parser(FlaskParser):
    """Checks what comes in; whatever is wrong is a 400."""

    DEFAULT_VALIDATION_STATUS = 400
    DEFAULT_UNKNOWN_BY_LOCATION = {"query": RAISE, "json": RAISE, "json_or_query": RAISE}

    def get_default_request(self) -> Request:
        return request_ctx.request  # to ask flask's stand-in for it costs more at every turn

    def parse(self, argmap: Any, req: Any = None, *, location: Any = None, **how: Any) -> Any:
        if location == "query" and not request_ctx.request.query_string and is_optional(argmap):
            return {}  # most requests have none, and to check nothing costs as much as a query
        return super().parse(argmap, req, location=location, **how)

    def load_json(self, req: Request, schema: Schema) -> Any:
        return body(req)

    def handle_error(
        self,
        error: ValidationError,
        req: Request,
        schema: Schema,
        *,
        error_status_code: int | None,
        error_headers: Mapping[str, str] | None,
    ) -> Never:
        raise Invalid(told(error, schema)) from error


@cache
def is_optional(schema: Schema) -> bool:
    """Whether a schema makes nothing of nothing."""
    return not any(
        each.required or each.load_default is not missing for each in schema.fields.values()
    )


parser = Parser()


@parser.location_loader("json_or_query")
def _json_or_query(req: Request, schema: Schema) -> Any:
    """A simple body may come as query arguments instead."""
    document = body(req) if req.content_length or req.is_json else {}
    if not req.query_string or not isinstance(document, dict):
        return document
    for name in req.args.keys() & document.keys():
        raise Invalid(f"{name}: given both in the body and as an argument")
    return {**MultiDictProxy(req.args, schema), **document}


def body(req: Request) -> Any:
    """The JSON document of a request. Raises Invalid, TooLarge, TooDeep."""
    limit = limit_of(req.path)
    if (req.content_length or 0) > limit:
        raise TooLarge(f"Request body too large: more than {limit >> 10} KiB.")
    req.max_content_length = limit
    data = req.get_data()
    if data and not req.is_json:
        raise Invalid("The body of a request must be JSON, its Content-Type application/json.")
    if not data:
        return {}
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "recursion" in str(error).lower():
            raise TooDeep(TOO_DEEP) from error
        raise Invalid(f"Malformed JSON: {error}") from error
    if data.count(b"{") + data.count(b"[") > DEEPEST and depth(document) > DEEPEST:
        raise TooDeep(TOO_DEEP)
    return document


def limit_of(path: str) -> int:
    """The most bytes of a body."""
    return next((size for end, size in LIMITS.items() if path.endswith(end)), DEFAULT_LIMIT)


def depth(document: Any) -> int:
    """Levels of nesting; 0 for a plain value."""
    level, deepest = [document], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        deepest += 1
        level = [
            value for each in level for value in (each.values() if isinstance(each, dict) else each)
        ]
    return deepest


@dataclass(frozen=True, slots=True)
class Route:
    """Where a handler is, and who may ask it; see `Routes.at`."""

    method: str
    path: str
    handler: str
    summary: str
    tag: str
    since: int = versions.MIN
    gone: int = 404
    query: str | None = None
    rule: str | None = None


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
    ) -> Callable[[View], View]:
        """
        Answer `method` on `path` (and HEAD with GET) from a minor version on; older requests get
        `gone`: 404, 405 or 406. query: whose parameters' versions are checked. rule: of the
        policy, that callers must pass; None for what anybody may call. What it is asked about is
        what the path's first parameter names.
        """
        owned, named = owned_at(path), next(iter(PARAMETER.findall(path)), "")
        itself = owned if path.endswith(f"<{named}>") else None

        def decorate(view: View) -> View:  # noqa: C901 - one branch per kind of refusal
            only_body = _places(view) == {"json"}

            @wraps(view)
            def checked(*args: Any, **kwargs: Any) -> Any:
                if itself and versions.DROPPED in request.environ:
                    kwargs[named] = itself.full_name(kwargs[named])
                restricted = rule is not None and caller().restricted
                if rule and restricted:  # who may not, is not told of versions either
                    access.check(rule, owned, kwargs.get(named), lambda: body(request))
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
                    access.confirm_narrowed(view)
                return answer

            name, full = view.__name__, f"{self.url_prefix}{path}"
            route = Route(method, full, name, summary(view), self.name, since, gone, query, rule)
            self.declared.append(route)
            if gone == 404:
                _HIDDEN_BEFORE[f"{self.name}.{name}"] = since
            self.route(path, methods=[method], endpoint=name)(checked)
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


def summary(view: View) -> str:
    """What a handler does: the first line of its docstring."""
    return (view.__doc__ or "").strip().partition("\n")[0].rstrip(".")
