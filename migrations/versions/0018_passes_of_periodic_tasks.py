"""Passes of periodic tasks; the last message of the beat; the first message of a step"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "periodic_passes",
        sa.Column("task", sa.String(length=64), nullable=False),
        sa.Column("conductor", sa.String(length=255), nullable=False),
        sa.Column("period", sa.Float(), nullable=False),
        sa.Column("expected_at", sa.DateTime(), nullable=False),
        sa.Column("completed_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("task", "conductor", name="pk_periodic_passes"),
    )
    op.add_column("beat_lease", sa.Column("sent_at", sa.DateTime(), nullable=True))
    op.add_column("operations", sa.Column("first_sent_at", sa.DateTime(), nullable=True))


def downgrade() -> None:
    op.drop_column("operations", "first_sent_at")
    op.drop_column("beat_lease", "sent_at")
    op.drop_table("periodic_passes")
