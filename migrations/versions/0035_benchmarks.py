"""Numbers that steps have measured, and what baselines do about them"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "benchmarks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("operation_uuid", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(length=300), nullable=False),
        sa.Column("metric", sa.String(length=128), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("unit", sa.String(length=16), nullable=True),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("recorded_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_benchmarks_node_id_nodes"),
        sa.PrimaryKeyConstraint("id", name="pk_benchmarks"),
        sa.UniqueConstraint(
            "operation_uuid",
            "position",
            "metric",
            name="uq_benchmarks_operation_uuid_position_metric",
        ),
    )
    op.create_index("ix_benchmarks_node", "benchmarks", ["node_id", "id"])
    op.create_index("ix_benchmarks_node_metric", "benchmarks", ["node_id", "metric", "id"])
    op.create_index("ix_benchmarks_metric", "benchmarks", ["metric", "id"])
    op.add_column(
        "baselines",
        sa.Column("failed_benchmark", sa.String(length=8), nullable=False, server_default="record"),
    )


def downgrade() -> None:
    op.drop_column("baselines", "failed_benchmark")
    op.drop_table("benchmarks")
