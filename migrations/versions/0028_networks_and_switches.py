"""Networks and switches"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "networks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("vlan", sa.Integer(), nullable=True),
        sa.Column("tagged_vlans", sa.JSON(), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_networks"),
        sa.UniqueConstraint("uuid", name="uq_networks_uuid"),
        sa.UniqueConstraint("name", name="uq_networks_name"),
    )
    op.create_index("ix_networks_owner", "networks", ["owner"])
    op.create_table(
        "switches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("switch_id", sa.String(length=18), nullable=False),
        sa.Column("device_type", sa.String(length=32), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("username", sa.String(length=255), nullable=False),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("private_key", sa.Text(), nullable=True),
        sa.Column("enable_password", sa.Text(), nullable=True),
        sa.Column("host_key", sa.Text(), nullable=False),
        sa.Column("ports", sa.JSON(), nullable=False),
        sa.Column("save_changes", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_switches"),
        sa.UniqueConstraint("uuid", name="uq_switches_uuid"),
        sa.UniqueConstraint("name", name="uq_switches_name"),
        sa.UniqueConstraint("switch_id", name="uq_switches_switch_id"),
    )


def downgrade() -> None:
    op.drop_table("switches")
    op.drop_index("ix_networks_owner", "networks")
    op.drop_table("networks")
