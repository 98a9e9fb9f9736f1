"""Alembic's environment: run migrations under a lock, one transaction per migration."""

from alembic import context
from sqlalchemy import text

from app import models
from app.db import sqlite
from app.db.connections import connect

#: Key of the PostgreSQL advisory lock that serializes concurrent upgrades.
LOCK = 0x1A607


def run() -> None:
    engine = connect(context.config.attributes["url"], statement_timeout=0)
    # on SQLite: between two transactions another upgrade could begin
    with sqlite.writer_lock(engine), engine.connect() as connection:
        postgresql = connection.dialect.name == "postgresql"
        if postgresql:
            connection.execute(text("SET lock_timeout = '30s'"))
            connection.execute(text(f"SELECT pg_advisory_lock({LOCK})"))
            connection.commit()
        context.configure(
            connection=connection,
            target_metadata=models.Base.metadata,
            render_as_batch=True,
            transaction_per_migration=True,
            compare_type=True,
        )
        with context.begin_transaction():
            context.run_migrations()
        if postgresql:
            connection.execute(text(f"SELECT pg_advisory_unlock({LOCK})"))
        connection.commit()
    engine.dispose()


run()
