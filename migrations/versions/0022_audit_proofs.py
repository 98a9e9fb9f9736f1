"""Audit records with names, reasons and proofs"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("audit", sa.Column("target_name", sa.String(length=255), nullable=True))
    op.add_column("audit", sa.Column("reason", sa.String(length=64), nullable=True))
    op.add_column("audit", sa.Column("mac", sa.String(length=64), nullable=True))
    op.create_table(
        "audit_checkpoints",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("first", NUMBER, nullable=False),
        sa.Column("last", NUMBER, nullable=False),
        sa.Column("horizon", NUMBER, nullable=True),
        sa.Column("successes", sa.Integer(), nullable=False),
        sa.Column("successes_digest", sa.String(length=64), nullable=True),
        sa.Column("others", sa.Integer(), nullable=False),
        sa.Column("others_digest", sa.String(length=64), nullable=True),
        sa.Column("newest_at", sa.DateTime(), nullable=True),
        sa.Column("mac", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit_checkpoints"),
        sa.UniqueConstraint("first", name="uq_audit_checkpoints_first"),
    )


def downgrade() -> None:
    op.drop_table("audit_checkpoints")
    for name in ("mac", "reason", "target_name"):
        op.drop_column("audit", name)
