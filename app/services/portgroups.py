"""
Port groups: ports of a node that are used as one.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.db import now
from app.errors import Invalid
from app.models import Port, Portgroup
from app.runtime import of
from app.services import parts, rows


def create(session: Session, fields: Mapping[str, Any]) -> Portgroup:
    """A new group, without ports. Raises Invalid, AlreadyExists."""
    values = parts.by_column(session, dict(fields))
    if not values.get("mode"):
        values["mode"] = of(session).settings.default.default_portgroup_mode
    group = rows.make(Portgroup, values)
    rows.add(session, group)
    return group


def change(
    session: Session, group: Portgroup, values: Mapping[str, Any], *, inspecting_counts: bool
) -> None:
    """
    Change fields of a group; a new physical network is that of its ports, too.

    values: field -> its new value, None for removed; node_uuid moves it.
    Raises Invalid, Conflict, NodeLocked, AlreadyExists.
    """
    node = parts.lock_node(session, group, inspecting_counts=inspecting_counts)
    values = parts.by_column(session, dict(values))
    if "node_id" in parts.changed(group, values):
        parts.check_rewirable(node, ["node_uuid"])
        _check_empty(session, group)
    rows.change(session, group, values)
    if "physical_network" in values:
        session.execute(
            update(Port)
            .where(Port.portgroup_id == group.id)
            .values(physical_network=group.physical_network, updated_at=now())
        )


def remove(session: Session, group: Portgroup) -> None:
    """Forget a group that has no ports. Raises Invalid, NodeLocked."""
    parts.lock_node(session, group)
    _check_empty(session, group)
    session.delete(group)


def _check_empty(session: Session, group: Portgroup) -> None:
    if session.scalar(select(Port.id).where(Port.portgroup_id == group.id).limit(1)):
        raise Invalid(
            f"Cannot complete the requested action because portgroup {group.uuid} contains ports."
        )
