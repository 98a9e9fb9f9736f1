"""Pages by index"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

#: Index of nodes -> its columns.
FULL = {
    "ix_nodes_provision_state": ["provision_state", "id"],
    "ix_nodes_updated_at": ["updated_at", "id"],
    "ix_nodes_driver": ["driver", "id"],
    "ix_nodes_resource_class": ["resource_class", "id"],
    "ix_nodes_conductor_group": ["conductor_group", "id"],
}
#: Partial index of nodes -> its columns, its condition on SQLite and on PostgreSQL.
PARTIAL = {
    "ix_nodes_unnamed": (["name", "id"], "name IS NULL", "name IS NULL"),
    "ix_nodes_associated": (["id"], "instance_uuid IS NOT NULL", "instance_uuid IS NOT NULL"),
    "ix_nodes_maintenance": (["id"], "maintenance = 1", "maintenance"),
    "ix_nodes_retired": (["id"], "retired = 1", "retired"),
    "ix_nodes_parent_node": (
        ["parent_node", "id"], "parent_node IS NOT NULL", "parent_node IS NOT NULL",
    ),
    # created again, as SQLite uses the newest of two indexes on resource_class
    "ix_nodes_free": (
        ["resource_class", "id"],
        "coalesce(instance_uuid, provision_state) = 'available'",
        "coalesce(instance_uuid, provision_state) = 'available'",
    ),
}  # fmt: skip
#: Indexes of revision 0002 that have another definition now -> their column.
BEFORE = {"ix_nodes_provision_state": "provision_state", "ix_nodes_parent_node": "parent_node"}


def upgrade() -> None:
    for name in (*BEFORE, "ix_nodes_free"):
        op.drop_index(name, "nodes")
    for name, columns in FULL.items():
        op.create_index(name, "nodes", columns)
    for name, (columns, sqlite, postgresql) in PARTIAL.items():
        conditions = {"sqlite_where": sa.text(sqlite), "postgresql_where": sa.text(postgresql)}
        op.create_index(name, "nodes", columns, **conditions)


def downgrade() -> None:
    for name in {*FULL, *PARTIAL} - {"ix_nodes_free"}:
        op.drop_index(name, "nodes")
    for name, column in BEFORE.items():
        op.create_index(name, "nodes", [column])
