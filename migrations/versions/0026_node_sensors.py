"""Readings of sensors"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "node_sensors",
        sa.Column("node_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("read_at", sa.DateTime(), nullable=True),
        sa.Column("error", sa.String(length=1000), nullable=True),
        sa.Column("health", sa.String(length=8), nullable=False),
        sa.Column("critical_since", sa.DateTime(), nullable=True),
        sa.Column("calm_reads", sa.Integer(), nullable=False),
        sa.Column("readings", sa.Text(), nullable=False),
        sa.Column("history", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_node_sensors_node_id_nodes"),
        sa.PrimaryKeyConstraint("node_id", name="pk_node_sensors"),
    )


def downgrade() -> None:
    op.drop_table("node_sensors")
