"""Discovery documents of the API, and the health check."""

from collections.abc import Callable
from importlib.metadata import version

from flask import Flask, Response, request
from sqlalchemy import text

from app.api.declarations import versions
from app.api.openapi.returns import Returns
from app.api.openapi.shapes import (
    BOOLEAN,
    LINKS,
    TEXT,
    Component,
    array,
    exactly,
    map_of,
    subset_of,
)
from app.api.request.context import RequestContext, current, services_of
from app.api.request.routes import Route, Routes, summary_of
from app.api.transport.responses import json, links
from app.api.values.value_types import TRUE
from app.reports import health

root = Routes("root", "Discovery of the API")

#: Release of the service: a header, because clients know the fields of the document.
RELEASE = "X-Ingot-Release"
INSTALLED = version("ingot")

VERSION = Component("Version", exactly(
    {"id": TEXT, "links": LINKS, "status": TEXT, "min_version": TEXT, "version": TEXT}
))  # fmt: skip
VERSIONS = exactly({
    "name": TEXT, "description": TEXT, "default_version": VERSION, "versions": array(VERSION),
})  # fmt: skip
V1 = subset_of(
    {
        "id": TEXT, "links": LINKS, "media_types": map_of(TEXT), "version": VERSION,
        **dict.fromkeys(versions.COLLECTIONS, LINKS),
    },
    always=["id", "links", "media_types", "version"],
)  # fmt: skip
HEALTH = exactly({
    "detailed": BOOLEAN,
    "reasons": array({"anyOf": [TEXT, exactly({"class": TEXT, "reason": TEXT, "details": TEXT})]}),
})  # fmt: skip


def _version(context: RequestContext) -> dict[str, object]:
    return {
        "id": "v1",
        "links": [{"href": f"{context.base_url}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "min_version": f"1.{versions.MIN}",
        "version": f"1.{versions.MAX}",
    }


def discover(context: RequestContext) -> Response:
    """List the API versions. Redirect browsers to the page of operators."""
    media_types = request.accept_mimetypes
    if media_types.best_match(("application/json", "text/html")) == "text/html":
        return Response(
            status=302, headers={"Location": f"{context.base_url}/ui", "Vary": "Accept"}
        )
    version = _version(context)
    answer = json(
        {
            "name": "OpenStack Ironic API",
            "description": "Ingot provisions bare-metal servers. It speaks Ironic's API.",
            "default_version": version,
            "versions": [version],
        }
    )
    answer.headers[RELEASE] = INSTALLED
    return answer


#: Collections that precede the version in the document, as in Ironic.
OLDEST = ("chassis", "nodes", "ports", "drivers")


@root.declare("GET", "", returns=V1, any_query=True)
def show_v1(context: RequestContext) -> Response:
    """List the collections"""
    base = context.base_url
    docs = {"href": f"{base}/docs", "rel": "describedby", "type": "text/html"}
    collections = {
        name: [
            {"href": f"{base}/v1/{name}/", "rel": "self"},
            {"href": f"{base}/{name}/", "rel": "bookmark"},
        ]
        for name, since in versions.COLLECTIONS.items()
        if since <= context.version
    }
    return json(
        {
            "id": "v1",
            "links": [links("", base)[0], docs],
            "media_types": {
                "base": "application/json",
                "type": "application/vnd.openstack.ironic.v1+json",
            },
            **{name: collections.pop(name) for name in OLDEST},
            "version": _version(context),
            **collections,
        }
    )


def healthcheck(context: RequestContext) -> Response:
    """
    Check whether the API can answer requests: the database is reachable.

    With `detailed=true` the whole service is checked: 503 unless all its parts do their work. Load
    balancers omit it: the API accepts and records requests while all conductors are down.
    """
    detailed = request.args.get("detailed", "").lower() in TRUE
    with context.runtime.reading() as session:
        if not detailed:
            session.execute(text("SELECT 1"))
            return json({"detailed": False, "reasons": ["OK"]})
        parts = health.examine(session)
    reasons = [
        {"class": part.part, "reason": part.reason, "details": part.details} for part in parts
    ]
    healthy = all(part.is_healthy for part in parts)
    return json({"detailed": True, "reasons": reasons}, 200 if healthy else 503)


#: Routes outside of /v1.
DISCOVER = Route("GET", "/", "discover", summary_of(discover), "root", Returns({200: VERSIONS}))
HEALTHCHECK = Route(
    "GET", "/healthcheck", "healthcheck", summary_of(healthcheck), "root", Returns({200: HEALTH})
)


def _with_context(view: Callable[[RequestContext], Response]) -> Callable[[], Response]:
    return lambda: view(current())


def register(app: Flask) -> list[Route]:
    """Add the routes outside of /v1 that the settings enable."""
    enabled = services_of(app).runtime.settings.healthcheck.enabled
    enabled_routes = [(DISCOVER, discover), *([(HEALTHCHECK, healthcheck)] if enabled else [])]
    for route, view in enabled_routes:
        app.add_url_rule(route.path, route.handler, _with_context(view))
    return [route for route, _ in enabled_routes]
