"""Nodes, ports, conductors, operations, agents, history"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "answered",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("caller", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("location", sa.String(length=1024), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_answered")),
        sa.UniqueConstraint("caller", "key", name=op.f("uq_answered_caller_key")),
    )
    with op.batch_alter_table("answered", schema=None) as batch_op:
        batch_op.create_index("ix_answered_created_at", ["created_at"], unique=False)

    op.create_table(
        "beat_lease",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("until", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_beat_lease")),
    )
    op.create_table(
        "chassis",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chassis")),
        sa.UniqueConstraint("uuid", name=op.f("uq_chassis_uuid")),
    )
    op.create_table(
        "conductors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("incarnation", sa.String(length=36), nullable=False),
        sa.Column("conductor_group", sa.String(length=255), nullable=False),
        sa.Column("interfaces", sa.JSON(), nullable=False),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conductors")),
        sa.UniqueConstraint("hostname", name=op.f("uq_conductors_hostname")),
    )
    with op.batch_alter_table("conductors", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_conductors_incarnation"), ["incarnation"], unique=False
        )

    op.create_table(
        "deploy_templates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deploy_templates")),
        sa.UniqueConstraint("name", name=op.f("uq_deploy_templates_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_deploy_templates_uuid")),
    )
    op.create_table(
        "inspection_rules",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("sensitive", sa.Boolean(), nullable=False),
        sa.Column("conditions", sa.JSON(), nullable=False),
        sa.Column("actions", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inspection_rules")),
        sa.UniqueConstraint("uuid", name=op.f("uq_inspection_rules_uuid")),
    )
    op.create_table(
        "runbooks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("traits", sa.JSON(), nullable=False),
        sa.Column("disable_ramdisk", sa.Boolean(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runbooks")),
        sa.UniqueConstraint("name", name=op.f("uq_runbooks_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_runbooks_uuid")),
    )
    with op.batch_alter_table("runbooks", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_runbooks_owner"), ["owner"], unique=False)

    op.create_table(
        "nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("reservation", sa.String(length=255), nullable=True),
        sa.Column("operation_id", sa.Integer(), nullable=True),
        sa.Column("driver", sa.String(length=255), nullable=False),
        sa.Column("driver_info", sa.JSON(), nullable=False),
        sa.Column("driver_internal_info", sa.JSON(), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("instance_info", sa.JSON(), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=True),
        sa.Column("instance_name", sa.String(length=255), nullable=True),
        sa.Column("network_data", sa.JSON(), nullable=False),
        sa.Column("raid_config", sa.JSON(), nullable=False),
        sa.Column("target_raid_config", sa.JSON(), nullable=False),
        sa.Column("resource_class", sa.String(length=80), nullable=True),
        sa.Column("conductor_group", sa.String(length=255), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("lessee", sa.String(length=255), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("shard", sa.String(length=255), nullable=True),
        sa.Column("parent_node", sa.String(length=36), nullable=True),
        sa.Column("chassis_uuid", sa.String(length=36), nullable=True),
        sa.Column("automated_clean", sa.Boolean(), nullable=True),
        sa.Column("protected", sa.Boolean(), nullable=False),
        sa.Column("protected_reason", sa.Text(), nullable=True),
        sa.Column("retired", sa.Boolean(), nullable=False),
        sa.Column("retired_reason", sa.Text(), nullable=True),
        sa.Column("disable_power_off", sa.Boolean(), nullable=False),
        sa.Column("maintenance", sa.Boolean(), nullable=False),
        sa.Column("maintenance_reason", sa.Text(), nullable=True),
        sa.Column("fault", sa.String(length=255), nullable=True),
        sa.Column("console_enabled", sa.Boolean(), nullable=False),
        sa.Column("power_state", sa.String(length=15), nullable=True),
        sa.Column("target_power_state", sa.String(length=15), nullable=True),
        sa.Column("power_sync_failures", sa.Integer(), nullable=False),
        sa.Column("boot_mode", sa.String(length=16), nullable=True),
        sa.Column("secure_boot", sa.Boolean(), nullable=True),
        sa.Column("health", sa.String(length=32), nullable=True),
        sa.Column("provision_state", sa.String(length=16), nullable=False),
        sa.Column("target_provision_state", sa.String(length=16), nullable=True),
        sa.Column("provision_updated_at", sa.DateTime(), nullable=True),
        sa.Column("inspection_started_at", sa.DateTime(), nullable=True),
        sa.Column("inspection_finished_at", sa.DateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("bios_interface", sa.String(length=255), nullable=True),
        sa.Column("boot_interface", sa.String(length=255), nullable=True),
        sa.Column("console_interface", sa.String(length=255), nullable=True),
        sa.Column("deploy_interface", sa.String(length=255), nullable=True),
        sa.Column("firmware_interface", sa.String(length=255), nullable=True),
        sa.Column("inspect_interface", sa.String(length=255), nullable=True),
        sa.Column("management_interface", sa.String(length=255), nullable=True),
        sa.Column("network_interface", sa.String(length=255), nullable=True),
        sa.Column("power_interface", sa.String(length=255), nullable=True),
        sa.Column("raid_interface", sa.String(length=255), nullable=True),
        sa.Column("rescue_interface", sa.String(length=255), nullable=True),
        sa.Column("storage_interface", sa.String(length=255), nullable=True),
        sa.Column("vendor_interface", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["chassis_uuid"], ["chassis.uuid"], name=op.f("fk_nodes_chassis_uuid_chassis")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("instance_uuid", name=op.f("uq_nodes_instance_uuid")),
        sa.UniqueConstraint("name", name=op.f("uq_nodes_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_nodes_uuid")),
    )
    with op.batch_alter_table("nodes", schema=None) as batch_op:
        batch_op.create_index("ix_nodes_chassis_uuid", ["chassis_uuid"], unique=False)
        batch_op.create_index(
            "ix_nodes_free",
            ["resource_class", "id"],
            unique=False,
            sqlite_where=sa.text("coalesce(instance_uuid, provision_state) = 'available'"),
            postgresql_where=sa.text("coalesce(instance_uuid, provision_state) = 'available'"),
        )
        batch_op.create_index("ix_nodes_lessee", ["lessee"], unique=False)
        batch_op.create_index("ix_nodes_owner", ["owner"], unique=False)
        batch_op.create_index("ix_nodes_parent_node", ["parent_node"], unique=False)
        batch_op.create_index("ix_nodes_provision_state", ["provision_state"], unique=False)
        batch_op.create_index("ix_nodes_shard", ["shard"], unique=False)

    op.create_table(
        "agents",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("token", sa.Text(), nullable=True),
        sa.Column("pregenerated", sa.Boolean(), nullable=False),
        sa.Column("verify_ca", sa.Text(), nullable=True),
        sa.Column("version", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=True),
        sa.Column("status_message", sa.Text(), nullable=True),
        sa.Column("heartbeats", sa.Integer(), nullable=False),
        sa.Column("last_heartbeat_at", sa.DateTime(), nullable=True),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("steps_refreshed_at", sa.DateTime(), nullable=True),
        sa.Column("hardware_manager_version", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_agents_node_id_nodes")),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_agents")),
    )
    op.create_table(
        "allocations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=True),
        sa.Column("resource_class", sa.String(length=80), nullable=True),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("traits", sa.JSON(), nullable=False),
        sa.Column("candidate_nodes", sa.JSON(), nullable=False),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_allocations_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allocations")),
        sa.UniqueConstraint("name", name=op.f("uq_allocations_name")),
        sa.UniqueConstraint("node_id", name=op.f("uq_allocations_node_id")),
        sa.UniqueConstraint("uuid", name=op.f("uq_allocations_uuid")),
    )
    with op.batch_alter_table("allocations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_allocations_due_at"), ["due_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_allocations_owner"), ["owner"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_allocations_resource_class"), ["resource_class"], unique=False
        )

    op.create_table(
        "bios_settings",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("attribute_type", sa.String(length=255), nullable=True),
        sa.Column("allowable_values", sa.JSON(), nullable=False),
        sa.Column("lower_bound", sa.Integer(), nullable=True),
        sa.Column("upper_bound", sa.Integer(), nullable=True),
        sa.Column("min_length", sa.Integer(), nullable=True),
        sa.Column("max_length", sa.Integer(), nullable=True),
        sa.Column("read_only", sa.Boolean(), nullable=True),
        sa.Column("reset_required", sa.Boolean(), nullable=True),
        sa.Column("unique", sa.Boolean(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_bios_settings_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("node_id", "name", name=op.f("pk_bios_settings")),
    )
    op.create_table(
        "firmware_components",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("component", sa.String(length=255), nullable=False),
        sa.Column("initial_version", sa.String(length=255), nullable=False),
        sa.Column("current_version", sa.String(length=255), nullable=True),
        sa.Column("last_version_flashed", sa.String(length=255), nullable=True),
        sa.Column("vendor", sa.String(length=255), nullable=True),
        sa.Column("model", sa.String(length=255), nullable=True),
        sa.Column("serial_number", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_firmware_components_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("node_id", "component", name=op.f("pk_firmware_components")),
    )
    op.create_table(
        "inspection_reports",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_inspection_reports_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_inspection_reports")),
    )
    op.create_table(
        "node_history",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("severity", sa.String(length=8), nullable=False),
        sa.Column("event_type", sa.String(length=64), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("conductor", sa.String(length=255), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=True),
        sa.Column("target_provision_state", sa.String(length=16), nullable=True),
        sa.Column("duration_seconds", sa.Integer(), nullable=True),
        sa.Column("user", sa.String(length=64), nullable=True),
        sa.Column("project", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_node_history_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node_history")),
        sa.UniqueConstraint("uuid", name=op.f("uq_node_history_uuid")),
    )
    with op.batch_alter_table("node_history", schema=None) as batch_op:
        batch_op.create_index("ix_node_history_node", ["node_id", "id"], unique=False)

    op.create_table(
        "node_inventory",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("inventory", sa.JSON(), nullable=False),
        sa.Column("plugin_data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_node_inventory_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_node_inventory")),
    )
    op.create_table(
        "node_traits",
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("trait", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_node_traits_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("node_id", "trait", name=op.f("pk_node_traits")),
    )
    op.create_table(
        "operations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("requested_by", sa.String(length=255), nullable=True),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("cursor", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("claimed", sa.Integer(), nullable=False),
        sa.Column("claimed_by", sa.String(length=36), nullable=True),
        sa.Column("claim", sa.String(length=36), nullable=True),
        sa.Column("heartbeats", sa.Integer(), nullable=False),
        sa.Column("deadline_at", sa.DateTime(), nullable=True),
        sa.Column("wake_at", sa.DateTime(), nullable=True),
        sa.Column("admitted_at", sa.DateTime(), nullable=True),
        sa.Column("sent_at", sa.DateTime(), nullable=True),
        sa.Column("sent_to", sa.String(length=36), nullable=True),
        sa.Column("sends", sa.Integer(), nullable=False),
        sa.Column("refused", sa.Integer(), nullable=False),
        sa.Column("asked_steps", sa.JSON(), nullable=False),
        sa.Column("aborting", sa.Boolean(), nullable=False),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_operations_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
        sa.UniqueConstraint("uuid", name=op.f("uq_operations_uuid")),
    )
    with op.batch_alter_table("operations", schema=None) as batch_op:
        batch_op.create_index("ix_operations_node", ["node_id", "id"], unique=False)
        batch_op.create_index("ix_operations_state", ["state"], unique=False)
        batch_op.create_index(
            "uq_operations_busy",
            ["node_id"],
            unique=True,
            sqlite_where=sa.text("state IN ('queued', 'running')"),
            postgresql_where=sa.text("state IN ('queued', 'running')"),
        )

    op.create_table(
        "portgroups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(length=18), nullable=True),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("internal_info", sa.JSON(), nullable=False),
        sa.Column("standalone_ports_supported", sa.Boolean(), nullable=False),
        sa.Column("mode", sa.String(length=255), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=True),
        sa.Column("category", sa.String(length=80), nullable=True),
        sa.Column("dynamic_portgroup", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_portgroups_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_portgroups")),
        sa.UniqueConstraint("address", name=op.f("uq_portgroups_address")),
        sa.UniqueConstraint("name", name=op.f("uq_portgroups_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_portgroups_uuid")),
    )
    with op.batch_alter_table("portgroups", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_portgroups_node_id"), ["node_id"], unique=False)

    op.create_table(
        "volume_connectors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("connector_id", sa.String(length=255), nullable=False),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_volume_connectors_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_connectors")),
        sa.UniqueConstraint(
            "type", "connector_id", name=op.f("uq_volume_connectors_type_connector_id")
        ),
        sa.UniqueConstraint("uuid", name=op.f("uq_volume_connectors_uuid")),
    )
    with op.batch_alter_table("volume_connectors", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_volume_connectors_node_id"), ["node_id"], unique=False)

    op.create_table(
        "volume_targets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("volume_type", sa.String(length=64), nullable=False),
        sa.Column("volume_id", sa.String(length=255), nullable=False),
        sa.Column("boot_index", sa.Integer(), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_volume_targets_node_id_nodes")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_targets")),
        sa.UniqueConstraint(
            "node_id", "boot_index", name=op.f("uq_volume_targets_node_id_boot_index")
        ),
        sa.UniqueConstraint("uuid", name=op.f("uq_volume_targets_uuid")),
    )
    with op.batch_alter_table("volume_targets", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_volume_targets_node_id"), ["node_id"], unique=False)

    op.create_table(
        "operation_steps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("operation_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("interface", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("flow", sa.String(length=16), nullable=True),
        sa.Column("args", sa.JSON(), nullable=False),
        sa.Column("priority", sa.Float(), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("in_band", sa.Boolean(), nullable=False),
        sa.Column("abortable", sa.Boolean(), nullable=False),
        sa.Column("requires_ramdisk", sa.Boolean(), nullable=False),
        sa.Column("reboot_requested", sa.Boolean(), nullable=False),
        sa.Column("resume", sa.String(length=16), nullable=False),
        sa.Column("collects", sa.Boolean(), nullable=False),
        sa.Column("event", sa.String(length=16), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("deaths", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("backoff", sa.Float(), nullable=False),
        sa.Column("faults", sa.Integer(), nullable=False),
        sa.Column("timeout", sa.Float(), nullable=True),
        sa.Column("abort_after", sa.Boolean(), nullable=False),
        sa.Column("child", sa.String(length=36), nullable=True),
        sa.Column("conductor", sa.String(length=255), nullable=True),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("deadline_at", sa.DateTime(), nullable=True),
        sa.Column("started_at", sa.DateTime(), nullable=True),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["operations.id"],
            name=op.f("fk_operation_steps_operation_id_operations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operation_steps")),
        sa.UniqueConstraint(
            "operation_id", "position", name=op.f("uq_operation_steps_operation_id_position")
        ),
    )
    op.create_table(
        "ports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("portgroup_id", sa.Integer(), nullable=True),
        sa.Column("address", sa.String(length=18), nullable=False),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.Column("internal_info", sa.JSON(), nullable=False),
        sa.Column("local_link_connection", sa.JSON(), nullable=False),
        sa.Column("pxe_enabled", sa.Boolean(), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=True),
        sa.Column("is_smartnic", sa.Boolean(), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("vendor", sa.String(length=32), nullable=True),
        sa.Column("category", sa.String(length=80), nullable=True),
        sa.Column("available_for_dynamic_portgroup", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name=op.f("fk_ports_node_id_nodes")),
        sa.ForeignKeyConstraint(
            ["portgroup_id"], ["portgroups.id"], name=op.f("fk_ports_portgroup_id_portgroups")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ports")),
        sa.UniqueConstraint("address", name=op.f("uq_ports_address")),
        sa.UniqueConstraint("name", name=op.f("uq_ports_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_ports_uuid")),
    )
    with op.batch_alter_table("ports", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_ports_node_id"), ["node_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_ports_portgroup_id"), ["portgroup_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("ports", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_ports_portgroup_id"))
        batch_op.drop_index(batch_op.f("ix_ports_node_id"))

    op.drop_table("ports")
    op.drop_table("operation_steps")
    with op.batch_alter_table("volume_targets", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_volume_targets_node_id"))

    op.drop_table("volume_targets")
    with op.batch_alter_table("volume_connectors", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_volume_connectors_node_id"))

    op.drop_table("volume_connectors")
    with op.batch_alter_table("portgroups", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_portgroups_node_id"))

    op.drop_table("portgroups")
    with op.batch_alter_table("operations", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_operations_busy",
            sqlite_where=sa.text("state IN ('queued', 'running')"),
            postgresql_where=sa.text("state IN ('queued', 'running')"),
        )
        batch_op.drop_index("ix_operations_state")
        batch_op.drop_index("ix_operations_node")

    op.drop_table("operations")
    op.drop_table("node_traits")
    op.drop_table("node_inventory")
    with op.batch_alter_table("node_history", schema=None) as batch_op:
        batch_op.drop_index("ix_node_history_node")

    op.drop_table("node_history")
    op.drop_table("inspection_reports")
    op.drop_table("firmware_components")
    op.drop_table("bios_settings")
    with op.batch_alter_table("allocations", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_allocations_resource_class"))
        batch_op.drop_index(batch_op.f("ix_allocations_owner"))
        batch_op.drop_index(batch_op.f("ix_allocations_due_at"))

    op.drop_table("allocations")
    op.drop_table("agents")
    with op.batch_alter_table("nodes", schema=None) as batch_op:
        batch_op.drop_index("ix_nodes_shard")
        batch_op.drop_index("ix_nodes_provision_state")
        batch_op.drop_index("ix_nodes_parent_node")
        batch_op.drop_index("ix_nodes_owner")
        batch_op.drop_index("ix_nodes_lessee")
        batch_op.drop_index(
            "ix_nodes_free",
            sqlite_where=sa.text("coalesce(instance_uuid, provision_state) = 'available'"),
            postgresql_where=sa.text("coalesce(instance_uuid, provision_state) = 'available'"),
        )
        batch_op.drop_index("ix_nodes_chassis_uuid")

    op.drop_table("nodes")
    with op.batch_alter_table("runbooks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_runbooks_owner"))

    op.drop_table("runbooks")
    op.drop_table("inspection_rules")
    op.drop_table("deploy_templates")
    with op.batch_alter_table("conductors", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_conductors_incarnation"))

    op.drop_table("conductors")
    op.drop_table("chassis")
    op.drop_table("beat_lease")
    with op.batch_alter_table("answered", schema=None) as batch_op:
        batch_op.drop_index("ix_answered_created_at")

    op.drop_table("answered")
