"""
Hardware inventory of a machine, as found by inspections, and by refreshes, which ask the BMC again.

An agent sees more of a machine than its BMC, and other things: disks are volumes of a RAID
controller to the one, and drives to the other. So the inventory of a BMC replaces that of a BMC
only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from app.db.clock import now
from app.errors import NotFound
from app.models import InventorySource, Node, NodeInventory
from drivers.core.target import BmcInventory

#: Key of the plugin data of an inspection by the BMC: documents that it did not return.
UNREAD = "unread_documents"


def store(
    session: Session,
    node: Node,
    inventory: Mapping[str, Any],
    plugin_data: Mapping[str, Any],
    source: InventorySource | None = None,
) -> None:
    """Store the results of an inspection in place of the previous results."""
    row = _row(session, node)
    row.created_at, row.source = now(), source
    row.inventory, row.plugin_data = dict(inventory), dict(plugin_data)
    if source == InventorySource.BMC:
        row.bmc_inventory, row.unread_documents = None, list(plugin_data.get(UNREAD, ()))


def store_of_bmc(session: Session, node: Node, reading: BmcInventory) -> None:
    """
    Store the inventory of the BMC in place of an earlier one of the BMC, or else beside the results
    of the last inspection.

    Facts that it does not show now, as those of a machine that is off, stay as recorded.
    """
    row = session.get(NodeInventory, node.id)
    if row is None:
        row = _row(session, node)
        row.source, row.inventory, row.plugin_data = InventorySource.BMC, {}, {}
    inventory, _ = merge(of_bmc(row), reading.inventory)
    if row.source == InventorySource.BMC:
        row.inventory, row.created_at = inventory, now()
    else:
        row.bmc_inventory = inventory
    row.unread_documents = list(reading.unread_documents)


def of_bmc(row: NodeInventory | None) -> Mapping[str, Any] | None:
    """Return the inventory that the BMC has shown last; None: it is not recorded."""
    if row is None:
        return None
    return row.inventory if row.source == InventorySource.BMC else row.bmc_inventory


def lost_documents(row: NodeInventory | None, reading: BmcInventory) -> Sequence[str]:
    """Return the documents that the BMC has returned for the recorded inventory, and not now."""
    if row is None or of_bmc(row) is None:
        return ()
    return sorted(set(reading.unread_documents) - set(row.unread_documents or ()))


def merge(
    recorded_inventory: Mapping[str, Any] | None, inventory: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """
    Return the inventory of a BMC with recorded facts in place of those that it does not show, and
    the names of these.

    A fact is a member of a section, as `cpu.count`, or a whole list, as `disks`.
    """
    merged_inventory, kept_names = dict(inventory), list[str]()
    for name, old_value in (recorded_inventory or {}).items():
        value = inventory.get(name)
        if isinstance(old_value, Mapping) and isinstance(value, Mapping | None):
            section = value or {}
            kept_names += [f"{name}.{key}" for key in old_value if key not in section]
            merged_inventory[name] = {**old_value, **section}
        elif old_value and not value:
            kept_names.append(name)
            merged_inventory[name] = old_value
    return merged_inventory, kept_names


def find(session: Session, node: Node) -> NodeInventory:
    """
    Return the inventory of a node.

    Raises NotFound: the node was never inspected.
    """
    row = session.get(NodeInventory, node.id)
    if row is None:
        raise NotFound("node inventory record for node", node.uuid)
    return row


def _row(session: Session, node: Node) -> NodeInventory:
    row = session.get(NodeInventory, node.id)
    if row is None:
        row = NodeInventory(node_id=node.id)
        session.add(row)
    return row
