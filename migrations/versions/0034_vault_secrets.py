"""Secrets in a vault"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "vault_secrets",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("field", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("changed_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_vault_secrets"),
    )
    op.create_index("ix_vault_secrets_node_uuid", "vault_secrets", ["node_uuid"])
    op.create_index("ix_vault_secrets_state", "vault_secrets", ["state", "changed_at"])


def downgrade() -> None:
    op.drop_table("vault_secrets")
