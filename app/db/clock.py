"""
The database's clock, as SQL expressions and as a time.

All times are naive UTC, and all stored ones are of this clock: the clocks of the hosts may differ,
and be set. Durations within a process are of its monotonic clock.
"""

import time
from datetime import UTC, datetime, timedelta

from sqlalchemy import DateTime, Float, ScalarSelect, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.functions import FunctionElement

from app.db.dialect_texts import declare_texts
from app.db.prepared import Prepared
from app.db.transactions import connection_of


class now(FunctionElement[datetime]):  # noqa: N801 - reads as SQL
    """Time of the database's clock at the execution of the statement."""

    type = DateTime()
    inherit_cache = True


class after(FunctionElement[datetime]):  # noqa: N801 - reads as SQL
    """`now()` plus a number of seconds."""

    type = DateTime()
    inherit_cache = True


def fixed(time: FunctionElement[datetime]) -> ScalarSelect[datetime]:
    """Return a time that a statement computes once, so that a comparison with it uses an index."""
    return select(time).scalar_subquery()


class age(FunctionElement[float]):  # noqa: N801 - reads as SQL
    """Seconds between a time and `now()`."""

    type = Float()
    inherit_cache = True


#: Key in `Session.info`: time of the database, and monotonic time of its reading.
_READ = "clock"

#: SQLite's clock has milliseconds. The last digit makes every time have a fraction in ISO format.
_SQLITE_TIME = "%Y-%m-%d %H:%M:%f001"


declare_texts(
    now,
    sqlite=f"strftime('{_SQLITE_TIME}', 'now')",
    postgresql="(clock_timestamp() AT TIME ZONE 'utc')",
)
declare_texts(
    after,
    sqlite=f"strftime('{_SQLITE_TIME}', 'now', printf('%.6f seconds', {{0}}))",
    postgresql="(clock_timestamp() AT TIME ZONE 'utc' + ({0}) * interval '1 second')",
)
declare_texts(
    age,
    sqlite="((julianday('now') - julianday({0})) * 86400.0)",
    postgresql="extract(epoch FROM clock_timestamp() AT TIME ZONE 'utc' - {0})",
)

_NOW = Prepared(select(now()))


def moment(session: Session) -> datetime:
    """
    Return the database's time, for code that needs more than an expression.

    Its first call in a session, that is in a transaction, asks the database. The monotonic clock
    advances it.
    """
    if _READ not in session.info:
        ((read,),) = _NOW.all(connection_of(session), {})
        session.info[_READ] = read, time.monotonic()
    read, began = session.info[_READ]
    return read + timedelta(seconds=time.monotonic() - began)  # type: ignore[no-any-return]


def utcnow() -> datetime:
    """Return the time of this host's clock, to compare it with others; it decides nothing."""
    return datetime.now(UTC).replace(tzinfo=None)
