"""
PostgreSQL connections: transactions, timeouts, checks before use, and reconnection after an outage.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from sqlalchemy import Connection, Dialect, Engine, ExceptionContext, event, text
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from app.db.prepared import Prepared
from app.process.circuit_breaker import CircuitBreaker

#: Seconds after which the server ends an idle transaction, as it holds locks.
IDLE_IN_TRANSACTION = 10
#: Log events at the start and the end of an outage.
OUTAGE = ("database.unreachable", "database.reached_again")
#: Messages of servers and poolers that have no connection left. psycopg has no SQLSTATE for errors
#: of connecting.
TOO_MANY_CONNECTIONS = (
    "too many clients",
    "too many connections",
    "slots are reserved",
    "no more connections",
)
#: Seconds for a try to reach a server that was lost, so that it is found soon after its return.
PROBE_TIMEOUT = 2.0
#: Seconds within which a thread that has given up waiting for a statement waits for no connection:
#: its transaction is retried in the same request.
SAME_REQUEST = 3.0
#: Seconds after its use during which a connection is used again without a check.
FRESH = 1.0
USED = "used"
#: Arguments of psycopg by name.
Options = dict[str, Any]


def prepare(engine: Engine, connect_timeout: float, statement_timeout: float) -> None:
    """
    Set up a PostgreSQL engine.

    Connecting, and each statement, takes at most these seconds, even if the server or the network
    hangs. A thread that has waited for a statement in vain does not wait for a connection, too.
    """
    server = _Server(connect_timeout, statement_timeout)
    event.listen(engine, "do_connect", server.connect)
    event.listen(engine, "begin", server.begin)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", server.check)
    event.listen(engine, "handle_error", _disconnect_if_read_only)


class LimitedConnection(psycopg.Connection[Any]):
    """Closes itself if the server does not answer in time."""

    #: Seconds for an answer, or None without a limit.
    patience: float | None = None
    #: Called when the server has not answered in time.
    gave_up: Callable[[], None] = staticmethod(lambda: None)

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, timeout or self.patience)
        except psycopg.errors._WaitTimeout:
            self.close()
            self.gave_up()
            raise psycopg.OperationalError("the server does not answer") from None


class _Server:
    """The server of an engine: how it is connected to, checked, and waited for."""

    def __init__(self, connect_timeout: float, statement_timeout: float) -> None:
        self._connect_timeout = connect_timeout
        #: Seconds for a statement, or None without a limit.
        self._patience = statement_timeout + 1 if statement_timeout else None
        self._reach = CircuitBreaker(
            OUTAGE, (psycopg.Error,), psycopg.OperationalError, probe=self._probe
        )
        #: Arguments of the last attempt to connect: positional, named.
        self._last_arguments: tuple[list[str], Options] = ([], {})
        #: `at`: monotonic time at which this thread has last waited for a statement in vain.
        self._gave_up = threading.local()
        idle = IDLE_IN_TRANSACTION if statement_timeout else 0
        timeouts = {
            "statement_timeout": f"{statement_timeout * 1000:.0f}",
            "idle_in_transaction_session_timeout": f"{idle * 1000}",
        }
        settings = {
            **timeouts,
            # JIT compilation takes longer than any query of the service; the planner uses it even
            # for single rows as long as a new database's tables have no statistics
            "jit": "off",
            "datestyle": "ISO",
            "timezone": "UTC",
            "default_transaction_isolation": "'read committed'",
        }
        self._session_sql = "; ".join(f"SET {name} = {value}" for name, value in settings.items())
        local = (f"SET LOCAL {name} = {value}" for name, value in timeouts.items())
        self._pooled_begin = Prepared(text("BEGIN; " + "; ".join(local)))
        self._options: Options = {
            "autocommit": True,  # `begin` sends BEGIN, not psycopg
            "client_encoding": "UTF8",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": int(statement_timeout * 1000),
        }

    def connect(
        self,
        _dialect: Dialect,
        _record: ConnectionPoolEntry,
        arguments: list[str],
        parameters: Options,
    ) -> LimitedConnection:
        """
        Open a connection for the pool.

        Raises OperationalError: also at once, while the server is lost, or if this thread has just
        waited for a statement in vain.
        """
        if time.monotonic() - getattr(self._gave_up, "at", -math.inf) < SAME_REQUEST:
            raise psycopg.OperationalError("the server did not answer a moment ago")
        self._last_arguments = (arguments, parameters)
        with self._reach.guard():
            return self._open(arguments, parameters, self._connect_timeout)

    def _probe(self) -> None:
        self._open(*self._last_arguments, PROBE_TIMEOUT).close()

    def _open(self, arguments: list[str], parameters: Options, seconds: float) -> LimitedConnection:
        """Connect, and prepare the session. The hosts of the URL share the seconds."""
        hosts = str(parameters.get("host") or parameters.get("hostaddr") or "").count(",") + 1
        limit = {"connect_timeout": max(round(seconds / hosts), 1)}
        try:
            connection = LimitedConnection.connect(*arguments, **self._options | limit | parameters)
        except psycopg.OperationalError as error:
            if any(words in str(error) for words in TOO_MANY_CONNECTIONS):
                raise psycopg.errors.TooManyConnections(str(error)) from None
            raise
        connection.patience = seconds
        _check_encoding(connection)
        if _is_pooled(connection):
            connection.prepare_threshold = None
        else:
            connection.execute(self._session_sql)
        self._allow_statements(connection)
        return connection

    def _allow_statements(self, connection: LimitedConnection) -> None:
        """Wait for each answer for as long as a statement may take."""
        connection.patience = self._patience
        connection.gave_up = self._note_giving_up

    def _note_giving_up(self) -> None:
        self._gave_up.at = time.monotonic()

    def begin(self, connection: Connection) -> None:
        """
        Begin a writing transaction; a read needs none, see `transactions.read_connection`.

        To switch psycopg's autocommit for each read instead takes as long as a round trip.
        """
        if connection.get_execution_options().get("writes", True):
            driver_connection = connection.connection.driver_connection
            assert driver_connection is not None
            pooled = driver_connection.prepare_threshold is None
            (self._pooled_begin if pooled else _BEGIN).count(connection, {})

    def check(
        self,
        connection: LimitedConnection,
        record: ConnectionPoolEntry,
        _proxy: PoolProxiedConnection,
    ) -> None:
        """
        Check a connection before use, unless it was in use within the last `FRESH` seconds.

        SQLAlchemy's `pool_pre_ping` checks before each use, a round trip that costs as much as a
        small transaction. A connection that breaks within `FRESH` seconds fails its first
        statement, as does one that breaks after a check.

        Raises DisconnectionError: the connection is lost; the pool opens another one.
        """
        if time.monotonic() - record.info.get(USED, time.monotonic()) < FRESH:
            return
        try:
            if not connection.closed:
                # an answer takes no longer than a new connection, which is opened otherwise
                connection.patience = self._connect_timeout
                connection.gave_up = LimitedConnection.gave_up
                connection.execute("")
                self._allow_statements(connection)
                return
        except psycopg.Error:
            pass
        raise DisconnectionError


_BEGIN = Prepared(text("BEGIN"))


def _check_encoding(connection: LimitedConnection) -> None:
    """Raise OperationalError: the database cannot store all texts."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise psycopg.OperationalError(
            f"the database has the encoding {encoding}; Ingot needs UTF8: create it with"
            " ENCODING 'UTF8' TEMPLATE template0"
        )


def _is_pooled(connection: LimitedConnection) -> bool:
    """
    Whether a pooler is between this process and the server, such as PgBouncer.

    A pooler may give each transaction another session of the server, so a prepared statement, or a
    setting of the session, may belong to another process. The pooler itself chooses the key by
    which a client cancels a statement, of which the server's contains its process.
    """
    (pid,) = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone() or (None,)
    return bool(pid != connection.info.backend_pid)


def _note_use(_connection: LimitedConnection, record: ConnectionPoolEntry) -> None:
    record.info[USED] = time.monotonic()


def _disconnect_if_read_only(context: ExceptionContext) -> None:
    """Reconnect after an error of a read-only server: after a failover another one is primary."""
    if getattr(context.original_exception, "sqlstate", None) == "25006":
        context.is_disconnect = True
