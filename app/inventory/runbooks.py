"""
Runbooks: named lists of steps for cleaning and servicing nodes.

A runbook fits a node that has one of its traits, or its name as a trait: before API version 1.112
runbooks had no traits.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.clock import now
from app.errors import Invalid, NotFound
from app.inventory import traits
from app.models import Node, Runbook
from app.rows import row_changes
from app.rows.uuid_or_name import is_uuid


def find(session: Session, ident: str) -> Runbook:
    """
    Return a runbook by UUID or name.

    Raises NotFound.
    """
    by_uuid = is_uuid(ident)
    condition = Runbook.uuid == str(UUID(ident)) if by_uuid else Runbook.name == ident
    runbook = session.scalar(select(Runbook).where(condition))
    if runbook is None:
        raise NotFound("runbook", ident)
    return runbook


def create(session: Session, fields: Mapping[str, Any]) -> Runbook:
    """
    Create a runbook. `fields` have the API's names, and were validated against its schema.

    Raises Invalid, AlreadyExists.
    """
    runbook = row_changes.make(Runbook, fields)
    _check_owner(runbook)
    return row_changes.add(session, runbook)


def change(session: Session, runbook: Runbook, values: Mapping[str, Any]) -> None:
    """
    Update a runbook, whose row is locked; a runbook that becomes public loses its owner.

    Raises Invalid, AlreadyExists.
    """
    if values.get("public") and "owner" not in values:
        values = {**values, "owner": None}
    row_changes.change(session, runbook, values)
    _check_owner(runbook)


def set_traits(runbook: Runbook, trait_names: Iterable[str]) -> None:
    """
    Replace the traits of a runbook, whose row is locked.

    Raises Invalid: too many traits.
    """
    runbook.traits = sorted(set(trait_names))
    traits.check_count(runbook.traits)
    runbook.updated_at = now()


def steps_of(
    session: Session, node: Node, ident: str, *, must_fit: bool = True
) -> tuple[list[dict[str, object]], bool]:
    """
    Return the steps of a runbook (by UUID or name) in their order, and its `disable_ramdisk`.

    Raises NotFound.
    Raises Invalid: the runbook does not fit the node's traits, and `must_fit` is set.
    """
    runbook = find(session, ident)
    fitting = sorted({runbook.name, *runbook.traits})
    if must_fit and set(traits.of_node(session, node)).isdisjoint(fitting):
        raise Invalid(
            f"runbook: {runbook.name} fits nodes with one of the traits {', '.join(fitting)};"
            f" node {node.uuid} has none of them"
        )
    steps = sorted(runbook.steps, key=lambda step: step["order"])
    return steps, runbook.disable_ramdisk


def _check_owner(runbook: Runbook) -> None:
    if runbook.public and runbook.owner is not None:
        raise Invalid("owner: must be null for a public runbook")
