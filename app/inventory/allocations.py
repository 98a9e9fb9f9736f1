"""
Allocations: create, backfill and delete requests for a node.

Code that locks both rows locks the node before its allocation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from app.errors import Conflict, Invalid, NotFound, Unavailable
from app.inventory import node_rules, nodes, scheduling, traits
from app.lifecycle.provision_states import State
from app.models import Allocation, Conductor, Node
from app.rows import row_changes
from app.rows.uuid_or_name import key_of


def create(session: Session, fields: Mapping[str, Any]) -> Allocation:
    """
    Create a request for any node that fits; a conductor searches for one.

    `fields` have the API's names, and were validated against its schema.

    Raises Invalid, Conflict, AlreadyExists.
    Raises Unavailable: no conductor has ever been started.
    """
    if not fields.get("resource_class"):
        raise Invalid(
            "The resource_class field is mandatory when not backfilling: give it, or a node"
        )
    if session.scalar(select(Conductor.id).limit(1)) is None:
        raise Unavailable("No conductor has ever been started.")
    allocation = _make(session, fields)
    scheduling.request_search(session, allocation)
    return row_changes.add(session, allocation)


def backfill(session: Session, ident: str, fields: Mapping[str, Any]) -> Allocation:
    """
    Create an allocation for a node that is in use already (Ironic's backfill).

    Raises Invalid, Conflict, NodeLocked, AlreadyExists.
    """
    try:
        node = nodes.lock(session, ident)
    except NotFound as error:
        raise Invalid(f"Node {ident} could not be found (node)") from error
    fields = {
        **fields,
        "uuid": fields.get("uuid") or node.instance_uuid,
        "resource_class": fields.get("resource_class") or node.resource_class,
    }
    allocation = _make(session, fields, node)
    _check_fits(session, node, allocation)
    nodes.check_unlocked(node)
    scheduling.bind(node, allocation)
    return row_changes.add(session, allocation)


def lock(session: Session, condition: ColumnElement[bool]) -> tuple[Allocation, Node | None] | None:
    """Lock an allocation and its node, if any, and return them; None if there is no allocation."""
    node_id = session.scalar(select(Allocation.node_id).where(condition))
    node = session.get(Node, node_id, with_for_update=True) if node_id else None
    allocation = session.scalar(select(Allocation).where(condition).with_for_update())
    if allocation is None:
        return None
    if allocation.node_id is not None and node is None:  # allocated since the first query
        node = session.get_one(Node, allocation.node_id, with_for_update=True)
    return allocation, node


def remove(session: Session, allocation: Allocation, node: Node | None) -> None:
    """
    Delete an allocation and release its node, if any; both rows are locked.

    Raises Conflict: the node is in use, or changes its provision state.
    Raises NodeLocked.
    """
    if node is not None:
        _check_releasable(node)
        node.instance_uuid = None
        nodes.release_allocation(session, node)
        nodes.touch(node)
    else:
        session.delete(allocation)


def _make(session: Session, fields: Mapping[str, object], node: Node | None = None) -> Allocation:
    allocation = row_changes.make(Allocation, fields)
    allocation.traits = sorted(set(allocation.traits))
    traits.check_count(allocation.traits)
    allocation.candidate_nodes = _uuids(session, allocation.candidate_nodes)
    holder_uuid = session.scalar(select(Node.uuid).where(Node.instance_uuid == allocation.uuid))
    if holder_uuid is not None and (node is None or holder_uuid != node.uuid):
        raise Conflict(
            f"uuid: {allocation.uuid} is {scheduling.instance_of(allocation, holder_uuid)}"
        )
    return allocation


def _uuids(session: Session, idents: Sequence[str]) -> list[str]:
    """
    Return the UUIDs of nodes, given by UUID or name, in their order.

    Raises Invalid: a node does not exist.
    """
    keys = {key: key_of(key)[1] for key in idents}
    if not keys:
        return []
    is_candidate = or_(Node.uuid.in_(keys.values()), Node.name.in_(keys.values()))
    uuids = {}
    for uuid, name in session.execute(select(Node.uuid, Node.name).where(is_candidate)):
        uuids[uuid] = uuids[name] = uuid
    for candidate, key in keys.items():
        if key not in uuids:
            raise Invalid(f"Nodes cannot be found: {candidate} (candidate_nodes)")
    return list(dict.fromkeys(uuids[ident] for ident in keys.values()))


def _check_fits(session: Session, node: Node, allocation: Allocation) -> None:
    """Check that the node of a backfill meets the conditions of its allocation."""
    if node.provision_state != State.ACTIVE:
        raise Conflict(
            f'node: {node.uuid} must be active, but it is in state "{node.provision_state}"'
        )
    if node.instance_uuid not in (None, allocation.uuid):
        raise Conflict(f"Node {node.uuid} is associated with instance {node.instance_uuid}.")
    if session.scalar(select(Allocation.id).where(Allocation.node_id == node.id)) is not None:
        raise Conflict(f"Node {node.uuid} has an allocation already.")
    if allocation.resource_class != node.resource_class:
        raise Invalid(
            f"resource_class: that of node {node.uuid} is {node.resource_class},"
            f" not {allocation.resource_class}"
        )
    lacking = set(allocation.traits) - set(traits.of_node(session, node))
    if lacking:
        raise Invalid(f"traits: node {node.uuid} does not have {', '.join(sorted(lacking))}")
    if allocation.candidate_nodes and node.uuid not in allocation.candidate_nodes:
        raise Invalid(f"candidate_nodes: node {node.uuid} must be one of them")


def _check_releasable(node: Node) -> None:
    """Check that the node is neither in use nor changing its provision state."""
    state = State(node.provision_state)
    under_way = node.target_provision_state is not None and state not in node_rules.CHANGEABLE
    if not node.maintenance and (under_way or state is State.ACTIVE):
        raise Conflict(
            f"The allocation of node {node.uuid} cannot be removed while the node is in state"
            f' "{state}".'
        )
    nodes.check_unlocked(node)
