"""Databases of Ironic 39, from a recording of one that its own code has filled."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "integration" / "ironic_database" / "ironic-39.sql"


def recorded(path):
    """Create the recorded database, with nodes in each state."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(RECORDED.read_text())
    return path


def empty(path):
    """Create a database with Ironic's schema, and no rows."""
    script = re.sub(
        r'^INSERT INTO "(?!alembic_version).*\n', "", RECORDED.read_text(), flags=re.MULTILINE
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def change(path, *statements):
    """Execute statements in a transaction."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def rows(path, table, columns="*", where="1"):
    """Return rows as dictionaries, in the order of their ids."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        query = f"SELECT {columns} FROM {table} WHERE {where} ORDER BY 1"
        return [dict(row) for row in connection.execute(query)]
