"""Rollouts"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

FAILED = sa.text("state = 'failed'")


def upgrade() -> None:
    op.create_table(
        "rollouts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("user_name", sa.String(length=255), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("filters", sa.JSON(), nullable=False),
        sa.Column("strategy", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("pause_cause", sa.String(length=32), nullable=True),
        sa.Column("wave", sa.Integer(), nullable=False),
        sa.Column("waves", sa.Integer(), nullable=False),
        sa.Column("canary_waves", sa.Integer(), nullable=False),
        sa.Column("error_budget", sa.Integer(), nullable=False),
        sa.Column("accepted_failures", sa.Integer(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("running", sa.Integer(), nullable=False),
        sa.Column("succeeded", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_rollouts"),
        sa.UniqueConstraint("uuid", name="uq_rollouts_uuid"),
    )
    op.create_index("ix_rollouts_state", "rollouts", ["state"])
    op.create_index("ix_rollouts_owner", "rollouts", ["owner"])
    op.create_table(
        "rollout_nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rollout_id", sa.Integer(), nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("node_name", sa.String(length=255), nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("lessee", sa.String(length=255), nullable=True),
        sa.Column("group", sa.Text(), nullable=False),
        sa.Column("wave", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("operation_uuid", sa.String(length=36), nullable=True),
        sa.Column("code", sa.String(length=64), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("due_at", sa.DateTime(), nullable=True),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["rollout_id"], ["rollouts.id"], name="fk_rollout_nodes_rollout_id_rollouts"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_rollout_nodes"),
        sa.UniqueConstraint(
            "rollout_id", "node_uuid", name="uq_rollout_nodes_rollout_id_node_uuid"
        ),
    )
    op.create_index("ix_rollout_nodes_rollout", "rollout_nodes", ["rollout_id", "id"])
    op.create_index("ix_rollout_nodes_wave", "rollout_nodes", ["rollout_id", "wave", "state", "id"])
    op.create_index(
        "ix_rollout_nodes_failed", "rollout_nodes", ["rollout_id", "code"],
        sqlite_where=FAILED, postgresql_where=FAILED,
    )  # fmt: skip


def downgrade() -> None:
    op.drop_table("rollout_nodes")
    op.drop_table("rollouts")
