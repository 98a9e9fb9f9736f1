"""Data keys whose texts are bound to their place"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    bound = sa.Column("bound", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("data_keys", bound)


def downgrade() -> None:
    op.drop_column("data_keys", "bound")
