"""
Encryption of secrets in rows that were written before there was a data key.

One pass over each table, in batches. Its progress is committed with each batch, so that another
conductor continues after a crash. A row that changes meanwhile is left alone: its writer encrypts.
"""

import time

import orjson
from sqlalchemy import Connection, Table, Text, cast, func, insert, select, type_coerce, update

from app import killpoints, log
from app.db.clock import age
from app.db.prepared import Prepared
from app.db.sealing import REFRESH, SealedText, has_open_secret, has_sealed, keyring_of
from app.kit import data_keys
from app.models import DataKey, SealedTable
from app.runtime import Runtime

logger = log.get(__name__)

BATCH = 200
#: Seconds after which a run ends; the next one continues.
MOST = 20.0

_STARTED = Prepared(select(func.max(age(DataKey.created_at))))
_DONE = Prepared(select(SealedTable.name).where(SealedTable.done))


def seal_older_rows(runtime: Runtime) -> int:
    """Encrypt open secrets of older rows; return how many rows were written."""
    with runtime.read_connection() as connection:
        # processes that have not read the first data key yet still write open secrets
        (started,) = _STARTED.first(connection, {}) or (None,)
        done = {name for (name,) in _DONE.all(connection, {})}
    if started is None or started < 2 * REFRESH or not keyring_of(runtime.engine.dialect).seals:
        return 0
    end, written = time.monotonic() + MOST, 0
    for table in data_keys.tables():
        more = table.name not in done
        while more and time.monotonic() < end:
            with runtime.write_connection() as connection:
                count, more = _seal_batch(connection, table)
            written += count
    if written:
        logger.info("secrets.encrypted", rows=written)
    return written


def _seal_batch(connection: Connection, table: Table) -> tuple[int, bool]:
    """Encrypt the next rows of a table; return how many were written, and whether more remain."""
    progress = _progress(connection, table)
    (key,) = table.primary_key
    columns = data_keys.secret_columns(table)
    texts = [
        type_coerce(each, Text) if isinstance(each.type, SealedText) else cast(each, Text)
        for each in columns
    ]
    query = select(key, *texts).where(key > progress).order_by(key).limit(BATCH)
    found = connection.execute(query).all()
    written = 0
    for ident, *values in found:
        change, unchanged = {}, []
        for column, text, value in zip(columns, texts, values, strict=True):
            if value is None:
                continue
            if isinstance(column.type, SealedText):
                plain = None if has_sealed(value) else value
            else:
                document = orjson.loads(value)
                plain = document if has_open_secret(document) else None
            if plain is not None:
                change[column.name] = plain
                unchanged.append(text == value)
        if change:
            # opened first, as a document may have sealed secrets beside open ones
            opened = {
                name: keyring_of(connection.dialect).opened(each) for name, each in change.items()
            }
            query_ = update(table).where(key == ident, *unchanged).values(**opened)
            written += connection.execute(query_).rowcount
    done = len(found) < BATCH
    last = found[-1][0] if found else progress
    connection.execute(
        update(SealedTable).where(SealedTable.name == table.name).values(last=last, done=done)
    )
    killpoints.reach("sealed", table.name)
    return written, not done


def _progress(connection: Connection, table: Table) -> int:
    """Return the last primary key of the pass, and lock its row; begin a pass if there is none."""
    query = select(SealedTable.last).where(SealedTable.name == table.name).with_for_update()
    last = connection.scalar(query)
    if last is None:
        connection.execute(insert(SealedTable).values(name=table.name, last=0, done=False))
        return 0
    return int(last)
