"""Conductors that an operator drains, and the trigger that inserts their change events"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

COLUMNS = "created_at, type, resource_name, before, after"
VALUES = "'conductor.drained', NEW.hostname, {}, {}"
WORD = "CASE WHEN {}.drained_at IS NULL THEN 'false' ELSE 'true' END"
CONDITION = "(OLD.drained_at IS NULL) <> (NEW.drained_at IS NULL)"
TRIGGER = "change_events_conductor_drained"


def upgrade() -> None:
    op.add_column("conductors", sa.Column("drained_at", sa.DateTime(), nullable=True))
    op.add_column("conductors", sa.Column("drain_reason", sa.String(length=255), nullable=True))
    values = VALUES.format(WORD.format("OLD"), WORD.format("NEW"))
    head = (
        f"CREATE TRIGGER {TRIGGER} AFTER UPDATE OF drained_at ON conductors FOR EACH ROW"
        f" WHEN ({CONDITION})"
    )
    if op.get_bind().dialect.name == "sqlite":
        number = "(SELECT coalesce(max(sequence), 0) + 1 FROM change_events)"
        now = "strftime('%Y-%m-%d %H:%M:%f001', 'now')"
        insert = f"INSERT INTO change_events (sequence, {COLUMNS}) SELECT {number}, {now}, {values}"
        _execute(f"{head} BEGIN {insert}; END")
        return
    now = "clock_timestamp() AT TIME ZONE 'utc'"
    insert = f"INSERT INTO change_events ({COLUMNS}) SELECT {now}, {values}"
    _execute(
        f"CREATE FUNCTION {TRIGGER}() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {insert}; RETURN NULL; END $$"
    )
    _execute(f"{head} EXECUTE FUNCTION {TRIGGER}()")


def _execute(statement: str) -> None:
    op.execute(sa.DDL(statement.replace("%", "%%")))


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"DROP TRIGGER {TRIGGER}")
    else:
        op.execute(f"DROP TRIGGER {TRIGGER} ON conductors")
        op.execute(f"DROP FUNCTION {TRIGGER}()")
    op.execute("DELETE FROM change_events WHERE type = 'conductor.drained'")
    op.drop_column("conductors", "drain_reason")
    op.drop_column("conductors", "drained_at")
