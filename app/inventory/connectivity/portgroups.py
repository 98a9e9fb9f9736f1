"""
Port groups: create, update and delete bonds of a node's ports.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.db.clock import now
from app.errors import Invalid
from app.inventory import owned_resources
from app.models import Port, Portgroup
from app.rows import row_changes
from app.runtime import runtime_of


def create(session: Session, fields: Mapping[str, Any]) -> Portgroup:
    """
    Create a port group without ports.

    Raises Invalid, AlreadyExists.
    """
    values = owned_resources.by_column(session, dict(fields))
    if not values.get("mode"):
        values["mode"] = runtime_of(session).settings.default.default_portgroup_mode
    return row_changes.add(session, row_changes.make(Portgroup, values))


def change(
    session: Session, group: Portgroup, values: Mapping[str, Any], *, inspecting_counts: bool
) -> None:
    """
    Update a port group; its ports get a new physical network, too.

    values: field -> its new value, or None to remove it. A new node_uuid moves the group.

    Raises Invalid, Conflict, NodeLocked, AlreadyExists.
    """
    node = owned_resources.lock_node(session, group, inspecting_counts=inspecting_counts)
    values = owned_resources.by_column(session, dict(values))
    if "node_id" in owned_resources.changed(group, values):
        owned_resources.check_rewirable(node, ["node_uuid"])
        _check_empty(session, group)
    row_changes.change(session, group, values)
    if "physical_network" in values:
        session.execute(
            update(Port)
            .where(Port.portgroup_id == group.id)
            .values(physical_network=group.physical_network, updated_at=now())
        )


def remove(session: Session, group: Portgroup) -> None:
    """
    Delete a port group.

    Raises Invalid: it contains ports.
    Raises NodeLocked.
    """
    owned_resources.lock_node(session, group)
    _check_empty(session, group)
    session.delete(group)


def _check_empty(session: Session, group: Portgroup) -> None:
    if session.scalar(select(Port.id).where(Port.portgroup_id == group.id).limit(1)):
        raise Invalid(
            f"Cannot complete the requested action because portgroup {group.uuid} contains ports."
        )
