"""
Traits of nodes: validate, list and change them.

A trait is a standard name of the os-traits library, or a custom one (`CUSTOM_...`).
"""

import re
from collections.abc import Collection, Iterable
from functools import cache

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.errors import Invalid, NotFound
from app.inventory.nodes import check_unlocked, touch
from app.models import Node, NodeTrait

#: Maximum number of traits of a node or a runbook.
MOST = 50
#: Maximum number of characters of a trait.
LONGEST = 255
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")


@cache
def _standard() -> frozenset[str]:
    import os_traits  # slow: it imports fifty modules

    return frozenset(os_traits.get_traits())


def is_trait(text: str) -> bool:
    """Whether a text is a standard or custom trait."""
    if len(text) > LONGEST:
        return False
    return bool(_CUSTOM.fullmatch(text)) or text in _standard()


def check_count(traits: Collection[str]) -> None:
    """
    Check the number of traits.

    Raises Invalid: there are more than MOST.
    """
    if len(traits) > MOST:
        raise Invalid(
            f"traits: {len(traits)} would exceed the maximum number of traits per node ({MOST})"
        )


def of_node(session: Session, node: Node) -> list[str]:
    """Return the traits of a node, sorted."""
    query = select(NodeTrait.trait).where(NodeTrait.node_id == node.id)
    return list(session.scalars(query.order_by(NodeTrait.trait)))


def replace(session: Session, node: Node, traits: Iterable[str]) -> None:
    """
    Replace the traits of a node, whose row is locked.

    Raises Invalid: too many traits.
    Raises NodeLocked.
    """
    trait_names = sorted(set(traits))
    check_count(trait_names)
    _change(node)
    session.execute(delete(NodeTrait).where(NodeTrait.node_id == node.id))
    session.add_all(NodeTrait(node_id=node.id, trait=trait) for trait in trait_names)


def add(session: Session, node: Node, trait: str) -> None:
    """
    Add a trait to a node, whose row is locked; do nothing if the node has it.

    Raises Invalid: too many traits.
    Raises NodeLocked.
    """
    node_traits = of_node(session, node)
    if trait not in node_traits:
        check_count([*node_traits, trait])
        _change(node)
        session.add(NodeTrait(node_id=node.id, trait=trait))


def remove(session: Session, node: Node, trait: str) -> None:
    """
    Remove a trait from a node, whose row is locked.

    Raises NotFound: the node does not have it.
    Raises NodeLocked.
    """
    _change(node)
    row = session.get(NodeTrait, (node.id, trait))
    if row is None:
        raise NotFound("trait", trait, f"Node {node.uuid} doesn't have a trait '{{ident}}'")
    session.delete(row)


def _change(node: Node) -> None:
    """Check that the node is not reserved, and set `updated_at`."""
    check_unlocked(node)
    touch(node)
