"""
Rows of this service as rows of Ironic's tables, for the way back.

A column of the same name keeps its value. References between rows are UUIDs here, under the name of
the column with the id; documents are JSON text, as Ironic stores them. Secrets are in plain, as
Ironic has no other form of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Column, String, Table

from app.db.secret_columns import JSON_TYPES
from app.models import (
    Allocation,
    Base,
    Chassis,
    DeployTemplate,
    Fault,
    InspectionRule,
    Node,
    NodeInventory,
    Portgroup,
    Runbook,
)
from app.models.vaulting import secrets_in
from app.text.masking import Unreadable
from drivers.core.references import is_reference
from workers.moving import driver_mapping, ironic_39
from workers.moving.bundles import Bundle, NotMoved, Values
from workers.moving.driver_mapping import NotServed
from workers.moving.ironic_database import IronicDatabase, Row
from workers.moving.translation import INTERNAL, PARTS, check_allocation_settled, check_settled

#: Columns with the id of another row.
REFERENCES = ("node_id", "chassis_id", "portgroup_id", "deploy_template_id", "runbook_id")
#: Values of columns of nodes that Ironic alone has: nothing is under way.
IDLE: Mapping[str, Any] = {
    "clean_step": {},
    "deploy_step": {},
    "service_step": {},
}


@dataclass(frozen=True, slots=True)
class IronicRows:
    """
    A row of Ironic and the rows that belong to it, which are written in one transaction.

    It answers `of` as `IronicDatabase` does, so that `translation` reads it.
    """

    table: str
    row: Row  # its `id` is its UUID
    parts: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # table -> rows
    notes: Sequence[str] = ()  # changes on the way, in words
    chassis: str | None = None  # UUID

    def of(self, name: str, **values: object) -> Sequence[Row]:
        """Return the rows of a table that have these values."""
        rows = self.parts.get(name, ())
        if name == "chassis" and self.chassis:
            rows = [{"id": self.chassis, "uuid": self.chassis}]
        items = values.items()
        return [row for row in rows if all(row[column] == value for column, value in items)]


def node(
    ironic: IronicDatabase, bundle: Bundle, replacements: Mapping[tuple[str, str], str]
) -> IronicRows:
    """
    Return a node with all that belongs to it. replacements: see `driver_mapping.mapped`.

    Raises NotMoved.
    """
    values = bundle.values
    check_settled(values, "", "export")
    if any(is_reference(value) for _, value in secrets_in("driver_info", values["driver_info"])):
        raise NotMoved("its secrets are in the vault: first `ingot secrets move --to database`")
    try:
        driver = driver_mapping.mapped(
            values,
            values["driver_info"],
            ironic_39.HARDWARE_TYPES,
            replacements,
            driver_mapping.DEPARTURE,
        )
    except NotServed as error:
        raise NotMoved(str(error)) from None
    notes, console, fault = [*driver.notes], values["console_enabled"], values["fault"]
    if console and driver.interfaces["console_interface"] == "no-console":
        console = False
        notes.append("console_enabled -> false")
    if fault == Fault.RESTORED:
        fault = None
        notes.append(f"fault {Fault.RESTORED} -> null")
    internal = values["driver_internal_info"]
    row = _row(
        ironic, "nodes", Node, values, **IDLE,
        driver=driver.driver,
        driver_info=driver.driver_info,
        driver_internal_info={key: internal[key] for key in INTERNAL if key in internal},
        chassis_id=values["chassis_uuid"],
        console_enabled=console,
        fault=fault,
        **driver.interfaces,
    )  # fmt: skip
    parts = {
        table: [_part(ironic, table, model, part, values["uuid"]) for part in bundle.parts[model]]
        for model, table in PARTS.items()
    }
    return IronicRows("nodes", row, parts, notes, values["chassis_uuid"])


def _part(
    ironic: IronicDatabase, table: str, model: type[Base], values: Values, node_uuid: str
) -> Row:
    further: Values = {"node_id": node_uuid}
    if model is Portgroup:
        further["id"] = values["uuid"]
    if model is NodeInventory:
        further["inventory_data"] = values["inventory"]
    if model is Allocation:
        check_allocation_settled(values)
    return _row(ironic, table, model, values, **further)


def allocation(ironic: IronicDatabase, bundle: Bundle) -> IronicRows:
    """Return an allocation that has no node. Raises NotMoved: a search is under way."""
    check_allocation_settled(bundle.values)
    return IronicRows("allocations", _row(ironic, "allocations", Allocation, bundle.values))


def chassis(ironic: IronicDatabase, bundle: Bundle) -> IronicRows:
    """Return a chassis. Raises NotMoved."""
    return IronicRows("chassis", _row(ironic, "chassis", Chassis, bundle.values))


def inspection_rule(ironic: IronicDatabase, bundle: Bundle) -> IronicRows:
    """Return an inspection rule. Raises NotMoved."""
    row = _row(ironic, "inspection_rules", InspectionRule, bundle.values)
    return IronicRows("inspection_rules", row)


def deploy_template(ironic: IronicDatabase, bundle: Bundle) -> IronicRows:
    """Return a deploy template with its steps. Raises NotMoved."""
    values = bundle.values
    row = _row(ironic, "deploy_templates", DeployTemplate, values)
    steps = _steps(ironic, "deploy_template_steps", values, deploy_template_id=values["uuid"])
    notes = ["without description"] if values["description"] else []
    return IronicRows("deploy_templates", row, {"deploy_template_steps": steps}, notes)


def runbook(ironic: IronicDatabase, bundle: Bundle) -> IronicRows:
    """Return a runbook with its steps and traits. Raises NotMoved."""
    values, parent = bundle.values, {"runbook_id": bundle.values["uuid"]}
    traits = [
        _row(ironic, "runbook_traits", None, {"trait": trait} | parent)
        for trait in values["traits"]
    ]
    parts = {
        "runbook_steps": _steps(ironic, "runbook_steps", values, **parent),
        "runbook_traits": traits,
    }
    return IronicRows("runbooks", _row(ironic, "runbooks", Runbook, values), parts)


def _steps(ironic: IronicDatabase, table: str, values: Values, **parent: str) -> list[Row]:
    return [_row(ironic, table, None, step | parent) for step in values["steps"]]


def _row(
    ironic: IronicDatabase, name: str, model: type[Base] | None, values: Values, **further: object
) -> Row:
    """
    Return the values of a table's columns: `further`, those of a model, null.

    Raises NotMoved: a value does not fit into its column.
    """
    table = ironic.table(name)
    all_values: Values = values | further
    row: Values = {"id": all_values.get("uuid")} if "id" in table.c else {}
    for column in table.columns:
        if column.name != "id":
            row[column.name] = _fitting(table, column, _encoded(model, column, all_values))
    row["version"] = ironic_39.VERSIONS.get(name)
    return row


def _encoded(model: type[Base] | None, column: Column[Any], values: Values) -> Any:
    value = values.get(column.name)
    if _is_unreadable(value):
        raise NotMoved(
            f"{column.name} has secrets that no key here opens: see `ingot secrets` and"
            " [database]secrets_key"
        )
    model_column: Any = model.__table__.c.get(column.name) if model else None
    is_document = model_column is not None and isinstance(model_column.type, JSON_TYPES)
    return json.dumps(value) if is_document or isinstance(value, dict | list) else value


def _is_unreadable(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_is_unreadable, value.values()))
    if isinstance(value, list):
        return any(map(_is_unreadable, value))
    return isinstance(value, Unreadable)


def _fitting(table: Table, column: Column[Any], value: object) -> Any:
    place, kind = f"{table.name}.{column.name}", column.type
    if value is None:
        if not column.nullable and column.server_default is None:
            raise NotMoved(f"{place} may not be null in Ironic")
        return None
    if column.name in REFERENCES:  # UUIDs stand for ids
        return value
    if isinstance(value, datetime):
        # MySQL rounds times to seconds
        return value if getattr(kind, "fsp", 6) else value.replace(microsecond=0)
    if isinstance(value, str):
        if "\0" in value:
            raise NotMoved(f"{place} has a NUL character, which databases of Ironic refuse")
        longest = kind.length if isinstance(kind, String) else None
        if longest and len(value) > longest:
            raise NotMoved(f"{place} has more than {longest} characters, the most in Ironic")
    return value
