"""
Quotas: how many nodes a project may lease.

A node counts while the project is its `lessee`, independent of its owner and its state. Code that
sets the lessee of a node calls `check` in the same transaction: it locks the quota of the project
until the commit, so requests for one project count one after the other, and never exceed the limit
together. Code that locks both rows locks the node before the quota.

A new limit concerns the requests that begin after it is set. A limit below the number of leased
nodes takes none away.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ScalarSelect, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.errors import Invalid, QuotaReached
from app.identity.caller import UNAUTHENTICATED, Caller
from app.models import Node, Project, Quota
from app.rows import row_changes


def create(session: Session, fields: Mapping[str, Any]) -> Quota:
    """
    Create the quota of a project. `fields` have the API's names, and were validated against its
    schema.

    Raises AlreadyExists.
    Raises Invalid: the project is named by its name, but nodes have its identifier.
    """
    project = fields["project"]
    idents = session.execute(
        select(Project.name, Project.ident).where(
            (Project.name == project) | (Project.ident == project)
        )
    ).all()
    if idents and project not in {ident for _, ident in idents}:
        raise Invalid(
            f"project: {project} is the name of project {idents[0].ident}: give its identifier,"
            " which nodes have as lessee"
        )
    return row_changes.add(session, row_changes.make(Quota, fields))


def leased_nodes(project: str | InstrumentedAttribute[str]) -> ScalarSelect[int]:
    """Return the number of nodes that a project leases. project: its identifier, or a column."""
    return select(func.count()).where(Node.lessee == project).scalar_subquery()


def check(
    session: Session, node: Node, project: str | None, caller: Caller = UNAUTHENTICATED
) -> None:
    """
    Check that a project may become the lessee of a node, which is new, or locked.

    It may if it is the lessee already, if it has no quota, or if it leases fewer nodes than its
    quota allows. caller: of the request; one of another project does not learn the numbers.

    Raises QuotaReached.
    """
    if project is None or (node.id is not None and project == node.lessee):
        return
    limit = session.scalar(
        select(Quota.node_limit).where(Quota.project == project).with_for_update()
    )
    if limit is None:
        return
    # a statement of its own, after the lock: it sees what the holder before has committed
    count = session.scalar(select(leased_nodes(project))) or 0
    if count >= limit:
        is_informed = caller.project_id in (None, project)
        raise QuotaReached(project, limit, count if is_informed else None)
