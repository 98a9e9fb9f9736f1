"""Steps that were taken over by index"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TAKEN_OVER = sa.text("deaths > 0")


def upgrade() -> None:
    op.create_index(
        "ix_operation_steps_taken_over",
        "operation_steps",
        ["operation_id"],
        sqlite_where=TAKEN_OVER,
        postgresql_where=TAKEN_OVER,
    )


def downgrade() -> None:
    op.drop_index("ix_operation_steps_taken_over", "operation_steps")
