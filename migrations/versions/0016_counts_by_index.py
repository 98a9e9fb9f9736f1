"""Counts of nodes by index"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

BEFORE = ["provision_state", "id"]
COUNTED_BY = [
    "driver", "resource_class", "conductor_group", "shard", "maintenance", "retired",
    "instance_uuid", "parent_node",
]  # fmt: skip


#: Share of the nodes that changed since the last vacuum, for the next one; by default it is 0.2.
#: An index answers without a look at the rows only where nothing has changed since the last vacuum.
CHANGED = 0.05


def upgrade() -> None:
    _replace([*BEFORE, *COUNTED_BY])
    if op.get_context().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE nodes SET (autovacuum_vacuum_scale_factor = {CHANGED})")


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE nodes RESET (autovacuum_vacuum_scale_factor)")
    _replace(BEFORE)


def _replace(columns: list[str]) -> None:
    op.drop_index("ix_nodes_provision_state", "nodes")
    op.create_index("ix_nodes_provision_state", "nodes", columns)
