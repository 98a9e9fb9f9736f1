"""
PostgreSQL connections: transactions, timeouts, checks before use, and reconnection after an outage.
"""

import time
from typing import Any

import psycopg
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DisconnectionError

from app.db.prepared import Prepared
from app.kit.reach import CircuitBreaker

#: Seconds after which the server ends an idle transaction, as it holds locks.
IDLE_IN_TRANSACTION = 10
#: Log events at the begin and the end of an outage.
OUTAGE = ("database.unreachable", "database.reached_again")
#: Messages of servers and poolers that have no connection left. psycopg has no SQLSTATE for errors
#: of connecting.
TOO_MANY_CONNECTIONS = (
    "too many clients",
    "too many connections",
    "slots are reserved",
    "no more connections",
)
#: Seconds after its use during which a connection is used again without a check.
FRESH = 1.0
USED = "used"


def prepare(engine: Engine, connect_timeout: float, statement_timeout: float) -> None:
    """
    Set up a PostgreSQL engine.

    Connecting, and each statement, takes at most these seconds, even if the server or the network
    hangs.
    """

    class LimitedConnection(psycopg.Connection[Any]):
        """Closes itself if the server does not end a statement at its timeout."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            if statement_timeout:
                timeout = timeout or statement_timeout + 1
            try:
                return super().wait(gen, interval, timeout)
            except psycopg.errors._WaitTimeout:
                self.close()
                raise psycopg.OperationalError("the server does not answer") from None

    reach = CircuitBreaker(OUTAGE, (psycopg.Error,), psycopg.OperationalError)
    limits = {
        "statement_timeout": statement_timeout,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION if statement_timeout else 0,
    }
    limits_sql = "; ".join(f"SET {name} = {int(value * 1000)}" for name, value in limits.items())
    # JIT compilation takes longer than any query of the service; the planner uses it even for
    # single rows as long as a new database's tables have no statistics
    limits_sql += "; SET jit = off; SET datestyle = ISO"
    options = {
        "autocommit": True,  # `_begin` sends BEGIN, not psycopg
        "connect_timeout": max(int(connect_timeout), 1),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(statement_timeout * 1000),
    }

    def connect(
        _dialect: Any, _record: Any, arguments: list[Any], named: dict[str, Any]
    ) -> psycopg.Connection[Any]:
        with reach.guard():
            try:
                connection = LimitedConnection.connect(*arguments, **options | named)
            except psycopg.OperationalError as error:
                if any(words in str(error) for words in TOO_MANY_CONNECTIONS):
                    raise psycopg.errors.TooManyConnections(str(error)) from None
                raise
            connection.execute(limits_sql)
        return connection

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", _ping)
    event.listen(engine, "handle_error", _disconnect_if_read_only)


_BEGIN = Prepared(text("BEGIN"))


def _begin(connection: Any) -> None:
    """
    Begin a writing transaction; a read needs none, see `transactions.read_connection`.

    To switch psycopg's autocommit for each read instead takes as long as a round trip.
    """
    if connection.get_execution_options().get("writes", True):
        _BEGIN.count(connection, {})


def _note_use(_connection: Any, record: Any) -> None:
    record.info[USED] = time.monotonic()


def _ping(connection: Any, record: Any, _proxy: Any) -> None:
    """
    Check a connection before use, unless it was in use within the last `FRESH` seconds.

    SQLAlchemy's `pool_pre_ping` checks before each use, a round trip that costs as much as a small
    transaction. A connection that breaks within `FRESH` seconds fails its first statement, as does
    one that breaks after a check.

    Raises DisconnectionError: the connection is lost; the pool opens another one.
    """
    if time.monotonic() - record.info.get(USED, time.monotonic()) < FRESH:
        return
    try:
        if not connection.closed:
            connection.execute("")
            return
    except psycopg.Error:
        pass
    raise DisconnectionError


def _disconnect_if_read_only(context: Any) -> None:
    """Reconnect after an error of a read-only server: after a failover another one is primary."""
    if getattr(context.original_exception, "sqlstate", None) == "25006":
        context.is_disconnect = True
