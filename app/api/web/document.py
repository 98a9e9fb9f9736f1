"""OpenAPI document, generated from the declarations of routes and schemas."""

from collections.abc import Iterable
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin

from app.agents.lookup import MAC
from app.api.authentication.session_cookie import COOKIE
from app.api.declarations import versions
from app.api.openapi.shapes import (
    TEXT,
    Component,
    Shape,
    versioned,
)
from app.api.request import repeats
from app.api.request.routes import PARAMETER, Route
from app.api.values.value_types import NAME, CommaSeparated, Flag, Ident, Mac, Name, Uuid
from app.api.web.document_operations import operation
from app.api.web.document_responses import ERRORS, HEADERS, described, error

ABOUT = f"""\
OpenStack Ironic's API with additions. The header `{versions.HEADER}` selects the version of a
request; the default is 1.{versions.MIN}. `x-since` is the version that introduced a route, a field
or a parameter; `x-policy` is the policy rule that a caller must pass;
`x-no-key` tells why a route that changes something takes no `Idempotency-Key`."""

#: Field type -> its JSON Schema: type, format, pattern.
FIELDS = {
    Flag: ("boolean", None, None),
    Uuid: ("string", "uuid", None),
    Mac: ("string", None, f"^{MAC}$"),
    Name: ("string", None, f"^{NAME}$"),
    Ident: ("string", None, f"^{NAME}$"),
    CommaSeparated: ("string", None, None),
}
#: Tag -> title of its section, in the order of the page.
SECTIONS = {
    "nodes": "Nodes", "provision_states": "Counts of nodes",
    "states": "States of nodes", "why": "Diagnosis of waiting nodes",
    "operations": "Operations", "fleet_operations": "Operations, summed up",
    "history": "History of nodes", "change_events": "Change events", "rollouts": "Rollouts",
    "steps": "Steps of nodes",
    "traits": "Traits", "ports": "Ports", "portgroups": "Port groups", "vifs": "VIFs",
    "volume": "Volumes", "management": "Boot devices, indicators, virtual media",
    "machine_states": "Boot mode, RAID, console", "consoles": "Consoles",
    "hardware": "BIOS, firmware, inventory",
    "bmc_documents": "Documents of BMCs", "bmc_recordings": "Recordings of operations",
    "event_subscription": "Subscriptions to the events of BMCs", "bmc_events": "Events of BMCs",
    "agent_logs": "Logs of agents", "sanitation": "Sanitation reports", "refreshes": "Refreshes",
    "benchmarks": "Measured numbers",
    "vendor": "Vendor functions", "allocations": "Allocations",
    "deploy_templates": "Deploy templates", "runbooks": "Runbooks",
    "inspection_rules": "Inspection rules", "chassis": "Chassis", "drivers": "Drivers",
    "conductors": "Conductors", "service": "State of the service",
    "networks": "Networks and switches", "switch_ports": "Switch ports of nodes",
    "baselines": "Baselines, and compliance with them",
    "quotas": "Quotas of projects",
    "shards": "Shards", "agents": "Agents", "webhooks": "Webhooks", "holds": "Holds on nodes",
    "events": "Events of other services", "audit": "Audit", "login": "Sessions of browsers",
    "permissions": "Permissions of the caller",
    "root": "The service",
}  # fmt: skip
PARAMETERS = {
    "version": {
        "name": versions.HEADER,
        "in": "header",
        "description": "API version of the request",
        "schema": {"type": "string", "pattern": r"^(latest|1\.[1-9][0-9]{0,2})$"},
    },
    "tag": {
        "name": "If-Match",
        "in": "header",
        "description": "`ETag`s; 412 if the node's current one is not among them",
        "schema": TEXT,
    },
    "key": {
        "name": repeats.HEADER,
        "in": "header",
        "description": "Idempotency key: requests repeated with it are executed once",
        "schema": TEXT | {"minLength": 1, "maxLength": repeats.LONGEST},
    },
}


class Marshmallow(MarshmallowPlugin):
    """Plugin of apispec that maps the field types of `schemas.common` to JSON Schema."""

    def init_spec(self, spec: APISpec) -> None:
        super().init_spec(spec)
        for field, (kind, form, _) in FIELDS.items():
            self.map_to_openapi_type(field, kind, form)
        self.converter.add_attribute_function(_pattern)


def _pattern(_converter: object, field: object, **_kwargs: object) -> dict[str, str]:
    pattern = FIELDS.get(type(field), ("", None, None))[2]
    return {"pattern": pattern} if pattern else {}


def document(spec: APISpec, routes: Iterable[Route]) -> dict[str, object]:
    """
    Build the OpenAPI document.

    spec: apispec of flask-smorest, the source of parameters and request bodies.
    """
    content: dict[str, Any] = spec.to_dict()
    content["info"]["description"] = ABOUT
    tags = {tag["name"]: tag for tag in content["tags"]}
    content["tags"] = [tags[name] | {"x-displayName": title} for name, title in SECTIONS.items()]
    paths: dict[str, dict[str, object]] = {}
    for route in routes:
        path = PARAMETER.sub(r"{\1}", route.path)
        operations, method = content["paths"].get(path, {}), route.method.lower()
        of_arguments, in_path = operations.get(method, {}), operations.get("parameters", [])
        paths.setdefault(path, {})[method] = operation(route, of_arguments, in_path)
    incoming = content["components"]["schemas"]
    for name in ("Error", "PaginationMetadata"):  # added by flask-smorest, not used here
        incoming.pop(name, None)
    for schema in incoming.values():
        schema.setdefault("additionalProperties", False)
    for kind in versions.FIELDS:
        name = f"{kind.title().replace(' ', '')}Create"
        if name in incoming:
            incoming[name] = versioned(kind, incoming[name])
    responses = {str(status): error(status) for status in ERRORS}
    return content | {
        "paths": paths,
        "components": {
            "schemas": {**incoming, **components([paths, responses])},
            "parameters": PARAMETERS,
            "headers": described(HEADERS),
            "responses": responses,
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
                "password": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def components(node: object) -> dict[str, Shape]:
    """
    Collect the components that a document refers to, directly or through others: name -> schema.

    Raises TypeError: two different schemas have one name.
    """
    schemas: dict[str, Shape] = {}
    pending = [node]
    while pending:
        match pending.pop():
            case Component() as component if component.name not in schemas:
                schemas[component.name] = component.schema
                pending.append(component.schema)
            case Component() as component if schemas[component.name] != component.schema:
                raise TypeError(f"{component.name}: two JSON Schemas have this name")
            case Component():
                pass
            case dict() as document:
                pending += document.values()
            case list() as documents:
                pending += documents
    return dict(sorted(schemas.items()))
