"""
Chassis: create, check and delete enclosures of nodes.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from app.errors import Invalid, NotFound
from app.models import Chassis, Node
from app.rows import row_changes


def create(session: Session, fields: Mapping[str, Any]) -> Chassis:
    """
    Create a chassis.

    Raises AlreadyExists.
    """
    return row_changes.add(session, row_changes.make(Chassis, fields))


def check(session: Session | Connection, uuid: str) -> None:
    """
    Check that a chassis exists.

    Raises NotFound.
    """
    if session.scalar(select(Chassis.id).where(Chassis.uuid == uuid)) is None:
        raise NotFound("chassis", uuid)


def remove(session: Session, chassis: Chassis) -> None:
    """
    Delete a chassis, whose row is locked.

    Raises Invalid: it contains nodes.
    """
    if session.scalar(select(Node.id).where(Node.chassis_uuid == chassis.uuid).limit(1)):
        raise Invalid(
            f"Cannot complete the requested action because chassis {chassis.uuid} contains nodes."
        )
    session.delete(chassis)
