"""Answers with bodies"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("answered", sa.Column("minor", sa.Integer(), nullable=True))
    op.add_column("answered", sa.Column("etag", sa.String(length=64), nullable=True))
    op.add_column("answered", sa.Column("body", sa.Text(), nullable=True))


def downgrade() -> None:
    for name in ("body", "etag", "minor"):
        op.drop_column("answered", name)
