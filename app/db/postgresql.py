"""
A PostgreSQL server, and the way to it: what its clients do not wait for.
"""

import time
from typing import Any

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

from app.kit.reach import Reach

#: A transaction that is left open for so many seconds is the server's to end: it has locks.
IDLE_IN_TRANSACTION = 10
#: How the log tells of an outage.
OUTAGE = ("database.unreachable", "database.reached_again")
#: How a server, or a pooler before it, says to who connects that it has too many connections. The
#: SQLSTATE is lost there.
CROWDED = ("too many clients", "too many connections", "slots are reserved", "no more connections")
#: Seconds for which a connection that was in use is not checked before it is used again.
FRESH = 1.0
USED = "used"


def never_wait_for_ever(engine: Engine, connect_timeout: float, statement_timeout: float) -> None:
    """Whatever becomes of a PostgreSQL server or of the way to it, its clients are told in time."""

    class Patient(psycopg.Connection[Any]):
        """The server gives up a statement in time; if it is silent, then so is this end."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            if statement_timeout:
                timeout = timeout or statement_timeout + 1
            try:
                return super().wait(gen, interval, timeout)
            except psycopg.errors._WaitTimeout:
                self.close()
                raise psycopg.OperationalError("the server does not answer") from None

    reach = Reach(OUTAGE, (psycopg.Error,), psycopg.OperationalError)
    limits = {
        "statement_timeout": statement_timeout,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION if statement_timeout else 0,
    }
    limits_sql = "; ".join(f"SET {name} = {int(value * 1000)}" for name, value in limits.items())
    # compiling a query takes longer than any of ours runs; without statistics of a new database's
    # tables the planner compiles even those that read one row
    limits_sql += "; SET jit = off"
    patience = {
        "connect_timeout": max(int(connect_timeout), 1),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(statement_timeout * 1000),
    }

    def reached(
        _dialect: Any, _record: Any, arguments: list[Any], named: dict[str, Any]
    ) -> psycopg.Connection[Any]:
        with reach.trying():
            try:
                connection = Patient.connect(*arguments, **patience | named)
            except psycopg.OperationalError as error:
                if any(words in str(error) for words in CROWDED):
                    raise psycopg.errors.TooManyConnections(str(error)) from None
                raise
            connection.execute(limits_sql)
            connection.commit()
        return connection

    event.listen(engine, "do_connect", reached)
    event.listen(engine, "checkin", _used)
    event.listen(engine, "checkout", _ping)
    event.listen(engine, "handle_error", _look_for_another)


def _used(_connection: Any, record: Any) -> None:
    record.info[USED] = time.monotonic()


def _ping(connection: Any, record: Any, _proxy: Any) -> None:
    """
    Check a connection before use, unless it was in use within the last `FRESH` seconds.

    SQLAlchemy's own check, before each use, is a round trip that costs as much as a small
    transaction. A connection that breaks within that time fails its first statement, as does one
    that breaks after a check.
    """
    if time.monotonic() - record.info.get(USED, time.monotonic()) < FRESH:
        return
    try:
        if not connection.closed:
            autocommit, connection.autocommit = connection.autocommit, True
            connection.execute("")
            connection.autocommit = autocommit
            return
    except psycopg.Error:
        pass
    raise DisconnectionError


def _look_for_another(context: Any) -> None:
    """A server that takes no writes may not be the one any more that does: connect anew."""
    if getattr(context.original_exception, "sqlstate", None) == "25006":
        context.is_disconnect = True
