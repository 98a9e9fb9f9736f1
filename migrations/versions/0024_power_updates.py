"""Power updates for Nova: its place in the change events"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "power_update_cursor",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("position", NUMBER, nullable=False),
        sa.Column("due_at", sa.DateTime(), nullable=False),
        sa.Column("holder", sa.String(length=32), nullable=True),
        sa.Column("failed_attempts", sa.Integer(), nullable=False),
        sa.Column("failing_since", sa.DateTime(), nullable=True),
        sa.Column("last_error", sa.String(length=255), nullable=True),
        sa.Column("last_delivery_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_power_update_cursor"),
    )
    op.create_index("ix_power_update_cursor_due_at", "power_update_cursor", ["due_at"])


def downgrade() -> None:
    op.drop_index("ix_power_update_cursor_due_at", "power_update_cursor")
    op.drop_table("power_update_cursor")
