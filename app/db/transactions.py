"""
Database transactions: for reading or writing, with a session or without, and their retries.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.db import sqlite
from app.db.diagnosis import RETRIED_SQLSTATES

T = TypeVar("T")


AFTER_COMMIT = "after_commit"


@contextmanager
def write_connection(engine: Engine) -> Iterator[Connection]:
    """A writing transaction without a session, at half the cost: for the most frequent writes."""
    with sqlite.writer_lock(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """
    A writing transaction with a session, which is flushed at the end only.

    Functions passed to `call_after_commit` run after the commit. Other code within the transaction
    must have no effects outside the database, because `retrying` may repeat it.
    """
    with (
        write_connection(engine) as connection,
        Session(connection, expire_on_commit=False, autoflush=False) as session,
    ):
        yield session
        session.flush()
    for call in session.info.pop(AFTER_COMMIT, ()):
        call()


@contextmanager
def read_connection(engine: Engine) -> Iterator[Connection]:
    """
    A read-only transaction without a session: for the most frequent queries.

    On PostgreSQL each statement is a transaction: under READ COMMITTED each has a snapshot of its
    own anyway, and BEGIN and ROLLBACK would be two more round trips.
    """
    with engine.connect().execution_options(writes=False) as connection:
        if engine.dialect.name == "sqlite":
            connection.begin()  # all statements see one snapshot; rolled back at the end
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A read-only transaction with a session."""
    with (
        read_connection(engine) as connection,
        Session(connection, expire_on_commit=False) as session,
    ):
        yield session


def connection_of(session: Session) -> Connection:
    """Return the connection of a session of this module, for statements outside the ORM."""
    connection = session.bind
    assert isinstance(connection, Connection)
    return connection


def call_after_commit(session: Session, call: Callable[[], None]) -> None:
    """Run `call` after the commit of the session's transaction; not after a rollback."""
    session.info.setdefault(AFTER_COMMIT, []).append(call)


def retrying(work: Callable[[], T], attempts: int = 5) -> T:
    """Run a transaction; retry it after a deadlock, serialization failure or lost connection."""
    for attempt in range(1, attempts + 1):
        try:
            return work()
        except DBAPIError as error:
            if attempt == attempts or not _is_retryable(error):
                raise
            time.sleep(0.05 * 2**attempt * random.random())  # noqa: S311 - jitter
    raise AssertionError("unreachable")


def _is_retryable(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    return getattr(error.orig, "sqlstate", None) in RETRIED_SQLSTATES
