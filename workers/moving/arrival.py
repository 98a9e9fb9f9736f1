"""
Import of Ironic's rows: a transaction per node or resource, so that a second run goes on.

A row that exists is never changed: it is compared, and reported if its content differs.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

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
from workers.moving import bundles, translation
from workers.moving.bundles import Bundle, NotMoved, Values
from workers.moving.ironic_database import IronicDatabase, Row
from workers.moving.outcomes import MovedRow, Outcome

#: Ironic's table -> model here, and the function that translates a row; in the order of references.
RESOURCES: Mapping[str, tuple[type[Base], Callable[[IronicDatabase, Row], Bundle]]] = {
    "chassis": (Chassis, translation.chassis),
    "deploy_templates": (DeployTemplate, translation.deploy_template),
    "runbooks": (Runbook, translation.runbook),
    "inspection_rules": (InspectionRule, translation.inspection_rule),
}


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

    def run(self) -> Iterator[MovedRow]:
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

    def _arrive(self, model: type[Base], row: Row, translate: Callable[[Row], Bundle]) -> MovedRow:
        try:
            outcome, detail = self._outcome(translate(row))
        except NotMoved as error:
            outcome, detail = Outcome.SKIPPED, str(error)
        except (IntegrityError, DataError) as error:
            outcome, detail = Outcome.SKIPPED, f"the database refuses it: {reason(error)}"
        name, state = row.get("name"), row.get("provision_state")
        return MovedRow(kind_of(model), row["uuid"], name, state, outcome, detail)

    def _outcome(self, bundle: Bundle) -> tuple[Outcome, str]:
        with self._runtime.reading() as session:
            present = bundles.stored(
                session, bundle.model, bundle.values["uuid"], bundle.parts.keys()
            )
        if present is not None:
            differing = bundles.differences(bundle, present)
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
