"""
Create database engines for SQLite and PostgreSQL.
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
    Create an engine with timeouts and JSON codec for a SQLite or PostgreSQL URL.

    The limits are the settings of group [database]. SQLite uses only `busy_timeout`.
    """
    options: dict[str, Any] = {
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": orjson.loads,
    }
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": busy_timeout}, **options)
        sqlite.prepare(engine, busy_timeout)
        return engine
    from app.db import postgresql  # imports psycopg, which SQLite does not need

    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://", 1),
        pool_size=max_pool_size,
        max_overflow=max_overflow,
        pool_timeout=pool_timeout,
        pool_use_lifo=True,  # a recently used connection has its query plans cached
        **options,
    )
    postgresql.set_timeouts(engine, connect_timeout, statement_timeout)
    return engine
