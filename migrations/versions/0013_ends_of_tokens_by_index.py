"""Ends of API tokens, by index"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_api_tokens_expires_at", "api_tokens", ["expires_at"])
    op.create_index("ix_api_tokens_revoked_at", "api_tokens", ["revoked_at"])


def downgrade() -> None:
    op.drop_index("ix_api_tokens_revoked_at", "api_tokens")
    op.drop_index("ix_api_tokens_expires_at", "api_tokens")
