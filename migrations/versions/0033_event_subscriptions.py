"""Subscriptions to the events of BMCs"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "event_subscriptions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=True),
        sa.Column("departed", sa.JSON(), nullable=True),
        sa.Column("departed_at", sa.DateTime(), nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=True),
        sa.Column("path", sa.String(length=255), nullable=True),
        sa.Column("subscribed_at", sa.DateTime(), nullable=True),
        sa.Column("tested_at", sa.DateTime(), nullable=True),
        sa.Column("received_at", sa.DateTime(), nullable=True),
        sa.Column("error", sa.String(length=1000), nullable=True),
        sa.Column("due_at", sa.DateTime(), nullable=False),
        sa.Column("hints", sa.String(length=16), nullable=False),
        sa.Column("hint_due_at", sa.DateTime(), nullable=True),
        sa.Column("hint_read_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name="fk_event_subscriptions_node_id_nodes"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_event_subscriptions"),
        sa.UniqueConstraint("node_id", name="uq_event_subscriptions_node_id"),
    )
    for column in ("due_at", "hint_due_at"):
        op.create_index(f"ix_event_subscriptions_{column}", "event_subscriptions", [column])


def downgrade() -> None:
    op.drop_table("event_subscriptions")
