"""
Volume connectors and volume targets: create, update and delete them.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from app.errors import Invalid
from app.inventory import nodes, owned_resources
from app.models import Node, VolumeConnector, VolumeTarget
from app.models.base import kind_of
from app.rows import row_changes
from drivers.core.interface_kinds import POWER_OFF
from drivers.core.kinds.power_pursuit import PENDING

Volume = TypeVar("Volume", VolumeConnector, VolumeTarget)


def create(session: Session, model: type[Volume], fields: Mapping[str, Any]) -> Volume:
    """
    Create a connector or target of a node, which may be reserved for an operation.

    Raises Invalid, AlreadyExists.
    """
    values = owned_resources.by_column(session, dict(fields))
    return row_changes.add(session, row_changes.make(model, values))


def change(
    session: Session, volume: VolumeConnector | VolumeTarget, values: Mapping[str, Any]
) -> None:
    """
    Update a connector or target. `values`: field -> its new value.

    Raises Invalid: a value is wrong, or the node is not powered off.
    Raises NodeLocked, AlreadyExists.
    """
    node = owned_resources.lock_node(session, volume)
    if not _is_off(node):
        raise _refusal("update", volume, node)
    row_changes.change(session, volume, owned_resources.by_column(session, dict(values)))


def remove(session: Session, volume: VolumeConnector | VolumeTarget) -> None:
    """
    Delete a connector or target.

    Raises Invalid: the node is neither powered off nor in a state that allows the deletion.
    Raises NodeLocked.
    """
    node = owned_resources.lock_node(session, volume)
    if not _is_off(node) and node.provision_state not in nodes.REMOVABLE:
        raise _refusal("deletion", volume, node)
    session.delete(volume)


def _is_off(node: Node) -> bool:
    """Whether the machine is off for sure: its last power order may still switch it on."""
    return node.power_state == POWER_OFF and PENDING not in node.driver_internal_info


def _refusal(verb: str, volume: VolumeConnector | VolumeTarget, node: Node) -> Invalid:
    kind = kind_of(type(volume))
    remedy = "power it off first."
    if node.power_state == POWER_OFF:
        remedy = (
            "the outcome of its last power order is unknown; wait until the power sync has"
            " settled it, or power it off again."
        )
    return Invalid(  # existing clients match on the first words
        f'The requested action "{kind} {verb}" can not be performed on node "{node.uuid}" while it'
        f' is in state "{node.power_state}": {remedy}'
    )
