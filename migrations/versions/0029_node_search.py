"""Texts that free words of selections search, and the triggers that write them"""

# ruff: noqa: S608 - of names of tables and columns in this file

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

OWN = (
    "name", "uuid", "driver", "resource_class", "conductor_group", "shard", "description",
    "instance_uuid", "instance_name",
)  # fmt: skip
ADDRESSES = ("redfish_address", "ipmi_address")
#: Table with rows of nodes -> the column that is searched.
RELATED = {"ports": "address", "node_traits": "trait"}


class Texts:
    """Expressions of the searched texts, in the SQL of a database."""

    def __init__(self, dialect: str) -> None:
        self.on_sqlite = dialect == "sqlite"
        self.line = "char(10)" if self.on_sqlite else "chr(10)"

    def lower(self, value: str) -> str:
        """ASCII letters in lower case; those of SQLite always, of PostgreSQL by the collation C."""
        return f"lower({value})" if self.on_sqlite else f'lower({value} COLLATE "C")'

    def own(self, row: str) -> str:
        values = (f"coalesce({row}.{name}, '')" for name in OWN)
        return self.lower("(" + f" || {self.line} || ".join(values) + ")")

    def bmc(self, row: str) -> str:
        """Addresses of the BMC, without those that may have credentials."""
        addresses = [self._address(f"{row}.driver_info", key) for key in ADDRESSES]
        values = f" || {self.line} || ".join(f"coalesce({address}, '')" for address in addresses)
        return self.lower(f"nullif({values}, {self.line})")

    def _address(self, document: str, key: str) -> str:
        if self.on_sqlite:
            kind, value = (
                f"{name}({document}, '$.{key}')" for name in ("json_type", "json_extract")
            )
            signs = " AND ".join(f"instr({value}, '{sign}') = 0" for sign in "@?#")
            return f"CASE WHEN {kind} = 'text' AND {signs} THEN {value} END"
        kind, value = f"json_typeof({document} -> '{key}')", f"({document} ->> '{key}')"
        signs = " AND ".join(f"strpos({value}, '{sign}') = 0" for sign in "@?#")
        return f"CASE WHEN {kind} = 'string' AND {signs} THEN {value} END"

    def related(self, node: str) -> str:
        rows = " UNION ALL ".join(
            f"SELECT {self.lower(column)} AS value FROM {table} WHERE node_id = {node}"
            for table, column in RELATED.items()
        )
        joined = "group_concat" if self.on_sqlite else "string_agg"
        return f"coalesce((SELECT {joined}(value, {self.line}) FROM ({rows}) AS parts), '')"

    def differs(self, old: str, new: str) -> str:
        return f"{old} {'IS NOT' if self.on_sqlite else 'IS DISTINCT FROM'} {new}"

    def insertion(self, row: str, source: str) -> str:
        """A statement that inserts the texts of a row, or of all rows of a source."""
        values = (
            f"{row}.id, {self.own(row)}, {self.related(f'{row}.id')},"
            f" {self.lower(f'{row}.last_error')}, {self.bmc(row)}"
        )
        return (
            "INSERT INTO node_search (node_id, texts, related, last_error, bmc)"
            f" SELECT {values}{source}"
        )


def triggers(texts: Texts) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield (name, table, event, condition, statement) of each trigger."""
    yield "node_created", "nodes", "INSERT", "", texts.insertion("NEW", "")
    for name, columns, text in (
        ("texts", ", ".join(OWN), texts.own),
        ("last_error", "last_error", lambda row: texts.lower(f"{row}.last_error")),
        ("bmc", "driver_info", texts.bmc),
    ):
        yield (
            name, "nodes", f"UPDATE OF {columns}", texts.differs(text("OLD"), text("NEW")),
            f"UPDATE node_search SET {name} = {text('NEW')} WHERE node_id = NEW.id",
        )  # fmt: skip
    for table, column in RELATED.items():
        for event, rows in (
            ("INSERT", ("NEW",)), ("DELETE", ("OLD",)), (f"UPDATE OF {column}, node_id", ("OLD", "NEW")),
        ):  # fmt: skip
            for row in rows:
                name = f"{table}_{event.split()[0].lower()}_{row.lower()}"
                statement = (
                    f"UPDATE node_search SET related = {texts.related(f'{row}.node_id')}"
                    f" WHERE node_id = {row}.node_id"
                )
                yield name, table, event, "", statement


def upgrade() -> None:
    op.create_table(
        "node_search",
        sa.Column("node_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("texts", sa.Text(), nullable=False),
        sa.Column("related", sa.Text(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("bmc", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name="fk_node_search_node_id_nodes", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", name="pk_node_search"),
    )
    texts = Texts(op.get_bind().dialect.name)
    _execute(texts.insertion("nodes", " FROM nodes"))
    for name, table, event, condition, statement in triggers(texts):
        trigger = f"CREATE TRIGGER node_search_{name} AFTER {event} ON {table} FOR EACH ROW"
        when = f" WHEN ({condition})" if condition else ""
        if texts.on_sqlite:
            _execute(f"{trigger}{when} BEGIN {statement}; END")
            continue
        function = f"FUNCTION node_search_{name}()"
        _execute(
            f"CREATE {function} RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {statement}; RETURN NULL; END $$"
        )
        _execute(f"{trigger}{when} EXECUTE {function}")


def _execute(statement: str) -> None:
    op.execute(sa.DDL(statement.replace("%", "%%")))


def downgrade() -> None:
    texts = Texts(op.get_bind().dialect.name)
    for name, table, *_ in triggers(texts):
        op.execute(f"DROP TRIGGER node_search_{name}" + ("" if texts.on_sqlite else f" ON {table}"))
        if not texts.on_sqlite:
            op.execute(f"DROP FUNCTION node_search_{name}()")
    op.drop_table("node_search")
