"""
The database's clock as SQL expressions, and this host's clock.

All times are naive UTC. Deadlines and liveness are decided by `now()`, the database's clock: the
clocks of the hosts may differ. This host's clock is only for times that are displayed.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Float, ScalarSelect, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


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


#: SQLite's clock has milliseconds. The last digit makes every time have a fraction in ISO format.
_SQLITE_TIME = "%Y-%m-%d %H:%M:%f001"


@compiles(now, "sqlite")
def _now_sqlite(_element: now, _compiler: Any, **_kw: Any) -> str:
    return f"strftime('{_SQLITE_TIME}', 'now')"


@compiles(now, "postgresql")
def _now_postgresql(_element: now, _compiler: Any, **_kw: Any) -> str:
    return "(clock_timestamp() AT TIME ZONE 'utc')"


@compiles(after, "sqlite")
def _after_sqlite(element: after, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"strftime('{_SQLITE_TIME}', 'now', printf('%.6f seconds', {seconds}))"


@compiles(after, "postgresql")
def _after_postgresql(element: after, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"(clock_timestamp() AT TIME ZONE 'utc' + ({seconds}) * interval '1 second')"


@compiles(age, "sqlite")
def _age_sqlite(element: age, compiler: Any, **kw: Any) -> str:
    then = compiler.process(element.clauses, **kw)
    return f"((julianday('now') - julianday({then})) * 86400.0)"


@compiles(age, "postgresql")
def _age_postgresql(element: age, compiler: Any, **kw: Any) -> str:
    then = compiler.process(element.clauses, **kw)
    return f"extract(epoch FROM clock_timestamp() AT TIME ZONE 'utc' - {then})"


def utcnow() -> datetime:
    """Time of this host's clock, for times that are only displayed."""
    return datetime.now(UTC).replace(tzinfo=None)
