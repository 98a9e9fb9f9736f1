"""Recorded exchanges of operations with BMCs"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bmc_exchanges",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("operation", sa.String(length=36), nullable=False),
        sa.Column("step", sa.String(length=300), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("left_out", sa.Integer(), nullable=False),
        sa.Column("exchanges", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_bmc_exchanges_node_id_nodes"),
        sa.PrimaryKeyConstraint("id", name="pk_bmc_exchanges"),
    )
    op.create_index("ix_bmc_exchanges_node", "bmc_exchanges", ["node_id", "id"])
    op.create_index("ix_bmc_exchanges_created_at", "bmc_exchanges", ["created_at"])


def downgrade() -> None:
    op.drop_table("bmc_exchanges")
