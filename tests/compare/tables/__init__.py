"""The script: tables of requests, each on its own, with what belongs to it gone in the end."""

from collections.abc import Mapping, Sequence

from tests.compare.asks import Ask
from tests.compare.tables import (
    agents,
    allocations,
    chassis,
    drivers,
    inspection_rules,
    management,
    node_changes,
    node_lists,
    node_parts,
    nodes,
    portgroups,
    ports,
    power,
    provision,
    templates,
    transport,
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
    "allocations": allocations.TABLE,
    "templates": templates.TABLE,
    "volume": volume.TABLE,
    "inspection rules": inspection_rules.TABLE,
    "agents": agents.TABLE,
}
