"""Audit records"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

REFUSED = sa.text("outcome <> 'success'")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("action", sa.String(length=128), nullable=False),
        sa.Column("outcome", sa.String(length=8), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("target_type", sa.String(length=32), nullable=True),
        sa.Column("target", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("user_name", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=64), nullable=True),
        sa.Column("project_name", sa.String(length=64), nullable=True),
        sa.Column("roles", sa.String(length=255), nullable=True),
        sa.Column("system_scope", sa.String(length=16), nullable=True),
        sa.Column("auth", sa.String(length=16), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.Column("user_agent", sa.String(length=128), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("fields", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_created_at", "audit", ["created_at", "id"])
    op.create_index("ix_audit_target", "audit", ["target", "created_at", "id"])
    op.create_index("ix_audit_user_id", "audit", ["user_id", "created_at", "id"])
    op.create_index(
        "ix_audit_refused", "audit", ["id"], sqlite_where=REFUSED, postgresql_where=REFUSED
    )


def downgrade() -> None:
    op.drop_table("audit")
