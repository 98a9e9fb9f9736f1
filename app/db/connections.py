"""
Connections to SQLite and PostgreSQL: engines, set up as the service needs them.
"""

from typing import Any

import orjson
from sqlalchemy import Engine, create_engine

from app.db import sqlite


def connect(
    url: str,
    *,
    max_pool_size: int = 5,
    max_overflow: int = 5,
    pool_timeout: float = 30,
    busy_timeout: float = 10,
    connect_timeout: float = 5,
    statement_timeout: float = 15,
) -> Engine:
    """
    An engine for a SQLite or PostgreSQL URL, set up as the service needs it.

    The limits are those of the group [database]; of a SQLite file, only `busy_timeout` matters.
    """
    options: dict[str, Any] = {
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": orjson.loads,
    }
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": busy_timeout}, **options)
        sqlite.prepare(engine, busy_timeout)
        return engine
    from app.db import postgresql  # needs psycopg, which SQLite does not

    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://", 1),
        pool_size=max_pool_size,
        max_overflow=max_overflow,
        pool_timeout=pool_timeout,
        pool_use_lifo=True,  # the plans of a connection that is used often are made already
        **options,
    )
    postgresql.never_wait_for_ever(engine, connect_timeout, statement_timeout)
    return engine
