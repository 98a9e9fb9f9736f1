"""
Microversions: negotiation, and the version that introduced each field, parameter and verb.

A field, query parameter or verb that no table lists exists from version 1.1 on. Routes declare
their version themselves (`Routes.declare`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from werkzeug.datastructures import Headers

from app.api.declarations import node_fields
from app.errors import NotAcceptable
from drivers.core.interface_kinds import KINDS

MIN, MAX = 1, 115
HEADER = "X-OpenStack-Ironic-API-Version"
STANDARD_HEADER = "OpenStack-API-Version"
SERVICE = "baremetal"
#: Headers of every response: the supported versions.
RANGE = {
    "X-OpenStack-Ironic-API-Minimum-Version": f"1.{MIN}",
    "X-OpenStack-Ironic-API-Maximum-Version": f"1.{MAX}",
}
#: Headers of every response with the ID of the request.
REQUEST_ID = ("Openstack-Request-Id", "X-Openstack-Request-Id")
#: The version from which `.json` at the end of a path is part of a name.
SUFFIX_IS_NAME = 91
#: Key in the WSGI environment of a request from whose path the suffix was removed.
DROPPED = "ingot.dropped_suffix"
_VARIABLE = f"HTTP_{HEADER.upper().replace('-', '_')}"

# fmt: off
#: Resource -> field -> minor version that introduced it.
FIELDS: Mapping[str, Mapping[str, int]] = {
    "node": node_fields.SINCE,
    "port": {
        "internal_info": 18, "local_link_connection": 19, "pxe_enabled": 19, "portgroup_uuid": 24,
        "physical_network": 34, "is_smartnic": 53, "name": 88, "node_ident": 94,
        "description": 97, "vendor": 100, "category": 101,
        "available_for_dynamic_portgroup": 111,
    },
    "portgroup": {
        "mode": 26, "properties": 26, "physical_network": 102, "category": 103,
        "dynamic_portgroup": 111,
    },
    "chassis": {},
    "volume connector": {},
    "volume target": {},
    "deploy template": {},
    "inspection rule": {},
    "runbook": {"description": 112, "traits": 112},
    "allocation": {"owner": 60},
    "driver": {
        "properties": 14, "type": 30,
        **{f"{form}_{kind}_interface{s}": 30 for kind in KINDS
           for form, s in (("default", ""), ("enabled", "s"))},
        "default_storage_interface": 33, "enabled_storage_interfaces": 33,
        "default_rescue_interface": 38, "enabled_rescue_interfaces": 38,
        "default_bios_interface": 40, "enabled_bios_interfaces": 40,
        "default_firmware_interface": 86, "enabled_firmware_interfaces": 86,
    },
    "conductor": {},
    "operation": {}, "audit record": {}, "sanitation report": {}, "webhook": {}, "hold": {},
    "benchmark": {},
    "network": {}, "switch": {}, "baseline": {}, "baseline node": {}, "quota": {},
    "rollout": {}, "rollout node": {},
    "bios": {},
    "firmware": {"vendor": 114, "model": 114, "serial_number": 114},
    "history": {
        "project": 113, "state": 115, "target_provision_state": 115, "duration_seconds": 115,
    },
}

#: Collection -> query parameter -> minor version that introduced it.
QUERIES: Mapping[str, Mapping[str, int]] = {
    "nodes": {
        "fields": 8, "reset_interfaces": 45, "conductor": 49, "sharded": 82,
        "include_children": 83, **node_fields.FILTERS_SINCE,
    },
    "ports": {"fields": 8, "portgroup": 24, "shard": 82, "conductor_groups": 99},
    "portgroups": {"shard": 106, "conductor_groups": 99},
    "chassis": {"fields": 8},
    "allocations": {"owner": 60},
    "drivers": {"type": 30, "detail": 30, "fields": 77},
}

#: `target` of PUT states/provision -> minor version that introduced it.
VERBS: Mapping[str, int] = {
    "manage": 4, "provide": 4, "inspect": 6, "abort": 13, "clean": 15, "adopt": 17, "rescue": 38,
    "unrescue": 38, "deploy": 73, "undeploy": 73, "unhold": 85, "service": 87,
}

#: Argument of PUT states/provision, or (argument, verb) -> minor version that introduced it.
ARGUMENTS: Mapping[str | tuple[str, str], int] = {
    "deploy_steps": 69, "disable_ramdisk": 70, ("disable_ramdisk", "service"): 108, "runbook": 92,
}
#: Provision state -> minor version from which it allows `abort`.
ABORTS: Mapping[str, int] = {
    "inspecting": 41, "inspect wait": 41, "deploying": 110, "wait call-back": 110,
}  # fmt: skip
#: Verbs whose version is checked only if the node's state allows them.
LATE_VERBS = ("unhold", "service")

#: Link of the /v1 document -> minor version that introduced it.
COLLECTIONS: Mapping[str, int] = {
    "chassis": 1, "nodes": 1, "ports": 1, "drivers": 1, "portgroups": 23, "volume": 32,
    "lookup": 22, "heartbeat": 22, "conductors": 49,
    "allocations": 52, "events": 54, "deploy_templates": 55, "shards": 82,
    "runbooks": 92, "inspection_rules": 96, "continue_inspection": 84,
}
# fmt: on


def of_argument(name: str, verb: str) -> int:
    """Return the minor version that introduced an argument of a verb."""
    return ARGUMENTS.get((name, verb), ARGUMENTS.get(name, MIN))


class Version(int):
    """The minor version that a request has negotiated."""

    __slots__ = ()

    def visible(self, resource: str, fields: Iterable[str]) -> list[str]:
        """Filter the fields by this version."""
        introduced = FIELDS[resource]
        return [field for field in fields if introduced.get(field, MIN) <= self]

    def require(self, minor: int, feature: str) -> None:
        """Raise NotAcceptable if this version is older."""
        if self < minor:
            raise NotAcceptable(
                f"Request not acceptable. The minimal required API version should be 1.{minor}:"
                f" {feature} needs it, the request's is 1.{self:d}."
            )

    def check_body(self, resource: str, body: Mapping[str, object]) -> None:
        """Refuse fields with a value that are newer than this version. Raises NotAcceptable."""
        for field, value in body.items():
            if value != ("" if field == "conductor_group" else None):
                self.require(since(resource, field), f"field {field}")

    def check_fields(self, resource: str, fields: Iterable[str]) -> None:
        """Refuse fields that are newer than this version. Raises NotAcceptable."""
        for field in fields:
            self.require(since(resource, field), f"field {field}")

    def check_query(self, collection: str, parameters: Iterable[str]) -> None:
        """Refuse query parameters that are newer than this version. Raises NotAcceptable."""
        gates = QUERIES.get(collection, {})
        for name in parameters:
            self.require(gates.get(name, MIN), f"parameter {name}")


OLDEST = Version(MIN)


def negotiate(headers: Headers) -> Version:
    """Return the version that the headers request. Raises NotAcceptable."""
    version = _standard(headers.get(STANDARD_HEADER, "")) or headers.get(HEADER)
    if not version:
        return OLDEST
    version = version.strip()
    if version.lower() == "latest":
        return Version(MAX)
    major, dot, minor = version.partition(".")
    if not (dot and _is_number(major) and _is_number(minor)):
        raise NotAcceptable(f"Invalid value for {HEADER} header: {version}")
    supported_range = f"The supported version range is: [1.{MIN}, 1.{MAX}]."
    if int(major) != 1:
        raise NotAcceptable(
            f"Mutually exclusive versions requested. Version {version} requested but not supported"
            f" by this service. {supported_range}"
        )
    if not MIN <= int(minor) <= MAX:
        raise NotAcceptable(
            f"Version {version} was requested but the minor version is not supported by this"
            f" service. {supported_range}"
        )
    return Version(minor)


#: Answers depend on the caller, and are not for caches: also not for one that ignores the request's
#: credentials, such as that of a proxy.
_OF_CALLERS = (
    ("Cache-Control", "no-store"),
    ("Vary", "X-Auth-Token, Authorization, Cookie, X-Project-Id"),
    ("Vary", f"{HEADER}, OpenStack-API-Version"),
)


def signature(request_id: str, minor: int | None, *, cached: bool = False) -> list[tuple[str, str]]:
    """
    Return the headers of every response.

    minor: negotiated version, if one was. cached: the response says itself how it is cached.
    """
    signed = [*RANGE.items(), *((name, request_id) for name in REQUEST_ID)]
    if not cached:
        signed += _OF_CALLERS
    return signed if minor is None else [*signed, (HEADER, f"1.{minor}")]


def drops_suffix(environ: Mapping[str, Any]) -> bool:
    """Whether `.json` at the end of the path is a suffix, in the version of a WSGI request."""
    major, _, minor = environ.get(_VARIABLE, "").strip().partition(".")
    return major == "1" and _is_number(minor) and int(minor) < SUFFIX_IS_NAME


def _standard(header: str) -> str | None:
    """Return the version in "baremetal 1.N", between entries of other services."""
    for part in header.split(","):
        service, _, version = part.strip().partition(" ")
        if service.lower() == SERVICE:
            return version
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5


def since(resource: str, field: str) -> int:
    return FIELDS[resource].get(field, MIN)
