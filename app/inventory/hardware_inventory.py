"""
Inventory: what inspection found out about a machine.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from app.db.clock import utcnow
from app.errors import NotFound
from app.models import Node, NodeInventory


def store(
    session: Session, node: Node, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any]
) -> None:
    """Keep what was found, in place of what was found before."""
    row = session.get(NodeInventory, node.id)
    if row is None:
        row = NodeInventory(node_id=node.id)
        session.add(row)
    row.created_at = utcnow()
    row.inventory, row.plugin_data = dict(inventory), dict(plugin_data)


def find(session: Session, node: Node) -> NodeInventory:
    """Raises NotFound for a node that was never inspected."""
    row = session.get(NodeInventory, node.id)
    if row is None:
        raise NotFound("node inventory record for node", node.uuid)
    return row
