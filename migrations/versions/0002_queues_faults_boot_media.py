"""Queues, faults, boot media"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "watermark",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("level", sa.BigInteger(), nullable=False),
        sa.Column("raised_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_watermark")),
    )
    with op.batch_alter_table("agents", schema=None) as batch_op:
        batch_op.add_column(sa.Column("given_to", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("given_at", sa.DateTime(), nullable=True))

    with op.batch_alter_table("conductors", schema=None) as batch_op:
        batch_op.add_column(sa.Column("version", sa.Integer(), server_default="0", nullable=False))

    with op.batch_alter_table("nodes", schema=None) as batch_op:
        batch_op.create_index(
            "ix_nodes_fault",
            ["fault", "id"],
            unique=False,
            sqlite_where=sa.text("fault IS NOT NULL"),
            postgresql_where=sa.text("fault IS NOT NULL"),
        )

    with op.batch_alter_table("operation_steps", schema=None) as batch_op:
        batch_op.add_column(sa.Column("remaining", sa.Float(), nullable=True))

    with op.batch_alter_table("operations", schema=None) as batch_op:
        batch_op.add_column(sa.Column("watched_until", sa.DateTime(), nullable=True))
        batch_op.add_column(sa.Column("queue", sa.String(length=300), nullable=True))
        batch_op.add_column(sa.Column("party", sa.String(length=511), nullable=True))
        batch_op.add_column(sa.Column("turn", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("version", sa.Integer(), server_default="0", nullable=False))
        batch_op.create_index(
            "ix_operations_admitted",
            ["queue"],
            unique=False,
            sqlite_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NOT NULL AND finished_at IS NULL"
            ),
            postgresql_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NOT NULL AND finished_at IS NULL"
            ),
        )
        batch_op.create_index(
            "ix_operations_party",
            ["queue", "party", "turn"],
            unique=False,
            sqlite_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL"
            ),
            postgresql_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL"
            ),
        )
        batch_op.create_index(
            "ix_operations_turn",
            ["queue", "turn", "id"],
            unique=False,
            sqlite_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL"
            ),
            postgresql_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL"
            ),
        )


def downgrade() -> None:
    with op.batch_alter_table("operations", schema=None) as batch_op:
        batch_op.drop_index(
            "ix_operations_turn",
            sqlite_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL"
            ),
            postgresql_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL"
            ),
        )
        batch_op.drop_index(
            "ix_operations_party",
            sqlite_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL"
            ),
            postgresql_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NULL AND finished_at IS NULL"
            ),
        )
        batch_op.drop_index(
            "ix_operations_admitted",
            sqlite_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NOT NULL AND finished_at IS NULL"
            ),
            postgresql_where=sa.text(
                "queue IS NOT NULL AND admitted_at IS NOT NULL AND finished_at IS NULL"
            ),
        )
        batch_op.drop_column("version")
        batch_op.drop_column("turn")
        batch_op.drop_column("party")
        batch_op.drop_column("queue")
        batch_op.drop_column("watched_until")

    with op.batch_alter_table("operation_steps", schema=None) as batch_op:
        batch_op.drop_column("remaining")

    with op.batch_alter_table("nodes", schema=None) as batch_op:
        batch_op.drop_index(
            "ix_nodes_fault",
            sqlite_where=sa.text("fault IS NOT NULL"),
            postgresql_where=sa.text("fault IS NOT NULL"),
        )

    with op.batch_alter_table("conductors", schema=None) as batch_op:
        batch_op.drop_column("version")

    with op.batch_alter_table("agents", schema=None) as batch_op:
        batch_op.drop_column("given_at")
        batch_op.drop_column("given_to")

    op.drop_table("watermark")
