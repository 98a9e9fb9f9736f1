"""
Resources owned by a node: ports, port groups, volume connectors and volume targets.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.errors import Conflict, Invalid
from app.inventory import nodes
from app.lifecycle.provision_states import State
from app.models import Node, Port, Portgroup, VolumeConnector, VolumeTarget
from app.models.base import kind_of
from app.rows.uuid_or_name import identified

Part = Port | Portgroup | VolumeConnector | VolumeTarget

#: Provision states that allow changes of a node's network connections.
REWIRABLE = {State.ENROLL, State.INSPECTING, State.INSPECT_WAIT, State.MANAGEABLE}


def node_id(session: Session, ident: str) -> int:
    """
    Return the id of a resource's node, and lock the node against deletion.

    The node may be reserved for an operation.

    Raises Invalid: there is no such node.
    """
    row_id = session.scalar(
        select(Node.id).where(identified(ident)).with_for_update(read=True, key_share=True, of=Node)
    )
    if row_id is None:
        raise Invalid(
            f"Unable to apply the requested node_uuid {ident!r}. Requested value was invalid: Node"
            f" {ident} could not be found."
        )
    return row_id


def by_column(session: Session, values: dict[str, Any]) -> dict[str, Any]:
    """
    Return column values: `node_uuid` is replaced by `node_id`.

    Raises Invalid: there is no such node.
    """
    if "node_uuid" not in values:
        return values
    columns = {name: value for name, value in values.items() if name != "node_uuid"}
    return {**columns, "node_id": node_id(session, values["node_uuid"])}


def changed(part: Part, values: dict[str, Any]) -> set[str]:
    """Return the columns whose new value differs."""
    return {name for name, value in values.items() if value != getattr(part, name)}


def lock_node(session: Session, part: Part, *, inspecting_counts: bool = False) -> Node:
    """
    Lock the node of a resource, and return it.

    Raises NodeLocked.
    Raises Conflict: the node is under inspection, and `inspecting_counts` refuses changes then.
    """
    node = session.get_one(Node, part.node_id, with_for_update=True)
    if inspecting_counts and node.provision_state == State.INSPECTING:
        raise Conflict(
            f"Node {node.uuid} is being inspected; its {kind_of(type(part))}s cannot be changed."
        )
    nodes.check_unlocked(node)
    return node


def check_rewirable(node: Node, fields: Iterable[str]) -> None:
    """
    Check that the node's state permits changes of these fields of a resource.

    Raises Conflict.
    """
    names = ", ".join(sorted(fields))
    if names and node.provision_state not in REWIRABLE and not node.maintenance:
        raise Conflict(
            f"{names}: cannot be changed while node {node.uuid} is in state"
            f' "{node.provision_state}" and not in maintenance'
        )
