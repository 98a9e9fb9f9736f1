"""Webhooks, and the events that their receivers did not accept"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("types", sa.JSON(), nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("previous_secret", sa.Text(), nullable=True),
        sa.Column("previous_secret_until", sa.DateTime(), nullable=True),
        sa.Column("position", NUMBER, nullable=False),
        sa.Column("due_at", sa.DateTime(), nullable=False),
        sa.Column("holder", sa.String(length=32), nullable=True),
        sa.Column("failed_attempts", sa.Integer(), nullable=False),
        sa.Column("failing_since", sa.DateTime(), nullable=True),
        sa.Column("last_error", sa.String(length=255), nullable=True),
        sa.Column("last_delivery_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sa.UniqueConstraint("uuid", name="uq_webhooks_uuid"),
        sa.UniqueConstraint("name", name="uq_webhooks_name"),
    )
    op.create_index("ix_webhooks_owner", "webhooks", ["owner"])
    op.create_index("ix_webhooks_due_at", "webhooks", ["due_at"])
    op.create_table(
        "webhook_failures",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("webhook_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("after", NUMBER, nullable=False),
        sa.Column("last", NUMBER, nullable=False),
        sa.Column("error", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name="fk_webhook_failures_webhook_id_webhooks"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_failures"),
    )
    op.create_index("ix_webhook_failures_webhook_id", "webhook_failures", ["webhook_id"])


def downgrade() -> None:
    op.drop_table("webhook_failures")
    op.drop_table("webhooks")
