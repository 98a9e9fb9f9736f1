"""Refreshes of nodes, and the triggers that insert the change events of changed facts"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0030"
branch_labels = None
depends_on = None

EVENT_COLUMNS = (
    "created_at, type, node_uuid, node_name, owner, lessee, operation_uuid, operation_kind, after"
)
#: Trigger -> event, condition.
TRIGGERS = {
    "node_refresh_created": ("INSERT", "NEW.changed > 0"),
    "node_refresh_changed": (
        "UPDATE",
        "NEW.changed > 0 AND (NEW.changed, NEW.operation_uuid) <> (OLD.changed, OLD.operation_uuid)",
    ),
}


def upgrade() -> None:
    op.add_column("node_inventory", sa.Column("source", sa.String(length=8), nullable=True))
    op.add_column("node_inventory", sa.Column("bmc_inventory", sa.JSON(), nullable=True))
    op.add_column("node_inventory", sa.Column("unread_documents", sa.JSON(), nullable=True))
    op.create_table(
        "node_refreshes",
        sa.Column("node_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("operation_uuid", sa.String(length=36), nullable=False),
        sa.Column("read_at", sa.DateTime(), nullable=False),
        sa.Column("parts", sa.JSON(), nullable=False),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_node_refreshes_node_id_nodes"),
        sa.PrimaryKeyConstraint("node_id", name="pk_node_refreshes"),
    )
    for name in TRIGGERS:
        _create_trigger(name)


def _create_trigger(name: str) -> None:
    """Create a trigger in the form of those of migration 0008."""
    event, condition = TRIGGERS[name]
    values = (
        "'node.facts', n.uuid, n.name, n.owner, n.lessee, NEW.operation_uuid, 'refresh',"
        " CAST(NEW.changed AS TEXT) FROM nodes n WHERE n.id = NEW.node_id"
    )
    trigger = f"CREATE TRIGGER change_events_{name} AFTER {event} ON node_refreshes FOR EACH ROW"
    trigger += f" WHEN ({condition})"
    if op.get_bind().dialect.name == "sqlite":
        now = "strftime('%Y-%m-%d %H:%M:%f001', 'now')"
        number = "(SELECT coalesce(max(sequence), 0) + 1 FROM change_events)"
        insert = f"INSERT INTO change_events (sequence, {EVENT_COLUMNS}) SELECT {number}, {now}, {values}"
        _execute(f"{trigger} BEGIN {insert}; END")
        return
    now = "clock_timestamp() AT TIME ZONE 'utc'"
    insert = f"INSERT INTO change_events ({EVENT_COLUMNS}) SELECT {now}, {values}"
    function = f"FUNCTION change_events_{name}()"
    _execute(
        f"CREATE {function} RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {insert}; RETURN NULL; END $$"
    )
    _execute(f"{trigger} EXECUTE {function}")


def _execute(statement: str) -> None:
    op.execute(sa.DDL(statement.replace("%", "%%")))


def downgrade() -> None:
    op.drop_table("node_refreshes")  # and its triggers
    if op.get_bind().dialect.name != "sqlite":
        for name in TRIGGERS:
            op.execute(f"DROP FUNCTION change_events_{name}()")
    op.execute("DELETE FROM change_events WHERE type = 'node.facts'")
    for name in ("unread_documents", "bmc_inventory", "source"):
        op.drop_column("node_inventory", name)
