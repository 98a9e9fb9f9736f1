"""
Rows of Ironic's tables as rows of this service's tables.

A column of the same name keeps its value; the others are in the functions of their resource.
References between rows are UUIDs here, under the name of the column with the id.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Boolean, Column, Integer, String

from app.db.secret_columns import JSON_TYPES
from app.lifecycle.provision_states import Kind, State, of_kind
from app.models import (
    Allocation,
    AllocationState,
    Base,
    BiosSetting,
    Chassis,
    DeployTemplate,
    FirmwareComponent,
    InspectionRule,
    Node,
    NodeHistory,
    NodeInventory,
    NodeTrait,
    Port,
    Portgroup,
    Runbook,
    VolumeConnector,
    VolumeTarget,
)
from workers.moving import driver_mapping
from workers.moving.bundles import Bundle, NotMoved, Values
from workers.moving.driver_mapping import NotServed
from workers.moving.ironic_database import Row


class Source(Protocol):
    """Rows of Ironic: an `IronicDatabase`, or some that are not written yet."""

    def of(self, name: str, **values: object) -> Sequence[Row]:
        """Return the rows of a table that have these values."""


#: States that a node may have: nothing is under way.
SETTLED = of_kind(Kind.STABLE, Kind.FAILED)
#: Kind of another state -> what to do in the service that has the node.
UNSETTLED: Mapping[Kind, str] = {
    Kind.BUSY: "wait for the end of its operation",
    Kind.WAIT: "wait for the end of its operation, or abort it",
    Kind.HOLD: "unhold or abort it",
}
#: Keys of `driver_internal_info` that mean the same here. All others are of steps, agents and BMCs
#: that Ironic talks to.
INTERNAL = (
    "is_whole_disk_image", "root_uuid_or_disk_id", "deploy_boot_mode", "last_power_state_change",
    "automatic_lessee",
)  # fmt: skip
#: Model -> its table in Ironic; rows with a `node_id`, port groups before their ports.
PARTS: Mapping[type[Base], str] = {
    NodeTrait: "node_traits",
    Portgroup: "portgroups",
    Port: "ports",
    VolumeConnector: "volume_connectors",
    VolumeTarget: "volume_targets",
    BiosSetting: "bios_settings",
    FirmwareComponent: "firmware_information",
    NodeInventory: "node_inventory",
    NodeHistory: "node_history",
    Allocation: "allocations",
}
_LARGEST = 2**31


def node(
    ironic: Source,
    row: Row,
    types: Mapping[str, Mapping[str, Sequence[str]]],
    replacements: Mapping[tuple[str, str], str],
) -> Bundle:
    """
    Return a node with all that belongs to it. types, replacements: see `driver_mapping.mapped`.

    Raises NotMoved.
    """
    check_settled(row, "start Ironic, ", "import")
    try:
        driver = driver_mapping.mapped(row, document(row["driver_info"]), types, replacements)
    except NotServed as error:
        raise NotMoved(str(error)) from None
    internal = document(row["driver_internal_info"])
    chassis = ironic.of("chassis", id=row["chassis_id"]) if row["chassis_id"] else ()
    notes, console = [*driver.notes], bool(row["console_enabled"])
    if console and driver.interfaces["console_interface"] == "no-console":
        console = False
        notes.append("console_enabled -> false")
    if tags := [tag["tag"] for tag in ironic.of("node_tags", node_id=row["id"])]:
        notes.append(f"without tags {', '.join(tags)}")
    values = copied(
        Node,
        row,
        reservation=None,
        driver=driver.driver,
        driver_info=driver.driver_info,
        driver_internal_info={key: internal[key] for key in INTERNAL if key in internal},
        conductor_group=(row["conductor_group"] or "").lower(),
        chassis_uuid=chassis[0]["uuid"] if chassis else None,
        console_enabled=console,
        **driver.interfaces,
    )
    return Bundle(Node, values, _parts(ironic, row["id"]), notes)


def check_settled(row: Mapping[str, object], start: str, verb: str) -> None:
    """
    Check that nothing is under way on a node.

    start: how to let its service work, as "start Ironic, "; verb: import or export, for messages.

    Raises NotMoved.
    """
    state = row["provision_state"]
    if state not in set(State):
        raise NotMoved(f"provision_state {state}: there is no such state here")
    if state not in SETTLED:
        action = next(text for kind, text in UNSETTLED.items() if state in of_kind(kind))
        raise NotMoved(f"provision_state {state}: {start}{action}, then {verb} it")
    if row["reservation"]:
        raise NotMoved(
            f"locked by conductor {row['reservation']}: start that conductor, stop it with SIGTERM,"
            f" then {verb} it"
        )
    if row["target_power_state"]:
        raise NotMoved(
            f"its power is on the way to {row['target_power_state']!r}: {start}wait for it,"
            f" then {verb} it"
        )


def _parts(ironic: Source, ident: int) -> Mapping[type[Base], Sequence[Values]]:
    groups = {row["id"]: row["uuid"] for row in ironic.of("portgroups", node_id=ident)}
    parts: dict[type[Base], Sequence[Values]] = {}
    for model, table in PARTS.items():
        rows = ironic.of(table, node_id=ident)
        if model is NodeInventory:
            rows = rows[-1:]  # Ironic keeps older ones, and shows the last
        parts[model] = [_part(model, row, groups) for row in rows]
    return parts


def _part(model: type[Base], row: Row, groups: Mapping[int, str]) -> Values:
    further: Values = {}
    if model is Port:
        group = row.get("portgroup_id")
        further = {"portgroup_id": groups[group] if group else None}
    if model in {Port, Portgroup} and row["address"]:
        further["address"] = row["address"].lower()
    if model is NodeInventory:
        further = {"inventory": document(row["inventory_data"])}
    if model is NodeHistory:
        further = {
            "event": row["event"] or "",
            "event_type": row["event_type"] or "",
            "severity": row["severity"] or "",
        }
    if model is Allocation:
        further = _allocation(row)
    return copied(model, row, node_id=None, **further)


def check_allocation_settled(row: Mapping[str, object]) -> None:
    """Check that an allocation has ended its search. Raises NotMoved."""
    if row["state"] == AllocationState.ALLOCATING:
        raise NotMoved(
            f"allocation {row['uuid']} is looking for a node: start its service and wait, or delete"
            " it"
        )


def _allocation(row: Row) -> Values:
    """Return the values of an allocation that differ. Raises NotMoved: a search is under way."""
    check_allocation_settled(row)
    return {
        "traits": document(row["traits"], []),
        "candidate_nodes": document(row["candidate_nodes"], []),
        "attempts": 0,
        "due_at": None,
    }


def chassis(_ironic: Source, row: Row) -> Bundle:
    return Bundle(Chassis, copied(Chassis, row))


def deploy_template(ironic: Source, row: Row) -> Bundle:
    rows = ironic.of("deploy_template_steps", deploy_template_id=row["id"])
    return Bundle(DeployTemplate, copied(DeployTemplate, row, steps=_steps(rows, "priority")))


def runbook(ironic: Source, row: Row) -> Bundle:
    """Return a runbook with its steps and traits."""
    rows = ironic.of("runbook_steps", runbook_id=row["id"])
    traits = sorted(trait["trait"] for trait in ironic.of("runbook_traits", runbook_id=row["id"]))
    values = copied(Runbook, row, steps=_steps(rows, "order"), traits=traits)
    return Bundle(Runbook, values)


def _steps(rows: Sequence[Row], position: str) -> list[Values]:
    names = ("interface", "step", position)
    return [{**{name: row[name] for name in names}, "args": document(row["args"])} for row in rows]


def inspection_rule(_ironic: Source, row: Row) -> Bundle:
    """Return an inspection rule. Raises NotMoved: it is for some nodes only."""
    if row["scope"]:
        raise NotMoved(
            f"scope {row['scope']}: rules here are for all nodes; remove the scope, or create a"
            " rule with conditions instead"
        )
    lists = {name: document(row[name], []) for name in ("conditions", "actions")}
    return Bundle(InspectionRule, copied(InspectionRule, row, **lists))


def allocation(_ironic: Source, row: Row) -> Bundle:
    """Return an allocation that has no node. Raises NotMoved: a search is under way."""
    return Bundle(Allocation, copied(Allocation, row, node_id=None, **_allocation(row)))


def document(text: object, empty: object = None) -> Any:
    """Return the value of JSON text; `empty` (by default an object) for none."""
    value = json.loads(text) if isinstance(text, str) and text else text
    return value or ({} if empty is None else empty)


def copied(model: type[Base], row: Row, **further: object) -> Values:
    """
    Return the values of a model's columns, except its id: `further`, those of the row, defaults.

    Raises NotMoved: a value does not fit into its column.
    """
    table: Any = model.__table__
    values = {}
    for column in table.columns:
        if column.key == "id":
            continue
        value = further[column.key] if column.key in further else row.get(column.key)
        values[column.key] = _fitting(column, _default(column) if value is None else value)
    return values


def _default(column: Column[object]) -> object:
    default: Any = column.default
    if column.nullable or default is None:
        return None
    return default.arg(None) if default.is_callable else default.arg


def _fitting(column: Column[object], value: Any) -> object:
    kind = column.type
    if value is None or column.foreign_keys:  # UUIDs stand for ids
        return value
    if isinstance(kind, JSON_TYPES):
        return document(value, _default(column)) if isinstance(value, str) else value
    if isinstance(kind, Boolean):
        return bool(value)
    too_large = isinstance(kind, Integer) and abs(value) >= _LARGEST
    too_long = isinstance(kind, String) and kind.length and len(value) > kind.length
    if too_large or too_long:
        limit = f"{kind.length} characters" if isinstance(kind, String) else "32 bits"
        raise NotMoved(f"{column.table.name}.{column.key} has more than {limit}")
    return value
