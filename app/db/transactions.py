"""
Transactions: reading and writing, with a session or without, and retries of those that lost.
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
def writing(engine: Engine) -> Iterator[Connection]:
    """A writing transaction without a session: half the cost, for the few hottest statements."""
    with sqlite.gate(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """
    A writing transaction; what `call_after_commit` was given runs once it is committed.

    Nothing is flushed before the end, or before the caller says so.

    The caller may be repeated by `retrying`, so it must have no effect outside the database.
    """
    with (
        writing(engine) as connection,
        Session(connection, expire_on_commit=False, autoflush=False) as session,
    ):
        yield session
        session.flush()
    for call in session.info.pop(AFTER_COMMIT, ()):
        call()


@contextmanager
def looking(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads, without a session: for what is asked for all the time."""
    with engine.connect().execution_options(writes=False) as connection:
        connection.begin()  # and never committed: there is nothing to lose
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A transaction that only reads."""
    with looking(engine) as connection, Session(connection, expire_on_commit=False) as session:
        yield session


def connection_of(session: Session) -> Connection:
    """The connection of a session of ours, for statements that are run without it."""
    connection = session.bind
    assert isinstance(connection, Connection)
    return connection


def call_after_commit(session: Session, call: Callable[[], None]) -> None:
    """Run `call` when the transaction of `session` is committed; never if it is rolled back."""
    session.info.setdefault(AFTER_COMMIT, []).append(call)


def retrying(work: Callable[[], T], attempts: int = 5) -> T:
    """
    Run a transaction, again when the database gave up on it for another one's sake.

    Only a deadlock, a serialization failure or a lost connection is tried again.
    """
    for attempt in range(1, attempts + 1):
        try:
            return work()
        except DBAPIError as error:
            if attempt == attempts or not _worth_retrying(error):
                raise
            time.sleep(0.05 * 2**attempt * random.random())  # noqa: S311 - spreads retries
    raise AssertionError("unreachable")


def _worth_retrying(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    return getattr(error.orig, "sqlstate", None) in RETRIED_SQLSTATES
