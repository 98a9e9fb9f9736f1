"""
Encryption of secrets in rows that were written before there was a data key, or before secrets were
bound to their place.

One pass over each table, in batches. Its progress is committed with each batch, so that another
conductor continues after a crash. A row that changes meanwhile is left alone: its writer encrypts.
After the last table no text is opened any more that is bound to no place.
"""

import time
from typing import Any

import orjson
from sqlalchemy import Column, Connection, Table, Text, cast, func, insert, select, update

from app.db.clock import age
from app.db.prepared import Prepared
from app.db.sealing import REFRESH, Place, is_text_to_seal, is_to_seal, keyring_of
from app.db.secret_columns import SealedText, at, place_of, row_columns
from app.models import DataKey, SealedTable
from app.observe import log
from app.process import kill_points
from app.rows import data_keys
from app.runtime import Runtime

logger = log.get(__name__)

BATCH = 200
#: Seconds after which a run ends; the next one continues.
MOST = 20.0

_STARTED = Prepared(select(func.max(age(DataKey.created_at))).where(DataKey.bound))
_UNBOUND = Prepared(select(DataKey.id).where(DataKey.bound.is_(False)).limit(1))
_ALL_BOUND = Prepared(update(DataKey).where(DataKey.bound.is_(False)).values(bound=True))
_DONE = Prepared(select(SealedTable.name).where(SealedTable.done))


def seal_older_rows(runtime: Runtime) -> int:
    """Encrypt and bind secrets of older rows; return how many rows were written."""
    with runtime.read_connection() as connection:
        # processes that have not read the first data key yet still write open secrets
        (started,) = _STARTED.first(connection, {}) or (None,)
        sealed_tables = {name for (name,) in _DONE.all(connection, {})}
        unbound = _UNBOUND.first(connection, {}) is not None
    if started is None or started < 2 * REFRESH or not keyring_of(runtime.engine.dialect).binds:
        return 0
    end, written_count, has_more = time.monotonic() + MOST, 0, False
    for table in data_keys.tables():
        has_more = table.name not in sealed_tables
        while has_more and time.monotonic() < end:
            with runtime.write_connection() as connection:
                count, has_more = _seal_batch(connection, table)
            written_count += count
        if has_more:  # the time is over
            break
    if unbound and not has_more:
        with runtime.write_connection() as connection:
            _ALL_BOUND.count(connection, {})
    if written_count:
        logger.info("secrets.encrypted", rows=written_count)
    return written_count


def _seal_batch(connection: Connection, table: Table) -> tuple[int, bool]:
    """Encrypt the next rows of a table; return how many were written, and whether more remain."""
    progress = _progress(connection, table)
    (key,) = table.primary_key
    columns = data_keys.secret_columns(table)
    texts = [cast(column, Text) for column in columns]
    row = [table.c[name] for name in row_columns(table)]
    query = select(key, *row, *texts).where(key > progress).order_by(key).limit(BATCH)
    rows = connection.execute(query).all()
    written_count = 0
    for ident, *values in rows:
        row_place = dict(zip(row_columns(table), values, strict=False))
        change, conditions = {}, []
        for column, text, value in zip(columns, texts, values[len(row) :], strict=True):
            if value is not None and _is_to_seal(column, value):
                change[column.key] = _opened(connection, column, value, place_of(column, row_place))
                conditions.append(text == value)
        if change:
            query_ = update(table).where(key == ident, *conditions).values(**change)
            written_count += connection.execute(query_).rowcount
    is_sealed = len(rows) < BATCH
    last_key = rows[-1][0] if rows else progress
    connection.execute(
        update(SealedTable)
        .where(SealedTable.name == table.name)
        .values(last=last_key, done=is_sealed)
    )
    kill_points.reach("sealed", table.name)
    return written_count, not is_sealed


def _is_to_seal(column: Column[Any], stored: str) -> bool:
    if isinstance(column.type, SealedText):
        return is_text_to_seal(stored)
    return is_to_seal(orjson.loads(stored))


def _opened(connection: Connection, column: Column[Any], stored: str, place: Place) -> Any:
    """Return a value to write; it may have both sealed and open secrets."""
    keyring = keyring_of(connection.dialect)
    if isinstance(column.type, SealedText):
        value: Any = keyring.opened_text(stored, place)
    else:
        value = keyring.loads(stored, place)
    return at(place, value)


def _progress(connection: Connection, table: Table) -> int:
    """Return the last primary key of the pass, and lock its row; start a pass if there is none."""
    query = select(SealedTable.last).where(SealedTable.name == table.name).with_for_update()
    last_key = connection.scalar(query)
    if last_key is None:
        connection.execute(insert(SealedTable).values(name=table.name, last=0, done=False))
        return 0
    return int(last_key)
