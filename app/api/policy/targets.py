"""
Whose things are: what the rules of the policy compare with the caller.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, FromClause, false, select

from app.api.answers import runtime
from app.kit.identifiers import is_uuid
from app.models import (
    Allocation,
    Base,
    Node,
    Operation,
    Port,
    Portgroup,
    Runbook,
    VolumeConnector,
    VolumeTarget,
)

SEE_NODE = "baremetal:node:get"

Facts = Mapping[str, Any]
NOTHING: Facts = {}


@dataclass(frozen=True, slots=True, eq=False)
class Owned:
    """
    How it is found out whose a thing is.

    kind: as in messages. facts: name in rules -> column that has it, in `source`. sees: the rule
    of those who may know that the thing is there. public: the column that opens it to everybody.
    """

    kind: str
    model: type[Base]
    source: FromClause
    facts: Mapping[str, ColumnElement[Any]]
    sees: str = SEE_NODE
    public: ColumnElement[bool] | None = None

    def full_name(self, ident: str) -> str:
        """The name of a thing that ends in `.json`, which its path has lost; else `ident`."""
        if is_uuid(ident) or "name" not in self.model.__table__.c:
            return ident
        name, whole = self.model.__table__.c.name, f"{ident}.json"
        with runtime().reading() as session:
            found = set(session.scalars(select(name).where(name.in_((ident, whole)))))
        return whole if found == {whole} else ident

    def find(self, ident: str) -> tuple[Facts, bool] | None:
        """The facts about the thing that a path means, and whether it is public."""
        columns = self.model.__table__.c
        if is_uuid(ident):
            condition = columns.uuid == str(UUID(ident))
        elif "name" in columns:
            condition = columns.name == ident
        else:
            return None
        wanted = (*self.facts.values(), false() if self.public is None else self.public)
        with runtime().reading() as session:
            found = select(*wanted).select_from(self.source).where(condition)
            row = session.execute(found).one_or_none()
        if row is None:
            return None
        *values, public = row
        return known(dict(zip(self.facts, values, strict=True))), bool(public)


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


#: How a path begins -> whose the thing is that its first parameter names.
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
    "/operations/<>": _part_of_node("operation", Operation),
    "/allocations/<>": Owned(
        "allocation", Allocation, _table(Allocation), _OF_ALLOCATION, "baremetal:allocation:get"
    ),
    "/runbooks/<>": Owned(
        "runbook",
        Runbook,
        _table(Runbook),
        {"runbook.owner": Runbook.__table__.c.owner},
        "baremetal:runbook:get",
        Runbook.__table__.c.public,
    ),
}


def owned_at(path: str) -> Owned | None:
    """Whose the things are that a route is about; None for what belongs to nobody."""
    path = re.sub("<[^>]*>", "<>", path)
    starts = [start for start in OWNED if path == start or path.startswith(f"{start}/")]
    return OWNED[max(starts, key=len)] if starts else None


def known(facts: Facts) -> Facts:
    """Without what is None: it must not match a caller who lacks the same."""
    return {name: value for name, value in facts.items() if value is not None}


def of_node(owner: str | None, lessee: str | None) -> Facts:
    return known({"node.owner": owner, "node.lessee": lessee})
