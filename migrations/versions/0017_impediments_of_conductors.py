"""Impediments of conductors"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("conductors", sa.Column("impediment", sa.String(length=255), nullable=True))


def downgrade() -> None:
    op.drop_column("conductors", "impediment")
