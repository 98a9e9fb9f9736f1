"""
Data keys: opening them with the master keys at start, creation, rotation, status.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Integer, Table, delete, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from app.config.settings import Database, SettingsError
from app.db import connections, transactions
from app.db.master_keys import DataKeyRow, Master, WrongKey, masters_of, unwrapped
from app.db.sealing import Keyring
from app.db.secret_columns import is_secret
from app.models import Base, DataKey, Node, SealedTable


def keyring(database: Database) -> Keyring:
    """
    Return the keyring for a database, with its data keys, if the database can be read.

    Raises SettingsError: the master keys are malformed, missing, or others than the database needs.
    """
    masters = _masters(database)
    ring = Keyring(masters, partial(_read, database))
    try:
        key_rows = _read(database)
        if key_rows and not masters:
            raise SettingsError(
                "[database]secrets_key_file is needed: secrets in this database are encrypted with"
                f" master key {key_rows[-1].master}"
            )
        if masters:
            ring.refresh()
    except WrongKey as error:
        raise SettingsError(f"[database]secrets_key_file: {error}") from None
    except SQLAlchemyError:  # unreachable, or without tables: the keys are read when it is used
        pass
    return ring


def _masters(database: Database) -> Sequence[Master]:
    path, text = database.secrets_key_file, database.secrets_key
    if path and text:
        raise SettingsError("[database]secrets_key_file and secrets_key exclude each other")
    try:
        if path:
            text = Path(path).read_text()
        return masters_of(text) if path or text else ()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"[database]secrets_key_file: {path}: {error}") from None
    except WrongKey as error:
        suffix = f"_file: {path}" if path else ""
        raise SettingsError(f"[database]secrets_key{suffix}: {error}") from None


def _read(database: Database) -> Sequence[DataKeyRow]:
    """
    Read the data keys by an engine of its own.

    The caller may be inside a transaction: if all connections of the process's engine are in use by
    such callers, each would wait for the others. A process reads the keys once a minute.
    """
    scheme, _, path = database.connection.partition(":///")
    if scheme == "sqlite" and not Path(path).exists():
        return ()
    engine = connections.connect(database.connection, **database.limits)
    try:
        with transactions.read_connection(engine) as connection:
            return rows(connection)
    finally:
        engine.dispose()


def rows(connection: Connection) -> Sequence[DataKeyRow]:
    """Return the data keys, the oldest first."""
    columns = (DataKey.id, DataKey.master, DataKey.wrapped, DataKey.bound)
    query = select(*columns).order_by(DataKey.position)
    return [DataKeyRow(*row) for row in connection.execute(query)]


def start(database: Database) -> None:
    """
    Create the first data key, if no process can run that lacks the master key.

    That is certain of SQLite, whose processes are started together, and of a database without
    nodes; elsewhere an operator starts the encryption by `rotate`.

    Raises SettingsError, SQLAlchemyError.
    """
    ring = keyring(database)
    if not ring.masters:
        return
    engine = connections.connect(database.connection, **database.limits)
    try:
        with transactions.write_connection(engine) as connection:
            local = engine.dialect.name == "sqlite"
            if rows(connection) or not (
                local or connection.scalar(select(Node.id).limit(1)) is None
            ):
                return
            _add(connection, ring.masters[0])
    finally:
        engine.dispose()


def rotate(connection: Connection, masters: Sequence[Master]) -> None:
    """
    Encrypt all data keys with the first master key, and add a data key, which encrypts from now on.

    If secrets in rows are not bound to their place yet, the pass over older rows restarts.

    Raises WrongKey: a data key cannot be decrypted.
    """
    key_rows = rows(connection)
    if not all(row.bound for row in key_rows):
        connection.execute(delete(SealedTable))
    for row in key_rows:
        again = masters[0].wrapped(row.id, unwrapped(masters, row))
        values = {"master": again.master, "wrapped": again.wrapped}
        connection.execute(update(DataKey).where(DataKey.id == row.id).values(**values))
    _add(connection, masters[0])


def _add(connection: Connection, master: Master) -> None:
    data_key = master.new_data_key()
    last_position = connection.scalar(select(func.max(DataKey.position))) or 0
    connection.execute(
        insert(DataKey).values(
            id=data_key.id,
            position=last_position + 1,
            master=data_key.master,
            wrapped=data_key.wrapped,
        )
    )


def status(connection: Connection, masters: Sequence[Master]) -> Mapping[str, Any]:
    """Describe keys, and tables whose older rows are not encrypted yet."""
    key_rows = rows(connection)
    sealed_tables = set(connection.scalars(select(SealedTable.name).where(SealedTable.done)))
    return {
        "master_keys": [master.name for master in masters],
        "data_keys": [
            {"id": key.id, "master_key": key.master, "bound": key.bound} for key in key_rows
        ],
        "tables_to_encrypt": [table.name for table in tables() if table.name not in sealed_tables],
    }


def tables() -> list[Table]:
    """Return the tables whose rows may have secrets."""
    return [
        table
        for table in Base.metadata.sorted_tables
        if len(table.primary_key) == 1
        and isinstance(next(iter(table.primary_key)).type, Integer)
        and secret_columns(table)
    ]


def secret_columns(table: Table) -> list[Column[Any]]:
    """Return the columns that are encrypted: documents, and texts that are secrets."""
    return [column for column in table.columns if is_secret(column)]
