"""Baselines, and the triggers that insert the change events of their nodes"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

COLUMNS = (
    "created_at, type, node_uuid, node_name, owner, lessee, resource_uuid, resource_name, before,"
    " after"
)
#: Trigger -> event, condition, row, states before and after it.
TRIGGERS = {
    "baseline_node_created": ("INSERT", "NEW.state = 'differs'", "NEW", "NULL", "NEW.state"),
    "baseline_node_changed": (
        "UPDATE OF state",
        "OLD.state <> NEW.state AND 'differs' IN (OLD.state, NEW.state)",
        "NEW", "OLD.state", "NEW.state",
    ),
    "baseline_node_deleted": ("DELETE", "OLD.state = 'differs'", "OLD", "OLD.state", "NULL"),
}  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "baselines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("expected", sa.JSON(), nullable=False),
        sa.Column("acceptance", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_baselines"),
        sa.UniqueConstraint("uuid", name="uq_baselines_uuid"),
        sa.UniqueConstraint("name", name="uq_baselines_name"),
    )
    op.create_table(
        "baseline_nodes",
        sa.Column("baseline_id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("compared_at", sa.DateTime(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("since", sa.DateTime(), nullable=False),
        sa.Column("differences", sa.JSON(), nullable=False),
        sa.Column("hold_uuid", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(
            ["baseline_id"], ["baselines.id"], name="fk_baseline_nodes_baseline_id_baselines"
        ),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_baseline_nodes_node_id_nodes"),
        sa.PrimaryKeyConstraint("baseline_id", "node_id", name="pk_baseline_nodes"),
    )
    op.create_index("ix_baseline_nodes_node_id", "baseline_nodes", ["node_id"])
    op.create_index(
        "ix_baseline_nodes_state", "baseline_nodes", ["baseline_id", "state", "node_id"]
    )
    for name in TRIGGERS:
        _create_trigger(name)


def _create_trigger(name: str) -> None:
    """Create a trigger in the form of those of migration 0008."""
    event, condition, row, before, after = TRIGGERS[name]
    values = (
        "'node.compliance', n.uuid, n.name, n.owner, n.lessee, b.uuid, b.name,"
        f" {before}, {after}"
        f" FROM nodes n, baselines b WHERE n.id = {row}.node_id AND b.id = {row}.baseline_id"
    )
    trigger = f"CREATE TRIGGER change_events_{name} AFTER {event} ON baseline_nodes FOR EACH ROW"
    trigger += f" WHEN ({condition})"
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
    op.drop_table("baseline_nodes")  # and its triggers
    op.drop_table("baselines")
    if op.get_bind().dialect.name != "sqlite":
        for name in TRIGGERS:
            op.execute(f"DROP FUNCTION change_events_{name}()")
    op.execute("DELETE FROM change_events WHERE type = 'node.compliance'")
