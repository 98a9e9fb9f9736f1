"""Sanitation reports"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sanitation_reports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("operation_uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("result", sa.String(length=16), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("signature", sa.String(length=88), nullable=True),
        sa.Column("public_key", sa.String(length=44), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_sanitation_reports"),
        sa.UniqueConstraint("uuid", name="uq_sanitation_reports_uuid"),
    )
    op.create_index("ix_sanitation_reports_node", "sanitation_reports", ["node_uuid", "id"])
    op.create_index("ix_sanitation_reports_created_at", "sanitation_reports", ["created_at"])


def downgrade() -> None:
    op.drop_table("sanitation_reports")
