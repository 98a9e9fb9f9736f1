"""Senders of the refused requests of agents"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("node_history", sa.Column("sender", sa.String(length=64), nullable=True))


def downgrade() -> None:
    op.drop_column("node_history", "sender")
