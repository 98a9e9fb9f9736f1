"""
Hardware inventory of a machine, as found by inspection.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from app.db.clock import now
from app.errors import NotFound
from app.models import Node, NodeInventory


def store(
    session: Session, node: Node, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]
) -> None:
    """Store the results of an inspection in place of the previous results."""
    row = session.get(NodeInventory, node.id)
    if row is None:
        row = NodeInventory(node_id=node.id)
        session.add(row)
    row.created_at = now()
    row.inventory, row.plugin_data = dict(inventory), dict(plugin_data)


def find(session: Session, node: Node) -> NodeInventory:
    """
    Return the inventory of a node.

    Raises NotFound: the node was never inspected.
    """
    row = session.get(NodeInventory, node.id)
    if row is None:
        raise NotFound("node inventory record for node", node.uuid)
    return row
