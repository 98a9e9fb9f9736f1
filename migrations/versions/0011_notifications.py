"""Notifications: facts about nodes and steps in change events, and the place of the broker in them"""

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DIFFERS = "OLD.{0} IS DISTINCT FROM NEW.{0}"
SAME = "OLD.{0} IS NOT DISTINCT FROM NEW.{0}"
ONLY_UPDATED = (
    f"{DIFFERS.format('updated_at')} AND OLD.provision_state = NEW.provision_state"
    f" AND {SAME.format('power_state')} AND OLD.maintenance = NEW.maintenance"
)
WORD = "CASE WHEN {}.maintenance THEN 'true' ELSE 'false' END"
STATES = "OLD.provision_state", "NEW.provision_state"
#: Trigger of nodes -> event, condition, type, before, after.
TRIGGERS = {
    "node_created": ("INSERT", "", "node.created", "NULL", STATES[1]),
    "node_updated": ("UPDATE OF updated_at", ONLY_UPDATED, "node.updated", "NULL", "NULL"),
    "node_deleted": ("DELETE", "", "node.deleted", STATES[0], "NULL"),
    "provision_state": (
        "UPDATE OF provision_state", DIFFERS.format("provision_state"), "node.provision_state",
        *STATES,
    ),
    "power_state": (
        "UPDATE OF power_state", DIFFERS.format("power_state"), "node.power_state",
        "OLD.power_state", "NEW.power_state",
    ),
    "maintenance": (
        "UPDATE OF maintenance", DIFFERS.format("maintenance"), "node.maintenance",
        WORD.format("OLD"), WORD.format("NEW"),
    ),
}  # fmt: skip
OF_STEP = (
    "'step.state', n.uuid, n.name, n.owner, n.lessee, o.uuid, o.kind,"
    " NEW.interface || '.' || NEW.name, OLD.state, NEW.state"
)
COLUMNS = (
    "created_at, type, node_uuid, node_name, owner, lessee, operation_uuid, operation_kind, step,"
    " before, after"
)
#: Fields of nodes in events: those of notifications, without documents, which may have passwords.
#: A function of PostgreSQL has at most 100 arguments, two for each field.
FIELDS = (
    "name", "owner", "lessee", "description", "driver", "conductor_group", "resource_class",
    "chassis_uuid", "instance_uuid", "created_at", "updated_at", "provision_state",
    "target_provision_state", "provision_event", "provision_updated_at", "power_state",
    "target_power_state", "maintenance", "maintenance_reason", "fault", "last_error",
    "console_enabled", "protected", "protected_reason", "retired", "retired_reason",
    "disable_power_off", "boot_mode", "secure_boot", "inspection_started_at",
    "inspection_finished_at", "bios_interface", "boot_interface", "console_interface",
    "deploy_interface", "inspect_interface", "management_interface", "network_interface",
    "power_interface", "raid_interface", "rescue_interface", "storage_interface",
    "vendor_interface",
)  # fmt: skip
#: Fields before an update -> their names in events.
BEFORE = {
    "target_provision_state": "previous_target_provision_state",
    "operation_id": "previous_operation_id",
}


def upgrade() -> None:
    op.create_table(
        "notification_cursor",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("position", NUMBER, nullable=False),
        sa.Column("due_at", sa.DateTime(), nullable=False),
        sa.Column("holder", sa.String(length=32), nullable=True),
        sa.Column("failed_attempts", sa.Integer(), nullable=False),
        sa.Column("failing_since", sa.DateTime(), nullable=True),
        sa.Column("last_error", sa.String(length=255), nullable=True),
        sa.Column("last_delivery_at", sa.DateTime(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_notification_cursor"),
    )
    op.create_index("ix_notification_cursor_due_at", "notification_cursor", ["due_at"])
    op.add_column("nodes", sa.Column("provision_event", sa.String(length=16), nullable=True))
    op.add_column("change_events", sa.Column("facts", sa.Text(), nullable=True))
    replace_triggers(with_facts=True)


def replace_triggers(*, with_facts: bool) -> None:
    dialect = op.get_bind().dialect.name
    for name, (event, condition, *what) in TRIGGERS.items():
        values = of_node(event, *what)
        facts = facts_of_node(event, dialect) if with_facts else ""
        on_nodes = name, f"{event} ON nodes", condition
        for each in statements(dialect, *on_nodes, values=values, facts=facts):
            op.execute(sa.DDL(each.replace("%", "%%")))
    facts = facts_of_step(dialect) if with_facts else ""
    source = "FROM operations o JOIN nodes n ON n.id = o.node_id WHERE o.id = NEW.operation_id"
    on_steps = "step_state", "UPDATE OF state ON operation_steps", "OLD.state <> NEW.state"
    for each in statements(dialect, *on_steps, values=OF_STEP, facts=facts, source=source):
        op.execute(sa.DDL(each.replace("%", "%%")))


def of_node(event: str, kind: str, before: str, after: str) -> str:
    """Return the values of an event of a node."""
    row = "OLD" if event == "DELETE" else "NEW"
    node = f"{row}.uuid, {row}.name, {row}.owner, {row}.lessee"
    return f"'{kind}', {node}, NULL, NULL, NULL, {before}, {after}"


def facts_of_node(event: str, dialect: str) -> str:
    """Return the fields of a node."""
    row = "OLD" if event == "DELETE" else "NEW"
    pairs = [f"'{name}', {row}.{name}" for name in FIELDS]
    if event.startswith("UPDATE"):
        pairs += [f"'{name}', OLD.{column}" for column, name in BEFORE.items()]
    return if_on(", ".join(pairs), dialect)


def facts_of_step(dialect: str) -> str:
    """Return the child node and the wanted power state of a step."""
    state = "json_extract(NEW.args, '$.state')" if dialect == "sqlite" else "NEW.args ->> 'state'"
    power = "NEW.interface = 'power' AND NEW.name = 'change'"
    pairs = f"'child', NEW.child, 'to_power', CASE WHEN {power} THEN {state} END"
    return if_on(pairs, dialect)


def if_on(pairs: str, dialect: str) -> str:
    """Return an object as JSON text; NULL if notifications are off."""
    made = f"json_object({pairs})" if dialect == "sqlite" else f"json_build_object({pairs})::text"
    on = "EXISTS (SELECT 1 FROM notification_cursor)"
    return f"CASE WHEN {on} THEN {made} END"


def statements(
    dialect: str,
    name: str,
    event: str,
    condition: str,
    *,
    values: str,
    facts: str,
    source: str = "",
) -> Iterator[str]:
    """Return the statements that replace a trigger of migration 0008."""
    columns = COLUMNS
    if facts:
        columns, values = f"{columns}, facts", f"{values}, {facts}"
    if dialect == "sqlite":
        when = f" WHEN ({condition})" if condition else ""
        when = when.replace(" IS NOT DISTINCT FROM ", " IS ").replace(
            " IS DISTINCT FROM ", " IS NOT "
        )
        number = "(SELECT coalesce(max(sequence), 0) + 1 FROM change_events)"
        now = "strftime('%Y-%m-%d %H:%M:%f001', 'now')"
        insert = f"INSERT INTO change_events (sequence, {columns}) SELECT {number}, {now}, {values}"
        yield f"DROP TRIGGER change_events_{name}"
        yield (
            f"CREATE TRIGGER change_events_{name} AFTER {event} FOR EACH ROW{when}"
            f" BEGIN {insert} {source}; END"
        )
    else:
        now = "clock_timestamp() AT TIME ZONE 'utc'"
        insert = f"INSERT INTO change_events ({columns}) SELECT {now}, {values} {source}"
        yield (
            f"CREATE OR REPLACE FUNCTION change_events_{name}() RETURNS trigger"
            f" LANGUAGE plpgsql AS $$ BEGIN {insert}; RETURN NULL; END $$"
        )


def downgrade() -> None:
    replace_triggers(with_facts=False)
    op.drop_column("change_events", "facts")
    op.drop_column("nodes", "provision_event")
    op.drop_index("ix_notification_cursor_due_at", "notification_cursor")
    op.drop_table("notification_cursor")
