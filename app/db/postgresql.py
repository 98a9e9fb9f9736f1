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
    idle = IDLE_IN_TRANSACTION if statement_timeout else 0
    limits = {
        "statement_timeout": f"{statement_timeout * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{idle * 1000}",
    }
    settings = {
        **limits,
        # JIT compilation takes longer than any query of the service; the planner uses it even for
        # single rows as long as a new database's tables have no statistics
        "jit": "off",
        "datestyle": "ISO",
        "timezone": "UTC",
        "default_transaction_isolation": "'read committed'",
    }
    session_sql = "; ".join(f"SET {name} = {value}" for name, value in settings.items())
    pooled_begin = Prepared(
        text("BEGIN; " + "; ".join(f"SET LOCAL {name} = {value}" for name, value in limits.items()))
    )
    options: dict[str, Any] = {
        "autocommit": True,  # `begin` sends BEGIN, not psycopg
        "client_encoding": "UTF8",
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
            _check_encoding(connection)
            if _is_pooled(connection):
                connection.prepare_threshold = None
            else:
                connection.execute(session_sql)
        return connection

    def begin(connection: Any) -> None:
        """
        Begin a writing transaction; a read needs none, see `transactions.read_connection`.

        To switch psycopg's autocommit for each read instead takes as long as a round trip.
        """
        if connection.get_execution_options().get("writes", True):
            pooled = connection.connection.dbapi_connection.prepare_threshold is None
            (pooled_begin if pooled else _BEGIN).count(connection, {})

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "begin", begin)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", _ping)
    event.listen(engine, "handle_error", _disconnect_if_read_only)


_BEGIN = Prepared(text("BEGIN"))


def _check_encoding(connection: psycopg.Connection[Any]) -> None:
    """Raise OperationalError: the database cannot store all texts."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise psycopg.OperationalError(
            f"the database has the encoding {encoding}; Ingot needs UTF8: create it with"
            " ENCODING 'UTF8' TEMPLATE template0"
        )


def _is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """
    Whether a pooler is between this process and the server, such as PgBouncer.

    A pooler may give each transaction another session of the server, so a prepared statement, or a
    setting of the session, may be those of another process. The pooler itself chooses the key by
    which a client cancels a statement, of which the server's contains its process.
    """
    (pid,) = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone() or (None,)
    return bool(pid != connection.info.backend_pid)


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
