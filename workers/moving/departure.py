"""
Export to Ironic's database: a transaction per node or resource, so that a second run goes on.

Two rows are equal if an import would make the same of both. So a node without a change since its
import stays in Ironic's database as it was there, with its names of drivers and interfaces.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session

from app.audit import audit_records
from app.db.clock import age
from app.db.diagnosis import reason
from app.db.transactions import connection_of
from app.lifecycle.operation_states import Actor
from app.models import (
    UNENDED,
    Allocation,
    ApiToken,
    Base,
    Chassis,
    Conductor,
    DeployTemplate,
    Group,
    Hold,
    InspectionRule,
    Network,
    Node,
    Rollout,
    RolloutNode,
    RolloutNodeState,
    Runbook,
    Switch,
    User,
    Webhook,
)
from app.models.base import kind_of
from app.models.hold import in_effect
from app.process import kill_points
from app.runtime import Runtime
from drivers.builtin import HARDWARE_TYPES
from workers.moving import bundles, ironic_rows, translation
from workers.moving.bundles import Bundle, NotMoved
from workers.moving.ironic_database import IronicDatabase, Row
from workers.moving.ironic_rows import REFERENCES, IronicRows
from workers.moving.outcomes import MovedRow, Outcome
from workers.moving.translation import PARTS, Source

#: Kinds of rows that Ironic has no tables for.
STAYING: Collection[type[Base]] = (User, Group, ApiToken, Webhook, Network, Switch)
#: Hardware type -> kind -> interfaces of all drivers of this service, enabled or not.
_TYPES = {
    hardware.name: {
        kind: [interface.name for interface in interfaces]
        for kind, interfaces in hardware.interfaces.items()
    }
    for hardware in HARDWARE_TYPES
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of rows that are exported."""

    model: type[Base]
    table: str  # of Ironic
    departing: Callable[[IronicDatabase, Bundle], IronicRows]  # raises NotMoved
    arriving: Callable[[Source, Row], Bundle]  # raises NotMoved
    parts: Collection[type[Base]] = ()
    only: ColumnElement[bool] | None = None  # condition of the exported rows


#: In the order of references; nodes follow, then allocations without a node.
RESOURCES = (
    Kind(Chassis, "chassis", ironic_rows.chassis, translation.chassis),
    Kind(
        DeployTemplate, "deploy_templates", ironic_rows.deploy_template, translation.deploy_template
    ),
    Kind(Runbook, "runbooks", ironic_rows.runbook, translation.runbook),
    Kind(
        InspectionRule, "inspection_rules", ironic_rows.inspection_rule, translation.inspection_rule
    ),
)
ALLOCATIONS = Kind(
    Allocation,
    "allocations",
    ironic_rows.allocation,
    translation.allocation,
    only=Allocation.node_id.is_(None),
)


class Export:
    """
    The export to one database of Ironic.

    write: without it nothing is changed, and all is reported. overwrite: change rows of Ironic that
    have other content. replacements: (kind, interface here) -> interface of Ironic.
    """

    def __init__(
        self,
        runtime: Runtime,
        ironic: IronicDatabase,
        replacements: Mapping[tuple[str, str], str],
        *,
        write: bool,
        overwrite: bool,
    ) -> None:
        self._runtime, self._ironic = runtime, ironic
        self._write, self._overwrite = write, overwrite
        back = {(kind, theirs): here for (kind, here), theirs in replacements.items()}
        nodes = Kind(
            Node,
            "nodes",
            partial(ironic_rows.node, replacements=replacements),
            partial(translation.node, types=_TYPES, replacements=back),
            PARTS,
        )
        self._kinds = (*RESOURCES, nodes, ALLOCATIONS)

    def conductors(self) -> list[str]:
        """Return the names of this service's conductors that are running."""
        timeout = self._runtime.settings.conductor.heartbeat_timeout
        query = select(Conductor.hostname).where(
            Conductor.online, age(Conductor.heartbeat_at) < timeout
        )
        with self._runtime.reading() as session:
            return sorted(session.scalars(query))

    def staying(self) -> Mapping[str, int]:
        """Return {kind: number} of the rows that Ironic has no tables for."""
        with self._runtime.reading() as session:
            counts = {
                kind_of(model): session.scalar(select(func.count()).select_from(model)) or 0
                for model in STAYING
            }
        return {kind: count for kind, count in counts.items() if count}

    def run(self) -> Iterator[MovedRow]:
        """Export all rows, and yield the outcome of each after its commit."""
        if self._write:
            with self._runtime.transaction(Actor.COMMAND) as session:
                audit_records.add_command(
                    connection_of(session),
                    self._runtime.settings,
                    "export/ironic",
                    self._ironic.address,
                )
        for kind in self._kinds:
            uuids = self._uuids(kind)
            for uuid in uuids:
                yield from self._depart(kind, uuid)
            yield from self._only_in_ironic(kind, set(uuids))

    def _uuids(self, kind: Kind) -> list[str]:
        table: Any = kind.model.__table__
        query = select(table.c.uuid).order_by(table.c.id)
        if kind.only is not None:
            query = query.where(kind.only)
        with self._runtime.reading() as session:
            return [*session.scalars(query)]

    def _only_in_ironic(self, kind: Kind, uuids: Collection[str]) -> Iterator[MovedRow]:
        """Yield the rows of Ironic that are not here; they were deleted here, or never imported."""
        table = self._ironic.table(kind.table)
        conditions = () if kind.only is None else (table.c.node_id.is_(None),)
        for uuid in self._ironic.uuids(kind.table, *conditions):
            for row in self._ironic.of(kind.table, uuid=uuid) if uuid not in uuids else ():
                detail = "not here; if it was deleted here, delete it in Ironic, too"
                yield _moved(kind, row, Outcome.ONLY_IN_IRONIC, detail)

    def _depart(self, kind: Kind, uuid: str) -> Iterator[MovedRow]:
        with self._runtime.reading() as session:
            bundle = bundles.stored(session, kind.model, uuid, kind.parts)
            if bundle is None:
                return  # deleted meanwhile
            obstacle = _obstacle(session, bundle) if kind.model is Node else None
        try:
            if obstacle:
                raise NotMoved(obstacle)
            rows = kind.departing(self._ironic, bundle)
            outcome, detail = self._outcome(kind, rows)
        except NotMoved as error:
            outcome, detail = Outcome.SKIPPED, str(error)
        except (IntegrityError, DataError) as error:
            outcome, detail = Outcome.SKIPPED, f"Ironic's database refuses it: {reason(error)}"
        yield _moved(kind, bundle.values, outcome, detail)

    def _outcome(self, kind: Kind, rows: IronicRows) -> tuple[Outcome, str]:
        present = next(iter(self._ironic.of(kind.table, uuid=rows.row["uuid"])), None)
        notes = "; ".join(rows.notes)
        if present is None:
            if not self._write:
                return Outcome.WOULD_EXPORT, notes
            self._insert_or_update(kind, rows, None)
            return Outcome.EXPORTED, notes
        if kind.model is Node:
            _check_settled_in_ironic(present)
        differing = self._differences(kind, rows, present)
        if not differing:
            return Outcome.PRESENT, ""
        detail = "; ".join(filter(None, (", ".join(differing), notes)))
        if not self._overwrite:
            return Outcome.DIFFERS, detail
        if not self._write:
            return Outcome.WOULD_UPDATE, detail
        self._insert_or_update(kind, rows, present["id"])
        return Outcome.UPDATED, detail

    def _differences(self, kind: Kind, rows: IronicRows, present: Row) -> list[str]:
        """Return the fields and parts that an import of both rows would make different."""
        try:
            ours = kind.arriving(rows, rows.row)
        except NotMoved:  # such as a step of a size that the import refuses
            return ["content that cannot be compared"]
        try:
            theirs = kind.arriving(self._ironic, present)
        except NotMoved as error:
            return [f"in Ironic: {error}"]
        return bundles.differences(ours, theirs)

    def _insert_or_update(self, kind: Kind, rows: IronicRows, ident: int | None) -> None:
        """Write rows to Ironic's database. ident: id of the row that is replaced; None: no such."""
        idents = self._chassis_idents(rows)
        with self._ironic.transaction() as connection:
            table = self._ironic.table(rows.table)
            values = _resolved(rows.row, idents)
            if ident is None:
                ident = _inserted(connection, table, values)
            else:
                connection.execute(update(table).where(table.c.id == ident).values(values))
            idents[rows.row["uuid"]] = ident
            for name in reversed([*rows.parts]):
                part_table = self._ironic.table(name)
                parent = _parent(part_table, rows.table)
                connection.execute(delete(part_table).where(parent == ident))
            for name, parts in rows.parts.items():
                part_table = self._ironic.table(name)
                for part in parts:
                    part_ident = _inserted(connection, part_table, _resolved(part, idents))
                    if "uuid" in part:
                        idents[part["uuid"]] = part_ident
                    if name == "allocations":
                        link = update(table).where(table.c.id == ident)
                        connection.execute(link.values(allocation_id=part_ident))
            kill_points.reach("exporting", kind_of(kind.model))

    def _chassis_idents(self, rows: IronicRows) -> dict[str, Any]:
        """Return {UUID: id} of the chassis of a node. Raises NotMoved: it is not in Ironic."""
        if rows.chassis is None:
            return {}
        chassis = self._ironic.of("chassis", uuid=rows.chassis)
        if not chassis:
            raise NotMoved(f"its chassis {rows.chassis} is not in Ironic: see the chassis's line")
        return {rows.chassis: chassis[0]["id"]}


def _moved(kind: Kind, row: Mapping[str, Any], outcome: Outcome, detail: str) -> MovedRow:
    state = row.get("provision_state")
    return MovedRow(kind_of(kind.model), row["uuid"], row.get("name"), state, outcome, detail)


def _resolved(row: Row, idents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row with ids in place of UUIDs, without its own id."""
    return {
        name: idents[value] if name in REFERENCES and value is not None else value
        for name, value in row.items()
        if name != "id"
    }


def _inserted(connection: Connection, table: Table, values: Mapping[str, Any]) -> Any:
    """Insert a row, and return the first column of its primary key."""
    (ident, *_) = connection.execute(insert(table).values(values)).inserted_primary_key or (None,)
    return ident


def _parent(table: Table, name: str) -> Column[Any]:
    """Return the column of a table with the ids of its rows' parents."""
    return table.c[f"{name.removesuffix('s')}_id"]


def _check_settled_in_ironic(row: Row) -> None:
    try:
        translation.check_settled(row, "start Ironic, ", "export")
    except NotMoved as error:
        raise NotMoved(f"in Ironic: {error}") from None


def _obstacle(session: Session, bundle: Bundle) -> str | None:
    """Return what binds a node here that Ironic cannot take over; None if nothing does."""
    node_id = bundle.values["id"]
    if bundle.values["operation_id"] is not None:
        return "an operation is under way: wait for its end, or abort it, then export it"
    hold = session.scalars(select(Hold).where(Hold.node_id == node_id, in_effect())).first()
    if hold:
        return (
            f"hold of kind {hold.kind}: Ironic has no holds; set protected or maintenance instead,"
            " and end the hold"
        )
    rollout: str | None = session.scalar(
        select(Rollout.uuid)
        .join(RolloutNode, RolloutNode.rollout_id == Rollout.id)
        .where(
            RolloutNode.node_uuid == bundle.values["uuid"],
            RolloutNode.state.in_((RolloutNodeState.PENDING, RolloutNodeState.RUNNING)),
            Rollout.state.in_(UNENDED),
        )
    )
    if rollout:
        return f"rollout {rollout} has not ended: wait for it, or abort it; Ironic has no rollouts"
    return None
