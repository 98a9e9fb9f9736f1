"""Policy targets: the attributes of resources, such as `node.owner`, that rules compare."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, FromClause, false, select

from app.models import (
    Allocation,
    Base,
    ChangeEvent,
    Hold,
    Network,
    Node,
    Operation,
    Port,
    Portgroup,
    Quota,
    Rollout,
    Runbook,
    VolumeConnector,
    VolumeTarget,
    Webhook,
)
from app.rows.uuid_or_name import is_uuid
from app.runtime import Runtime

SEE_NODE = "baremetal:node:get"

Facts = Mapping[str, Any]  # attribute as rules name it -> value
NOTHING: Facts = {}


@dataclass(frozen=True, slots=True, eq=False)
class Owned:
    """A kind of resource that belongs to a project."""

    kind: str  # noun for messages
    model: type[Base]
    source: FromClause  # tables that `facts` are selected from
    facts: Mapping[str, ColumnElement[Any]]  # attribute in rules -> its column
    sees: str = SEE_NODE  # rule without which the caller must not learn that the resource exists
    public: ColumnElement[bool] | None = None  # true: every caller may read the resource
    # attributes by which lists are limited to a project, all of `facts` by default
    listed_by: frozenset[str] | None = None

    @property
    def owners(self) -> list[ColumnElement[Any]]:
        """Columns of the projects that may list the resource."""
        names = self.facts if self.listed_by is None else self.listed_by
        return [self.facts[name] for name in self.facts if name in names]

    @property
    def is_part_of_node(self) -> bool:
        """Whether the projects of a node own it."""
        return all(self.facts.get(name) is column for name, column in OF_NODE.items())

    def full_name(self, runtime: Runtime, ident: str) -> str:
        """Restore the suffix `.json`, cut off the path, if only the name with it exists."""
        if is_uuid(ident) or "name" not in self.model.__table__.c:
            return ident
        name, full_name = self.model.__table__.c.name, f"{ident}.json"
        with runtime.reading() as session:
            names = set(session.scalars(select(name).where(name.in_((ident, full_name)))))
        return full_name if names == {full_name} else ident

    def find(self, runtime: Runtime, ident: str) -> tuple[Facts, bool] | None:
        """
        Return the facts about the resource, and whether it is public; None if it does not exist.

        ident: UUID or name from the path.
        """
        columns = self.model.__table__.c
        if is_uuid(ident):
            condition = columns.uuid == str(UUID(ident))
        elif "name" in columns:
            condition = columns.name == ident
        else:
            return None
        selected_columns = (*self.facts.values(), false() if self.public is None else self.public)
        with runtime.reading() as session:
            query = select(*selected_columns).select_from(self.source).where(condition)
            row = session.execute(query).one_or_none()
        if row is None:
            return None
        *values, public = row
        return _without_none(dict(zip(self.facts, values, strict=True))), bool(public)


def _table(model: type[Base]) -> FromClause:
    return model.__table__


OF_NODE: Mapping[str, ColumnElement[Any]] = {
    "node.owner": Node.__table__.c.owner,
    "node.lessee": Node.__table__.c.lessee,
}
_OF_ALLOCATION: Mapping[str, ColumnElement[Any]] = {
    "allocation.owner": Allocation.__table__.c.owner
}


def _part_of_node(kind: str, model: type[Base]) -> Owned:
    return Owned(kind, model, _table(model).join(_table(Node)), OF_NODE)


def _of_project(
    kind: str,
    model: type[Base],
    column: str = "owner",
    public: ColumnElement[bool] | None = None,
) -> Owned:
    """Describe a resource that a project owns itself. column: of the project."""
    table = _table(model)
    facts = {f"{kind}.{column}": table.c[column]}
    return Owned(kind, model, table, facts, f"baremetal:{kind}:get", public)


#: Prefix of a path -> kind of the resource that its first parameter names; the longest one applies.
OWNED: Mapping[str, Owned] = {
    "/nodes/<>": Owned("node", Node, _table(Node), OF_NODE),
    "/nodes/validate": Owned("node", Node, _table(Node), OF_NODE),  # named in the query
    "/nodes/<>/allocation": Owned(
        "node", Node, _table(Node).outerjoin(_table(Allocation)), {**OF_NODE, **_OF_ALLOCATION}
    ),
    "/ports/<>": _part_of_node("port", Port),
    "/portgroups/<>": _part_of_node("portgroup", Portgroup),
    "/volume/connectors/<>": _part_of_node("volume connector", VolumeConnector),
    "/volume/targets/<>": _part_of_node("volume target", VolumeTarget),
    # a lessee sees no failures of its node (`SEE_WITHIN`)
    "/operations/<>": replace(
        _part_of_node("operation", Operation), listed_by=frozenset({"node.owner"})
    ),
    "/holds/<>": replace(
        _part_of_node("hold", Hold),
        facts={**OF_NODE, "hold.owner": _table(Hold).c.owner},
        listed_by=frozenset(OF_NODE),
    ),
    # for lists only: an event is of the node's projects at the time of the change
    "/events/<>": Owned(
        "event",
        ChangeEvent,
        _table(ChangeEvent),
        {"node.owner": _table(ChangeEvent).c.owner, "node.lessee": _table(ChangeEvent).c.lessee},
    ),
    "/allocations/<>": _of_project("allocation", Allocation),
    "/rollouts/<>": _of_project("rollout", Rollout),
    "/runbooks/<>": _of_project("runbook", Runbook, public=_table(Runbook).c.public),
    "/networks/<>": _of_project("network", Network, public=_table(Network).c.public),
    "/quotas/<>": _of_project("quota", Quota, "project"),
    "/webhooks/<>": _of_project("webhook", Webhook),
}


def owned_at(path: str) -> Owned | None:
    """Return the kind of the resource that a path names; None if it belongs to no project."""
    path = re.sub("<[^>]*>", "<>", path)
    starts = [start for start in OWNED if path == start or path.startswith(f"{start}/")]
    return OWNED[max(starts, key=len)] if starts else None


def _without_none(facts: Facts) -> Facts:
    """Drop unset attributes: None must not match a caller without a project."""
    return {name: value for name, value in facts.items() if value is not None}


def of_node(owner: str | None, lessee: str | None) -> Facts:
    return _without_none({"node.owner": owner, "node.lessee": lessee})
