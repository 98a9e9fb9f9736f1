"""
Import of Ironic's rows: a transaction per node or resource, so that a second run goes on.

A row that exists is never changed: it is compared, and reported if its content differs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session

from app.audit import audit_records
from app.db.diagnosis import reason
from app.db.transactions import connection_of, retrying
from app.lifecycle.operation_states import Actor
from app.models import (
    Allocation,
    Base,
    Chassis,
    DeployTemplate,
    InspectionRule,
    Node,
    Portgroup,
    Runbook,
)
from app.models.base import kind_of
from app.process import kill_points
from app.runtime import Runtime
from workers.moving import translation
from workers.moving.ironic_database import IronicDatabase, Row
from workers.moving.translation import Bundle, NotMoved, Values


class Outcome(StrEnum):
    """Outcome of the import of one row of Ironic."""

    WOULD_IMPORT = "would be imported"
    IMPORTED = "imported"
    PRESENT = "there already"
    DIFFERS = "there, with other content"
    SKIPPED = "skipped"


#: Outcomes of rows that are not here as they are in Ironic.
LEFT = (Outcome.DIFFERS, Outcome.SKIPPED)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row of Ironic, and its outcome."""

    kind: str  # as "node", "deploy template"
    uuid: str
    name: str | None
    provision_state: str | None  # of a node
    outcome: Outcome
    detail: str  # reason, differing fields, or changes on the way; empty: none

    def document(self) -> dict[str, Any]:
        return asdict(self)


#: Ironic's table -> model here, and the function that translates a row; in the order of references.
RESOURCES: Mapping[str, tuple[type[Base], Callable[[IronicDatabase, Row], Bundle]]] = {
    "chassis": (Chassis, translation.chassis),
    "deploy_templates": (DeployTemplate, translation.deploy_template),
    "runbooks": (Runbook, translation.runbook),
    "inspection_rules": (InspectionRule, translation.inspection_rule),
}
#: Columns of times that say nothing about the content.
_TIMES = {"created_at", "updated_at"}


class Import:
    """The import of one database. write: without it nothing is changed, and all is reported."""

    def __init__(
        self,
        runtime: Runtime,
        ironic: IronicDatabase,
        replacements: Mapping[tuple[str, str], str],
        *,
        write: bool,
    ) -> None:
        self._runtime, self._ironic = runtime, ironic
        self._replacements, self._write = replacements, write
        self._types = {
            name: {kind: [*interfaces] for kind, interfaces in kinds.items()}
            for name, kinds in runtime.drivers.types.items()
        }

    def run(self) -> Iterator[Arrival]:
        """Import all rows, and yield the outcome of each after its commit."""
        for table, (model, translate) in RESOURCES.items():
            for row in self._ironic.rows(table):
                yield self._arrive(model, row, partial(translate, self._ironic))
        for row in self._ironic.nodes():
            yield self._arrive(Node, row, self._node)
        for row in self._ironic.of("allocations", node_id=None):
            yield self._arrive(
                Allocation, row, lambda row: translation.allocation(self._ironic, row)
            )

    def _node(self, row: Row) -> Bundle:
        return translation.node(self._ironic, row, self._types, self._replacements)

    def _arrive(self, model: type[Base], row: Row, translate: Callable[[Row], Bundle]) -> Arrival:
        try:
            outcome, detail = self._outcome(translate(row))
        except NotMoved as error:
            outcome, detail = Outcome.SKIPPED, str(error)
        except (IntegrityError, DataError) as error:
            outcome, detail = Outcome.SKIPPED, f"the database refuses it: {reason(error)}"
        name, state = row.get("name"), row.get("provision_state")
        return Arrival(kind_of(model), row["uuid"], name, state, outcome, detail)

    def _outcome(self, bundle: Bundle) -> tuple[Outcome, str]:
        with self._runtime.reading() as session:
            present = _stored(session, bundle)
        if present is not None:
            differing = _differences(bundle, present)
            return (Outcome.DIFFERS if differing else Outcome.PRESENT), ", ".join(differing)
        if not self._write:
            return Outcome.WOULD_IMPORT, "; ".join(bundle.notes)
        retrying(lambda: self._insert(bundle))
        return Outcome.IMPORTED, "; ".join(bundle.notes)

    def _insert(self, bundle: Bundle) -> None:
        kind = kind_of(bundle.model)
        with self._runtime.transaction(Actor.COMMAND) as session:
            row = _added(session, bundle.model, bundle.values)
            groups: dict[str, int] = {}
            for model, parts in bundle.parts.items():
                for values in parts:
                    links = {"node_id": row.id}
                    if group := values.get("portgroup_id"):
                        links["portgroup_id"] = groups[group]
                    part = _added(session, model, values | links)
                    if model is Portgroup:
                        groups[part.uuid] = part.id
            audit_records.add_command(
                connection_of(session),
                self._runtime.settings,
                f"import/{kind.replace(' ', '_')}",
                bundle.values["uuid"],
            )
            kill_points.reach("importing", kind)


def _added(session: Session, model: type[Base], values: Values) -> Any:
    row = model(**values)
    session.add(row)
    session.flush()
    return row


def _stored(session: Session, bundle: Bundle) -> Bundle | None:
    """Return the row with this UUID and the rows that belong to it, in the form of a bundle."""
    table: Any = bundle.model.__table__
    query = select(table).where(table.c.uuid == bundle.values["uuid"])
    row = session.execute(query).mappings().one_or_none()
    if row is None:
        return None
    parts = {model: _parts_of(session, model, row["id"]) for model in bundle.parts}
    return Bundle(bundle.model, dict(row), parts)


def _parts_of(session: Session, model: Any, node_id: int) -> list[Values]:
    table = model.__table__
    mappings = session.execute(select(table).where(table.c.node_id == node_id)).mappings()
    rows = [dict(row) for row in mappings]
    for row in rows:
        row["node_id"] = None
        if row.get("portgroup_id"):
            group = select(Portgroup.uuid).where(Portgroup.id == row["portgroup_id"])
            row["portgroup_id"] = session.scalar(group)
    return rows


def _differences(bundle: Bundle, present: Bundle) -> list[str]:
    """Return the names of fields, and of kinds of parts, whose content differs."""
    fields = [
        name
        for name, value in bundle.values.items()
        if name not in _TIMES and present.values[name] != value
    ]
    kinds = [
        kind_of(model)
        for model, parts in bundle.parts.items()
        if _sorted(parts) != _sorted(present.parts[model])
    ]
    return [*fields, *kinds]


def _sorted(parts: Sequence[Values]) -> list[Any]:
    """Return parts in an order, without ids and times."""
    ignored = _TIMES | {"id"}
    rows = [
        sorted((name, value) for name, value in part.items() if name not in ignored)
        for part in parts
    ]
    return sorted(rows, key=repr)
