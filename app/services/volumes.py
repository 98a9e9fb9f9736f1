"""
Volumes: what a node reaches remote storage with, and the storage that it boots from or uses.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from app.errors import Invalid
from app.models import Node, VolumeConnector, VolumeTarget
from app.models.base import kind_of
from app.services import nodes, parts, rows
from drivers.core.kinds import POWER_OFF

Volume = TypeVar("Volume", VolumeConnector, VolumeTarget)


def create(session: Session, model: type[Volume], fields: Mapping[str, Any]) -> Volume:
    """A new connector or target of a node, which may be locked. Raises Invalid, AlreadyExists."""
    volume = rows.make(model, parts.by_column(session, dict(fields)))
    rows.add(session, volume)
    return volume


def change(
    session: Session, volume: VolumeConnector | VolumeTarget, values: Mapping[str, Any]
) -> None:
    """
    Change fields of a connector or target while its node is off. values: field -> its new value.

    Raises Invalid, NodeLocked, AlreadyExists.
    """
    node = parts.lock_node(session, volume)
    if node.power_state != POWER_OFF:
        raise _refusal("update", volume, node)
    rows.change(session, volume, parts.by_column(session, dict(values)))


def remove(session: Session, volume: VolumeConnector | VolumeTarget) -> None:
    """Forget a connector or target of a node that is off or unused. Raises Invalid, NodeLocked."""
    node = parts.lock_node(session, volume)
    if node.power_state != POWER_OFF and node.provision_state not in nodes.REMOVABLE:
        raise _refusal("deletion", volume, node)
    session.delete(volume)


def _refusal(what: str, volume: VolumeConnector | VolumeTarget, node: Node) -> Invalid:
    kind = kind_of(type(volume))
    return Invalid(  # clients of old look for its first words
        f'The requested action "{kind} {what}" can not be performed on node "{node.uuid}" while it'
        f' is in state "{node.power_state}": power it off first.'
    )
