"""The script: tables of requests; each starts on an empty service and cleans up after itself."""

from collections.abc import Mapping, Sequence

from tests.compare.asks import Ask
from tests.compare.tables import (
    agents,
    allocations,
    chassis,
    drivers,
    fields,
    inspection_rules,
    management,
    node_changes,
    node_lists,
    node_parts,
    nodes,
    pages,
    portgroups,
    ports,
    power,
    provision,
    routes,
    templates,
    transport,
    versions,
    volume,
)

TABLES: Mapping[str, Sequence[Ask]] = {
    "transport": transport.TABLE,
    "nodes": nodes.TABLE,
    "node lists": node_lists.TABLE,
    "node changes": node_changes.TABLE,
    "provision": provision.TABLE,
    "power": power.TABLE,
    "management": management.TABLE,
    "node parts": node_parts.TABLE,
    "ports": ports.TABLE,
    "portgroups": portgroups.TABLE,
    "chassis": chassis.TABLE,
    "drivers": drivers.TABLE,
    "versions": versions.TABLE,
    "routes": routes.TABLE,
    "pages": pages.TABLE,
    "fields": fields.TABLE,
    # some of the others create resources that Ironic can never remove again
    "allocations": allocations.TABLE,
    "templates": templates.TABLE,
    "volume": volume.TABLE,
    "inspection rules": inspection_rules.TABLE,
    "agents": agents.TABLE,
}
