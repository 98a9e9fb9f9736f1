"""What there is: the documents from which clients find out about the service."""

from typing import Any

from flask import Flask, Response
from sqlalchemy import text

from app.api import versions
from app.api.answers import host, json, links, runtime
from app.api.routes import Routes

root = Routes("root", "What there is")


def _version() -> dict[str, Any]:
    return {
        "id": "v1",
        "links": [{"href": f"{host()}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "min_version": f"1.{versions.MIN}",
        "version": f"1.{versions.MAX}",
    }


def discover() -> Response:
    """Which versions the service speaks."""
    version = _version()
    return json(
        {
            "name": "OpenStack Ironic API",
            "description": "Ingot provisions bare-metal servers. It speaks Ironic's API.",
            "default_version": version,
            "versions": [version],
        }
    )


#: Collections that stand before the version, as in Ironic.
OLDEST = ("chassis", "nodes", "ports", "drivers")


@root.at("GET", "")
def show_v1() -> Response:
    """Which collections there are"""
    base = host()
    docs = {"href": f"{base}/docs", "rel": "describedby", "type": "text/html"}
    found = {
        name: [
            {"href": f"{base}/v1/{name}/", "rel": "self"},
            {"href": f"{base}/{name}/", "rel": "bookmark"},
        ]
        for name, since in versions.COLLECTIONS.items()
        if since <= versions.current()
    }
    return json(
        {
            "id": "v1",
            "links": [links("", base)[0], docs],
            "media_types": {
                "base": "application/json",
                "type": "application/vnd.openstack.ironic.v1+json",
            },
            **{name: found.pop(name) for name in OLDEST},
            "version": _version(),
            **found,
        }
    )


def healthcheck() -> Response:
    """Whether requests can be answered: the database is within reach."""
    with runtime().reading() as session:
        session.execute(text("SELECT 1"))
    return json({"detailed": False, "reasons": ["OK"]})


def register(app: Flask) -> None:
    """The routes outside of /v1."""
    app.add_url_rule("/", view_func=discover)
    if app.extensions["ingot"].settings.healthcheck.enabled:
        app.add_url_rule("/healthcheck", view_func=healthcheck)
