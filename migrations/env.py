"""Alembic's environment: run migrations under a lock, one transaction per migration."""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import context
from sqlalchemy import Connection, Engine, event, text

from app import models
from app.db import sqlite
from app.db.connections import connect

#: Key of the PostgreSQL advisory lock that serializes concurrent upgrades.
LOCK = 0x1A607


@contextmanager
def _upgrade_lock(engine: Engine) -> Iterator[None]:
    """
    Hold the lock of upgrades on PostgreSQL.

    In a transaction of its own connection: behind a pooler, the transactions of a connection may be
    in different sessions.
    """
    if engine.dialect.name != "postgresql":
        yield
        return
    with engine.connect() as connection, connection.begin():
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        yield


def _limit_waits(connection: Connection) -> None:
    connection.exec_driver_sql("SET LOCAL lock_timeout = '30s'")


def run() -> None:
    engine = connect(context.config.attributes["url"], statement_timeout=0)
    if engine.dialect.name == "postgresql":
        event.listen(engine, "begin", _limit_waits)
    # on SQLite: between two transactions another upgrade could begin
    with sqlite.writer_lock(engine), _upgrade_lock(engine), engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=models.Base.metadata,
            render_as_batch=True,
            transaction_per_migration=True,
            compare_type=True,
        )
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()
    engine.dispose()


run()
