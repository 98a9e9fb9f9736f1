"""
Create database engines for SQLite and PostgreSQL.
"""

from typing import Any

import orjson
from sqlalchemy import Engine, create_engine

from app.db import sqlite
from app.db.sealing import NO_KEYS, Keyring, use
from app.db.url import engine_url


def connect(
    url: str,
    *,
    max_pool_size: int = 5,
    max_overflow: int = 5,
    pool_timeout: float = 30,
    busy_timeout: float = 10,
    connect_timeout: float = 5,
    statement_timeout: float = 15,
    keyring: Keyring | None = None,
) -> Engine:
    """
    Create an engine with timeouts and JSON codec for a SQLite or PostgreSQL URL.

    The limits are the settings of group [database]. SQLite uses only `busy_timeout`. keyring: seals
    and opens secrets (`app.db.secret_columns`), which are otherwise written and read as they are.

    Raises ValueError: the URL is malformed.
    """
    options: dict[str, Any] = {
        "json_serializer": _json,
        "json_deserializer": orjson.loads,
    }
    address = engine_url(url)
    if address.get_backend_name() == "sqlite":
        engine = create_engine(address, connect_args={"timeout": busy_timeout}, **options)
        sqlite.prepare(engine, busy_timeout)
        use(engine.dialect, keyring or NO_KEYS)
        return engine
    from app.db import postgresql  # imports psycopg, which SQLite does not need

    engine = create_engine(
        address,
        pool_size=max_pool_size,
        max_overflow=max_overflow,
        pool_timeout=pool_timeout,
        pool_use_lifo=True,  # a recently used connection has its query plans cached
        **options,
    )
    postgresql.prepare(engine, connect_timeout, statement_timeout)
    use(engine.dialect, keyring or NO_KEYS)
    return engine


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
