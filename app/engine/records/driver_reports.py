"""
Driver reports: facts that a driver has learnt about its machine, written to the node's rows.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.clock import now
from app.engine import provision_state
from app.engine.records import inspection_findings
from app.inspection.process import INPUT
from app.inventory import benchmarks, hardware_inventory, history
from app.models import (
    AgentRecord,
    BiosSetting,
    FirmwareComponent,
    Node,
    Port,
    Portgroup,
    VolumeTarget,
)
from drivers.core.interface_kinds import Boot

Facts = Iterable[Mapping[str, Any]]

#: Columns whose keys are merged with a report; None deletes a key.
MERGED = ("driver_internal_info", "properties")
#: Key of driver_internal_info: incarnation of the conductor that has started the console.
CONSOLE_CONDUCTOR = "console_conductor"
#: Keys of driver_internal_info: address and TCP port of a graphical console, as Nova reads them.
VNC = ("vnc_host", "vnc_port")
#: Reports that belong to a step; `workers.conductor.recording` writes them.
OF_STEP = frozenset({benchmarks.REPORT})
#: Reports about the agent's row.
OF_AGENT = frozenset({"agent", "agent_steps", "agent_token", "hardware_manager_version"})


def concern_columns(reports: Mapping[str, Any]) -> bool:
    """Return whether the reports change only columns of the node."""
    return reports.keys().isdisjoint(OF_AGENT | OF_STEP | _TABLES.keys())


def apply(
    session: Session, node: Node, reports: Mapping[str, Any], incarnation: str | None = None
) -> None:
    """
    Write a driver's reports (`drivers.core.target`); the caller has locked the node's row.

    incarnation: of the conductor that ran the step, if the reports come from one.

    Raises InspectionFailed: the findings of an inspection cannot be stored.
    """
    if "console_enabled" in reports:
        started_by = incarnation if reports["console_enabled"] else None
        internal = {CONSOLE_CONDUCTOR: started_by, **dict.fromkeys(VNC)}
        internal |= reports.get("driver_internal_info", {})
        reports = {**reports, "driver_internal_info": internal}
    changed = False
    for name, value in reports.items():
        # input without findings: the step has failed
        if name in OF_AGENT or name in OF_STEP or name in INPUT:
            continue
        if name in _TABLES:
            _TABLES[name](session, node, value)
            continue
        if name in MERGED:
            merged = {**getattr(node, name), **value}
            value = {key: item for key, item in merged.items() if item is not None}
        if getattr(node, name) != value:
            setattr(node, name, value)
            changed = True
    if changed:
        node.updated_at = now()
    if reports.keys() & OF_AGENT:
        _apply_to_agent(session, node, reports)


def _apply_to_agent(session: Session, node: Node, reports: Mapping[str, Any]) -> None:
    agent = session.get(AgentRecord, node.id, with_for_update=True, populate_existing=True)
    if agent is None:
        if not reports.get("agent_token"):
            return
        agent = AgentRecord(node_id=node.id)
        session.add(agent)
    if "agent" in reports:
        provision_state.forget_agent(agent)
    if "agent_token" in reports:
        agent.token, agent.pregenerated = reports["agent_token"], bool(reports["agent_token"])
    if "agent_steps" in reports:
        agent.steps = {**agent.steps, **reports["agent_steps"]}
        agent.steps_refreshed_at = now()
    if "hardware_manager_version" in reports:
        agent.hardware_manager_version = reports["hardware_manager_version"]


def _write_bios(session: Session, node: Node, settings: Facts) -> None:
    """Write the complete set of BIOS settings; rows of other settings are deleted."""
    query = select(BiosSetting).where(BiosSetting.node_id == node.id)
    rows_by_name = {row.name: row for row in session.scalars(query)}
    for fact in settings:
        row = rows_by_name.pop(fact["name"], None)
        value = fact.get("value")
        columns = {**fact, "value": value if value is None else str(value)}
        if row is None:
            session.add(BiosSetting(node_id=node.id, **columns))
        else:
            _update(row, columns)
    for row in rows_by_name.values():
        session.delete(row)


def _write_firmware(session: Session, node: Node, components: Facts) -> None:
    """Write the complete set of firmware components; rows of other components are deleted."""
    query = select(FirmwareComponent).where(FirmwareComponent.node_id == node.id)
    rows_by_component = {row.component: row for row in session.scalars(query)}
    for fact in components:
        row = rows_by_component.pop(fact["component"], None)
        columns = {name: value for name, value in fact.items() if value is not None}
        if row is None:
            initial = fact.get("current_version") or ""
            session.add(FirmwareComponent(node_id=node.id, initial_version=initial, **columns))
        else:
            _update(row, columns)
    for row in rows_by_component.values():
        session.delete(row)


def _update_volumes(session: Session, node: Node, changes: Mapping[str, Any]) -> None:
    """Update volume targets of the node by UUID; one that was deleted meanwhile is ignored."""
    query = select(VolumeTarget).where(VolumeTarget.node_id == node.id)
    for row in session.scalars(query.where(VolumeTarget.uuid.in_(changes))):
        _update(row, changes[row.uuid])


def _update_places(session: Session, node: Node, changes: Mapping[str, Any]) -> None:
    """Merge keys into `internal_info` of ports and port groups, by UUID; None deletes a key."""
    rows: list[Port | Portgroup] = []
    for model in (Port, Portgroup):
        mine = model.node_id == node.id, model.uuid.in_(changes)
        rows += session.scalars(select(model).where(*mine).with_for_update())
    for row in rows:
        merged = {**row.internal_info, **changes[row.uuid]}
        info = {key: value for key, value in merged.items() if value is not None}
        if info != row.internal_info:
            row.internal_info, row.updated_at = info, now()


def _update(
    row: BiosSetting | FirmwareComponent | VolumeTarget, columns: Mapping[str, Any]
) -> None:
    for name, value in columns.items():
        if getattr(row, name) != value:
            setattr(row, name, value)
            row.updated_at = now()


def _note_boot_warning(session: Session, node: Node, warning: str | None) -> None:
    """
    Keep a warning of the boot medium on the node and in its history.

    Timeout errors of the agent quote it (`app.engine.agent_waits`).
    """
    internal = {**node.driver_internal_info}
    internal.pop(Boot.WARNING, None)
    if warning:
        internal[Boot.WARNING] = warning
        history.add(session, node, "boot", warning, "WARNING")
    if internal != node.driver_internal_info:
        node.driver_internal_info = internal


def _note_console_error(session: Session, node: Node, error: str) -> None:
    node.last_error = error
    history.add(session, node, "console", error, "ERROR")


def _write_passwords(_session: Session, node: Node, passwords: Mapping[str, str]) -> None:
    """Write passwords of the BMC that a login has verified."""
    node.driver_info = {**node.driver_info, **passwords}
    node.updated_at = now()


#: Report about other tables, or about a part of a column -> the function that writes it.
_TABLES: Mapping[str, Callable[[Session, Node, Any], None]] = {
    "bios_settings": _write_bios,
    "boot_warning": _note_boot_warning,
    "console_error": _note_console_error,
    "findings": inspection_findings.write,
    "firmware": _write_firmware,
    "inventory": hardware_inventory.store_of_bmc,
    "login_passwords": _write_passwords,
    "port_internal_info": _update_places,
    "volume_targets": _update_volumes,
}
