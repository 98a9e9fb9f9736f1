"""
Microversions: what appeared when, and which one a request speaks.

The tables are all there is to a version: a field, query parameter or verb that is not listed is
as old as the API itself. Routes name their version where they are declared.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from flask import g
from werkzeug.datastructures import Headers

from app.errors import NotAcceptable
from drivers.core.kinds import KINDS

MIN, MAX = 1, 115
HEADER = "X-OpenStack-Ironic-API-Version"
STANDARD_HEADER = "OpenStack-API-Version"
SERVICE = "baremetal"
#: What every answer says of the versions that there are.
RANGE = {
    "X-OpenStack-Ironic-API-Minimum-Version": f"1.{MIN}",
    "X-OpenStack-Ironic-API-Maximum-Version": f"1.{MAX}",
}
#: From here on, `.json` at the end of a path is part of a name.
SUFFIX_IS_NAME = 91
#: In the WSGI environment of a request whose path has lost it.
DROPPED = "ingot.dropped_suffix"
_VARIABLE = f"HTTP_{HEADER.upper().replace('-', '_')}"

# fmt: off
#: resource -> field -> minor version that it appeared in
FIELDS: Mapping[str, Mapping[str, int]] = {
    "node": {
        "name": 5, "driver_internal_info": 3, "clean_step": 7, "deploy_step": 44,
        "service_step": 87,
        "inspection_started_at": 6, "inspection_finished_at": 6, "raid_config": 12,
        "target_raid_config": 12, "states": 14, "resource_class": 21,
        **{f"{kind}_interface": 31 for kind in KINDS},
        "network_interface": 20, "storage_interface": 33, "traits": 37, "rescue_interface": 38,
        "bios_interface": 40, "fault": 42, "conductor_group": 46, "automated_clean": 47,
        "protected": 48, "protected_reason": 48, "conductor": 49, "owner": 50, "description": 51,
        "allocation_uuid": 52, "retired": 61, "retired_reason": 61, "lessee": 65,
        "network_data": 66, "boot_mode": 75, "secure_boot": 75, "shard": 82, "parent_node": 83,
        "firmware_interface": 86, "disable_power_off": 95, "instance_name": 104, "health": 109,
        "portgroups": 24, "volume": 32,
    },
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
    "operation": {},
    "bios": {},
    "firmware": {"vendor": 114, "model": 114, "serial_number": 114},
    "history": {
        "project": 113, "state": 115, "target_provision_state": 115, "duration_seconds": 115,
    },
}

#: collection -> query parameter -> minor version that it appeared in
QUERIES: Mapping[str, Mapping[str, int]] = {
    "nodes": {
        "fields": 8, "provision_state": 9, "driver": 16, "resource_class": 21, "fault": 42,
        "reset_interfaces": 45, "conductor_group": 46, "conductor": 49, "owner": 50, "lessee": 65,
        "shard": 82, "sharded": 82, "include_children": 83, "parent_node": 83,
        "instance_name": 104,
    },
    "ports": {"fields": 8, "portgroup": 24, "shard": 82, "conductor_groups": 99},
    "portgroups": {"shard": 106, "conductor_groups": 99},
    "chassis": {"fields": 8},
    "allocations": {"owner": 60},
    "drivers": {"type": 30, "detail": 30, "fields": 77},
}

#: `target` of PUT states/provision -> minor version that it appeared in
VERBS: Mapping[str, int] = {
    "manage": 4, "provide": 4, "inspect": 6, "abort": 13, "clean": 15, "adopt": 17, "rescue": 38,
    "unrescue": 38, "deploy": 73, "undeploy": 73, "unhold": 85, "service": 87,
}

#: provision state -> minor version from which `abort` is possible in it
ABORTS: Mapping[str, int] = {
    "inspecting": 41, "inspect wait": 41, "deploying": 110, "wait call-back": 110,
}  # fmt: skip
#: Verbs whose version is looked at only where the node's state allows them.
LATE_VERBS = ("unhold", "service")

#: link of the /v1 document -> minor version that it appeared in
COLLECTIONS: Mapping[str, int] = {
    "chassis": 1, "nodes": 1, "ports": 1, "drivers": 1, "portgroups": 23, "volume": 32,
    "lookup": 22, "heartbeat": 22, "conductors": 49,
    "allocations": 52, "events": 54, "deploy_templates": 55, "shards": 82,
    "runbooks": 92, "inspection_rules": 96, "continue_inspection": 84,
}
# fmt: on


def negotiate(headers: Headers) -> int:
    """The minor version that a request asks for. Raises NotAcceptable."""
    asked = _standard(headers.get(STANDARD_HEADER, "")) or headers.get(HEADER)
    if not asked:
        return MIN
    asked = asked.strip()
    if asked.lower() == "latest":
        return MAX
    major, dot, minor = asked.partition(".")
    if not (dot and _is_number(major) and _is_number(minor)):
        raise NotAcceptable(f"Invalid value for {HEADER} header: {asked}")
    known = f"The supported version range is: [1.{MIN}, 1.{MAX}]."
    if int(major) != 1:
        raise NotAcceptable(
            f"Mutually exclusive versions requested. Version {asked} requested but not supported by"
            f" this service. {known}"
        )
    if not MIN <= int(minor) <= MAX:
        raise NotAcceptable(
            f"Version {asked} was requested but the minor version is not supported by this service."
            f" {known}"
        )
    return int(minor)


def drops_suffix(environ: Mapping[str, Any]) -> bool:
    """Whether `.json` at the end of a path is no part of it, from a request's WSGI environment."""
    major, _, minor = environ.get(_VARIABLE, "").strip().partition(".")
    return major == "1" and _is_number(minor) and int(minor) < SUFFIX_IS_NAME


def _standard(header: str) -> str | None:
    """The version in "baremetal 1.N"; other services may be named beside it."""
    for part in header.split(","):
        service, _, version = part.strip().partition(" ")
        if service.lower() == SERVICE:
            return version
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5


def current() -> int:
    """The minor version of the request that is being answered."""
    return int(g.version)


def since(resource: str, field: str) -> int:
    return FIELDS[resource].get(field, MIN)


def visible(resource: str, fields: Iterable[str]) -> list[str]:
    """Those of the fields that the request's version has."""
    known, minor = FIELDS[resource], current()
    return [field for field in fields if known.get(field, MIN) <= minor]


def require(minor: int, what: str) -> None:
    """Raises NotAcceptable when the request's version is older."""
    if current() < minor:
        raise NotAcceptable(
            f"Request not acceptable. The minimal required API version should be 1.{minor}: {what}"
            f" needs it, the request's is 1.{current()}."
        )


def check_body(resource: str, body: Mapping[str, Any]) -> None:
    """No field with a value is newer than the request. Raises NotAcceptable."""
    for field, value in body.items():
        if value != ("" if field == "conductor_group" else None):
            require(since(resource, field), f"field {field}")


def check_fields(resource: str, fields: Iterable[str]) -> None:
    """No field asked for is newer than the request. Raises NotAcceptable."""
    for field in fields:
        require(since(resource, field), f"field {field}")


def check_query(collection: str, arguments: Iterable[str]) -> None:
    """No query parameter is newer than the request. Raises NotAcceptable."""
    gates = QUERIES.get(collection, {})
    for name in arguments:
        require(gates.get(name, MIN), f"parameter {name}")
