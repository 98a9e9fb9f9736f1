"""Authority of rollouts, and creators of webhooks"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rollouts", sa.Column("authority", sa.JSON(), nullable=True))
    op.add_column("webhooks", sa.Column("user_id", sa.String(length=255), nullable=True))
    op.add_column("webhooks", sa.Column("user_name", sa.String(length=255), nullable=True))


def downgrade() -> None:
    op.drop_column("webhooks", "user_name")
    op.drop_column("webhooks", "user_id")
    op.drop_column("rollouts", "authority")
