"""Data keys, digests of agents' tokens"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "data_keys",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("master", sa.String(length=16), nullable=False),
        sa.Column("wrapped", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_data_keys"),
        sa.UniqueConstraint("position", name="uq_data_keys_position"),
    )
    op.create_table(
        "sealed_tables",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("done", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sealed_tables"),
    )
    op.add_column("agents", sa.Column("token_digest", sa.String(length=64), nullable=True))


def downgrade() -> None:
    op.drop_column("agents", "token_digest")
    op.drop_table("sealed_tables")
    op.drop_table("data_keys")
