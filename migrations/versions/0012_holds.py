"""Holds, and the triggers that insert their change events"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

COLUMNS = (
    "created_at, type, node_uuid, node_name, owner, lessee, operation_uuid, operation_kind, step,"
    " before, after"
)
#: Trigger -> event, and kinds of the hold before and after it.
TRIGGERS = {
    "hold_created": ("INSERT", "NULL", "NEW.kind"),
    "hold_updated": ("UPDATE", "OLD.kind", "NEW.kind"),
    "hold_deleted": ("DELETE", "OLD.kind", "NULL"),
}


def upgrade() -> None:
    op.create_table(
        "holds",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("user_name", sa.String(length=255), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_holds_node_id_nodes"),
        sa.PrimaryKeyConstraint("id", name="pk_holds"),
        sa.UniqueConstraint("uuid", name="uq_holds_uuid"),
    )
    op.create_index("ix_holds_node_id", "holds", ["node_id"])
    op.create_index("ix_holds_kind", "holds", ["kind", "node_id"])
    op.create_index("ix_holds_owner", "holds", ["owner"])
    op.create_index("ix_holds_expires_at", "holds", ["expires_at"])
    for name, (event, before, after) in TRIGGERS.items():
        _create_trigger(name, event, before, after)


def _create_trigger(name: str, event: str, before: str, after: str) -> None:
    """Create a trigger in the form of those of migration 0008."""
    row = "OLD" if event == "DELETE" else "NEW"
    values = (
        "'node.hold', n.uuid, n.name, n.owner, n.lessee, NULL, NULL, NULL,"
        f" {before}, {after} FROM nodes n WHERE n.id = {row}.node_id"
    )
    trigger = f"CREATE TRIGGER change_events_{name} AFTER {event} ON holds FOR EACH ROW"
    if op.get_bind().dialect.name == "sqlite":
        now = "strftime('%Y-%m-%d %H:%M:%f001', 'now')"
        number = "(SELECT coalesce(max(sequence), 0) + 1 FROM change_events)"
        insert = f"INSERT INTO change_events (sequence, {COLUMNS}) SELECT {number}, {now}, {values}"
        _execute(f"{trigger} BEGIN {insert}; END")
        return
    now = "clock_timestamp() AT TIME ZONE 'utc'"
    insert = f"INSERT INTO change_events ({COLUMNS}) SELECT {now}, {values}"
    function = f"FUNCTION change_events_{name}()"
    _execute(
        f"CREATE {function} RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {insert}; RETURN NULL; END $$"
    )
    _execute(f"{trigger} EXECUTE {function}")


def _execute(statement: str) -> None:
    op.execute(sa.DDL(statement.replace("%", "%%")))


def downgrade() -> None:
    op.drop_table("holds")  # and its triggers
    if op.get_bind().dialect.name != "sqlite":
        for name in TRIGGERS:
            op.execute(f"DROP FUNCTION change_events_{name}()")
