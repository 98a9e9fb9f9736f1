"""Route of the state of the service: an addition to Ironic's API."""

from dataclasses import asdict
from importlib.metadata import version

from flask import Response

from app.api.openapi.shapes import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    Component,
    array,
    column_shapes,
    exactly,
    one_of,
    or_null,
)
from app.api.request.context import RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import json
from app.config.description import describe
from app.models import ACTIVE, Conductor, OperationKind, OperationState
from app.reports import service_state

#: Version of the installed package.
RELEASE = version("ingot")

service = Routes("service", "Ring, load and health of the service")

SERVICE = Component("Service", exactly({
    "parts": array(exactly({
        "part": TEXT, "healthy": BOOLEAN, "reason": TEXT, "details": TEXT,
    })),
    "conductors": array(exactly({
        **column_shapes(Conductor, ("hostname", "conductor_group")),
        "state": one_of(("alive", "impeded", "draining", "drained", "lost", "stopped")),
        "version": INTEGER, "drained_at": or_null(TIME), "drain_reason": or_null(TEXT),
        "impediment": or_null(TEXT), "heartbeat_seconds": NUMBER,
        "nodes": INTEGER, "threads": INTEGER,
        "holds": exactly(dict.fromkeys(map(str, ACTIVE), INTEGER)),
        "messages": or_null(INTEGER), "oldest_message_seconds": or_null(NUMBER),
    })),
    "ring": array(exactly({
        "driver": TEXT, "conductor_group": TEXT, "nodes": INTEGER, "conductors": array(TEXT),
    })),
    "periodic_tasks": array(exactly({
        "task": TEXT, "conductor": or_null(TEXT), "healthy": BOOLEAN,
        "completed_seconds": NUMBER, "bound_seconds": NUMBER, "without": TEXT,
    })),
    "takeovers": array(exactly({
        "uuid": UUID, "kind": one_of(OperationKind), "state": one_of(OperationState),
        "node_uuid": UUID, "node_name": or_null(TEXT), "step": TEXT, "times": INTEGER,
        "conductor": or_null(TEXT), "started_at": or_null(TIME), "finished_at": or_null(TIME),
    })),
    "flower_url": or_null(TEXT),
}))  # fmt: skip
SETTINGS = exactly({
    "release": TEXT,
    "settings": array(exactly({
        **dict.fromkeys(("group", "name", "variable", "help", "origin"), TEXT),
        **dict.fromkeys(("value", "default"), ANYTHING), "choices": array(TEXT),
    })),
})  # fmt: skip


@service.declare("GET", "/service", rule="baremetal:service:get", returns=SERVICE)
def show_service(context: RequestContext) -> Response:
    """Show the ring, the load and the health of the service"""
    with context.runtime.reading() as session:
        document = service_state.describe(session)
    return json(document | {"flower_url": context.runtime.settings.api.flower_url})


@service.declare("GET", "/service/settings", rule="baremetal:service:get", returns=SETTINGS)
def show_settings(context: RequestContext) -> Response:
    """
    Show the release and the settings of the process that answers, with secrets masked

    `origin` names the file, the variable or the option that a value comes from.
    """
    settings = [asdict(setting) for setting in describe(context.runtime.settings)]
    return json({"release": RELEASE, "settings": settings})
