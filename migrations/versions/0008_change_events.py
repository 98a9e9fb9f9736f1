"""Change events and the triggers that insert them"""

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
#: Comparison of values that may be null; `statements` translates it for SQLite.
DIFFERS = "OLD.{0} IS DISTINCT FROM NEW.{0}"
SAME = "OLD.{0} IS NOT DISTINCT FROM NEW.{0}"
#: Changes of `updated_at` that no other trigger reports.
ONLY_UPDATED = (
    f"{DIFFERS.format('updated_at')} AND OLD.provision_state = NEW.provision_state"
    f" AND {SAME.format('power_state')} AND OLD.maintenance = NEW.maintenance"
)
#: Between steps an operation changes from running to queued and back: its steps tell the same.
NOT_BETWEEN_STEPS = (
    "OLD.state <> NEW.state AND NOT (OLD.started_at IS NOT NULL"
    " AND OLD.state IN ('queued', 'running') AND NEW.state IN ('queued', 'running'))"
)
WORD = "CASE WHEN {}.maintenance THEN 'true' ELSE 'false' END"


def of_node(kind: str, before: str = "NULL", after: str = "NULL", row: str = "NEW") -> str:
    """Return the values of an event of a node."""
    node = f"{row}.uuid, {row}.name, {row}.owner, {row}.lessee"
    return f"'{kind}', {node}, NULL, NULL, NULL, {before}, {after}"


def of_operation(before: str) -> str:
    """Return the query of the values of an event of an operation."""
    node = "n.uuid, n.name, n.owner, n.lessee"
    values = f"'operation.state', {node}, NEW.uuid, NEW.kind, NULL, {before}, NEW.state"
    return f"{values} FROM nodes n WHERE n.id = NEW.node_id"


OF_STEP = (
    "'step.state', n.uuid, n.name, n.owner, n.lessee, o.uuid, o.kind,"
    " NEW.interface || '.' || NEW.name, OLD.state, NEW.state"
    " FROM operations o JOIN nodes n ON n.id = o.node_id WHERE o.id = NEW.operation_id"
)
STATES = "OLD.provision_state", "NEW.provision_state"
#: Trigger -> table, event, condition, and values for `COLUMNS` after `created_at`.
TRIGGERS = {
    "node_created": ("nodes", "INSERT", "", of_node("node.created", after=STATES[1])),
    "node_updated": ("nodes", "UPDATE OF updated_at", ONLY_UPDATED, of_node("node.updated")),
    "node_deleted": (
        "nodes", "DELETE", "", of_node("node.deleted", before=STATES[0], row="OLD"),
    ),
    "provision_state": (
        "nodes", "UPDATE OF provision_state", DIFFERS.format("provision_state"),
        of_node("node.provision_state", *STATES),
    ),
    "power_state": (
        "nodes", "UPDATE OF power_state", DIFFERS.format("power_state"),
        of_node("node.power_state", "OLD.power_state", "NEW.power_state"),
    ),
    "maintenance": (
        "nodes", "UPDATE OF maintenance", DIFFERS.format("maintenance"),
        of_node("node.maintenance", WORD.format("OLD"), WORD.format("NEW")),
    ),
    "operation_created": ("operations", "INSERT", "", of_operation("NULL")),
    "operation_state": (
        "operations", "UPDATE OF state", NOT_BETWEEN_STEPS, of_operation("OLD.state"),
    ),
    "step_state": ("operation_steps", "UPDATE OF state", "OLD.state <> NEW.state", OF_STEP),
}  # fmt: skip
COLUMNS = (
    "created_at, type, node_uuid, node_name, owner, lessee, operation_uuid, operation_kind, step,"
    " before, after"
)


def upgrade() -> None:
    text = sa.String(length=255)
    op.create_table(
        "change_events",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("sequence", NUMBER, nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        *(sa.Column(name, text, nullable=True) for name in ("node_name", "owner", "lessee")),
        sa.Column("operation_uuid", sa.String(length=36), nullable=True),
        sa.Column("operation_kind", sa.String(length=32), nullable=True),
        sa.Column("step", sa.String(length=300), nullable=True),
        sa.Column("before", sa.String(length=32), nullable=True),
        sa.Column("after", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_change_events"),
        sa.UniqueConstraint("sequence", name="uq_change_events_sequence"),
    )
    unnumbered = sa.text("sequence IS NULL")
    op.create_index("ix_change_events_node", "change_events", ["node_uuid", "sequence"])
    op.create_index(
        "ix_change_events_unnumbered", "change_events", ["id"],
        sqlite_where=unnumbered, postgresql_where=unnumbered,
    )  # fmt: skip
    for statement in statements(op.get_bind().dialect.name):
        op.execute(sa.DDL(statement.replace("%", "%%")))


def statements(dialect: str) -> Iterator[str]:
    """Return the statements that create the triggers."""
    for name, (table, event, condition, row) in TRIGGERS.items():
        trigger = f"CREATE TRIGGER change_events_{name} AFTER {event} ON {table} FOR EACH ROW"
        when = f" WHEN ({condition})" if condition else ""
        if dialect == "sqlite":
            when = when.replace(" IS NOT DISTINCT FROM ", " IS ")
            when = when.replace(" IS DISTINCT FROM ", " IS NOT ")
            number = "(SELECT coalesce(max(sequence), 0) + 1 FROM change_events)"
            now = "strftime('%Y-%m-%d %H:%M:%f001', 'now')"
            insert = (
                f"INSERT INTO change_events (sequence, {COLUMNS}) SELECT {number}, {now}, {row}"
            )
            yield f"{trigger}{when} BEGIN {insert}; END"
        else:
            now = "clock_timestamp() AT TIME ZONE 'utc'"
            insert = f"INSERT INTO change_events ({COLUMNS}) SELECT {now}, {row}"
            yield (
                f"CREATE FUNCTION change_events_{name}() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN {insert}; RETURN NULL; END $$"
            )
            yield f"{trigger}{when} EXECUTE FUNCTION change_events_{name}()"


def downgrade() -> None:
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    for name, (table, *_) in TRIGGERS.items():
        op.execute(f"DROP TRIGGER change_events_{name}" + ("" if on_sqlite else f" ON {table}"))
        if not on_sqlite:
            op.execute(f"DROP FUNCTION change_events_{name}()")
    op.drop_table("change_events")
