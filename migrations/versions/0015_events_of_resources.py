"""Change events of ports, allocations, chassis and other resources beside nodes"""

from collections.abc import Iterator
from typing import NamedTuple

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TIMES = ("created_at", "updated_at")
#: Node and projects of an event, from the row `n` of the resource's node; or none of them.
OF_NODE = ("n.uuid", "n.name", "n.owner", "n.lessee")
NO_NODE = ("NULL", "NULL", "NULL", "NULL")
COLUMNS = (
    "created_at, type, node_uuid, node_name, owner, lessee, resource_uuid, resource_name, before,"
    " after, facts"
)


class Kind(NamedTuple):
    """A kind of resources. In expressions, `{row}` is the row after the change, or before a DELETE."""

    table: str
    # kept in events for notifications: no documents, which may have passwords
    fields: tuple[str, ...]
    node: tuple[str, ...] = NO_NODE  # UUID and name of the node, owner, lessee
    name: str = "NULL"
    state: str | None = None  # column that `before` and `after` have
    more: str = ""  # further fields, as pairs of name and expression


NAME = "{row}.name"
KINDS = {
    "port": Kind(
        "ports",
        (
            "address", "name", "description", "vendor", "category", "physical_network",
            "pxe_enabled", "is_smartnic", "available_for_dynamic_portgroup",
        ),
        OF_NODE, NAME,
        more=", 'portgroup_uuid', (SELECT uuid FROM portgroups WHERE id = {row}.portgroup_id)",
    ),
    "portgroup": Kind(
        "portgroups",
        (
            "address", "category", "mode", "name", "physical_network", "dynamic_portgroup",
            "standalone_ports_supported",
        ),
        OF_NODE, NAME,
    ),
    "volume_connector": Kind("volume_connectors", ("type", "connector_id"), OF_NODE),
    "volume_target": Kind("volume_targets", ("boot_index", "volume_id", "volume_type"), OF_NODE),
    "allocation": Kind(
        "allocations", ("name", "state", "last_error", "owner", "resource_class"),
        # its owner may see the UUID of the node, but perhaps not the node
        ("(SELECT uuid FROM nodes WHERE id = {row}.node_id)", "NULL", "{row}.owner", "NULL"),
        NAME, "state",
    ),
    "chassis": Kind("chassis", ("description",)),
    "deploy_template": Kind("deploy_templates", ("name",), name=NAME),
    "runbook": Kind(
        "runbooks", ("name", "description", "disable_ramdisk", "owner", "public"),
        ("NULL", "NULL", "{row}.owner", "NULL"), NAME,
    ),
    "inspection_rule": Kind("inspection_rules", ("description", "phase", "priority", "sensitive")),
}  # fmt: skip
#: Change -> event of the trigger. A change that callers can see sets `updated_at`.
CHANGES = {"created": "INSERT", "updated": "UPDATE OF updated_at", "deleted": "DELETE"}


def upgrade() -> None:
    others = drop_triggers()
    with op.batch_alter_table("change_events") as change_events:
        change_events.alter_column("node_uuid", existing_type=sa.String(length=36), nullable=True)
        change_events.add_column(sa.Column("resource_uuid", sa.String(length=36), nullable=True))
        change_events.add_column(sa.Column("resource_name", sa.String(length=255), nullable=True))
    dialect = op.get_bind().dialect.name
    own = (each for name, kind in KINDS.items() for each in statements(dialect, name, kind))
    execute(*others, *own)


def drop_triggers() -> list[str]:
    """On SQLite, which copies a table to change it, drop all triggers; return their statements."""
    if op.get_bind().dialect.name != "sqlite":
        return []
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    found = op.get_bind().execute(sa.text(query)).all()
    execute(*(f"DROP TRIGGER {name}" for name, _ in found))
    return [statement for _, statement in found]


def statements(dialect: str, name: str, kind: Kind) -> Iterator[str]:
    """Return the statements that create the triggers of a kind."""
    for change, event in CHANGES.items():
        row = "OLD" if change == "deleted" else "NEW"
        before = f"OLD.{kind.state}" if kind.state and change != "created" else "NULL"
        after = f"NEW.{kind.state}" if kind.state and change != "deleted" else "NULL"
        values = ", ".join((
            f"'{name}.{change}'", *kind.node, "{row}.uuid", kind.name, before, after,
            facts(dialect, kind),
        ))  # fmt: skip
        if kind.node is OF_NODE:
            values += " FROM nodes n WHERE n.id = {row}.node_id"
        yield from trigger(
            dialect, f"{name}_{change}", f"{event} ON {kind.table}", values.format(row=row)
        )


def facts(dialect: str, kind: Kind) -> str:
    """Return the fields of a resource as JSON text; NULL if notifications are off."""
    pairs = ", ".join(f"'{name}', {{row}}.{name}" for name in (*kind.fields, *TIMES)) + kind.more
    made = f"json_object({pairs})" if dialect == "sqlite" else f"json_build_object({pairs})::text"
    on = "EXISTS (SELECT 1 FROM notification_cursor)"
    return f"CASE WHEN {on} THEN {made} END"


def trigger(dialect: str, name: str, event: str, values: str) -> Iterator[str]:
    """Return the statements that create a trigger in the form of those of migration 0008."""
    head = f"CREATE TRIGGER change_events_{name} AFTER {event} FOR EACH ROW"
    if dialect == "sqlite":
        number = "(SELECT coalesce(max(sequence), 0) + 1 FROM change_events)"
        now = "strftime('%Y-%m-%d %H:%M:%f001', 'now')"
        insert = f"INSERT INTO change_events (sequence, {COLUMNS}) SELECT {number}, {now}, {values}"
        yield f"{head} BEGIN {insert}; END"
    else:
        now = "clock_timestamp() AT TIME ZONE 'utc'"
        insert = f"INSERT INTO change_events ({COLUMNS}) SELECT {now}, {values}"
        yield (
            f"CREATE FUNCTION change_events_{name}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {insert}; RETURN NULL; END $$"
        )
        yield f"{head} EXECUTE FUNCTION change_events_{name}()"


def execute(*statements: str) -> None:
    for each in statements:
        op.execute(sa.DDL(each.replace("%", "%%")))


def downgrade() -> None:
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    for name, kind in KINDS.items():
        for change in CHANGES:
            trigger = f"change_events_{name}_{change}"
            execute(f"DROP TRIGGER {trigger}" + ("" if on_sqlite else f" ON {kind.table}"))
            if not on_sqlite:
                execute(f"DROP FUNCTION {trigger}()")
    execute("DELETE FROM change_events WHERE resource_uuid IS NOT NULL")
    others = drop_triggers()
    with op.batch_alter_table("change_events") as change_events:
        change_events.drop_column("resource_name")
        change_events.drop_column("resource_uuid")
        change_events.alter_column("node_uuid", existing_type=sa.String(length=36), nullable=False)
    execute(*others)
