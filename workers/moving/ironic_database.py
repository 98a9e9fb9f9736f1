"""
Ironic's database: MariaDB, PostgreSQL or SQLite, of Ironic 39 or an older release.

Tables are read by the columns that they have, as releases differ in them; documents stay JSON text.
Only a database that is opened for an export is written.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, MetaData, Table, create_engine, select, text
from sqlalchemy.exc import ArgumentError, DataError, IntegrityError, SQLAlchemyError

from app.config import ironic_conf
from app.config.settings import SettingsError
from app.db.diagnosis import reason
from app.db.url import engine_url
from app.text.masking import mask_urls

Row = Mapping[str, Any]

#: Scheme of a URL, without its driver -> driver of this service; the clock's time in UTC.
DRIVERS: Mapping[str, tuple[str, str]] = {
    "sqlite": ("sqlite", "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')"),
    "postgresql": ("postgresql+psycopg", "SELECT clock_timestamp() AT TIME ZONE 'utc'"),
    "mysql": ("mysql+pymysql", "SELECT UTC_TIMESTAMP(6)"),
    "mariadb": ("mariadb+pymysql", "SELECT UTC_TIMESTAMP(6)"),
}
#: Seconds after its last heartbeat in which a conductor of Ironic counts as running: the default of
#: Ironic's `[conductor]heartbeat_timeout`, six heartbeats.
RUNNING = 60.0
_READ_ONLY = "SET TRANSACTION READ ONLY"
#: (database, whether it is written) -> first statement of the session. In its lax modes MySQL cuts
#: texts that are too long, and only warns.
_SESSION: Mapping[tuple[str, bool], str] = {
    ("postgresql", False): _READ_ONLY,
    ("mysql", False): _READ_ONLY,
    ("mariadb", False): _READ_ONLY,
    ("sqlite", True): "PRAGMA foreign_keys = ON",
    ("mysql", True): "SET SESSION sql_mode = 'TRADITIONAL'",
    ("mariadb", True): "SET SESSION sql_mode = 'TRADITIONAL'",
}
#: Tables without which a database is none of Ironic.
_NEEDED = ("nodes", "ports", "conductors", "conductor_hardware_interfaces")


class NotIronic(Exception):
    """The database cannot be read, or is none of Ironic. The message is one line."""


def connection_of(source: str) -> str:
    """
    Return the URL of a database: the source itself, or `[database]connection` of an ironic.conf.

    Raises SettingsError: the file is not readable, or lacks the option.
    """
    if not ironic_conf.is_ironic(Path(source)):
        return source
    try:
        values = ironic_conf.read(Path(source))
        ironic_conf.rename(values)
        url = ironic_conf.interpolated("database.connection", values, {})
    except KeyError:
        url = None
    except OSError as error:
        raise SettingsError(f"{source}: {error.strerror}") from None
    except ironic_conf.NotReadable as error:
        raise SettingsError(f"{source}: {error}") from None
    if not url:
        raise SettingsError(f"{source}: there is no [database]connection")
    return url


class IronicDatabase:
    def __init__(self, connection: Connection, address: str) -> None:
        self._connection = connection
        self._address = address  # URL without password

    def running(self) -> Sequence[str]:
        """Return the names of conductors that are online, by the database's clock."""
        _, clock = DRIVERS[self._connection.dialect.name]
        with _readable(self._address):
            now = self._connection.execute(text(clock)).scalar_one()
        now = datetime.fromisoformat(now) if isinstance(now, str) else now
        conductors = self._tables["conductors"]
        return sorted(
            row["hostname"]
            for row in self.rows("conductors", conductors.c.online.is_(True))
            if row["updated_at"] and (now - row["updated_at"]).total_seconds() < RUNNING
        )

    def rows(self, name: str, *conditions: Any) -> Sequence[Row]:
        """Return the rows of a table in their order; none, if this release has no such table."""
        table = self._tables.get(name)
        if table is None:
            return ()
        order = [column for column in (table.c.get("id"), *table.primary_key) if column is not None]
        query = select(table).where(*conditions).order_by(*order)
        with _readable(self._address):
            return [dict(row) for row in self._connection.execute(query).mappings()]

    def of(self, name: str, **values: object) -> Sequence[Row]:
        """Return the rows of a table that have these values."""
        table = self._tables.get(name)
        if table is None:
            return ()
        return self.rows(name, *(table.c[column] == value for column, value in values.items()))

    def nodes(self) -> Iterator[Row]:
        """Yield the nodes, each read when its turn comes."""
        nodes = self._tables["nodes"]
        with _readable(self._address):
            idents = self._connection.scalars(select(nodes.c.id).order_by(nodes.c.id)).all()
        for ident in idents:
            yield from self.of("nodes", id=ident)

    def uuids(self, name: str, *conditions: Any) -> Sequence[str]:
        """Return the UUIDs of the rows of a table."""
        table = self._tables[name]
        with _readable(self._address):
            return self._connection.scalars(select(table.c.uuid).where(*conditions)).all()

    def table(self, name: str) -> Table:
        """Return a table with the columns that it has in this database."""
        return self._tables[name]

    @property
    def address(self) -> str:
        """URL without password."""
        return self._address

    def check_revision(self, revision: str, release: str) -> None:
        """Check the revision of the schema. Raises NotIronic: it is that of another release."""
        revisions = [row["version_num"] for row in self.rows("alembic_version")]
        if revisions != [revision]:
            raise NotIronic(
                f"{self._address}: its schema has revision {', '.join(revisions) or 'none'}, and an"
                f" export writes that of Ironic {release}, {revision}: install Ironic {release},"
                " and run `ironic-dbsync upgrade`"
            )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """
        Open a transaction that writes.

        Raises IntegrityError, DataError: the database refuses a row. Raises NotIronic.
        """
        try:
            yield self._connection
            self._connection.commit()
        except (IntegrityError, DataError):
            raise
        except SQLAlchemyError as error:
            raise NotIronic(f"{self._address}: {reason(error)}") from None
        finally:
            self._connection.rollback()

    @cached_property
    def _tables(self) -> Mapping[str, Table]:
        metadata = MetaData()
        with _readable(self._address):
            metadata.reflect(self._connection, resolve_fks=False)
        missing = [name for name in _NEEDED if name not in metadata.tables]
        if missing:
            raise NotIronic(f"{self._address}: no database of Ironic: it has no table {missing[0]}")
        return metadata.tables


@contextmanager
def opened(url: str, *, write: bool = False) -> Iterator[IronicDatabase]:
    """
    Open a database of Ironic, by default read only.

    Raises NotIronic.
    """
    address = mask_urls(url)
    try:
        engine = _engine(url, write=write)
    except (ValueError, ArgumentError) as error:
        raise NotIronic(f"{address}: {error}") from None
    except ModuleNotFoundError as error:
        raise NotIronic(f"{address}: it needs {error.name}: pip install {error.name}") from None
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        with _readable(address):
            connection = stack.enter_context(engine.connect())
            if statement := _SESSION.get((connection.dialect.name, write)):
                connection.execute(text(statement))
        yield IronicDatabase(connection, address)


@contextmanager
def _readable(address: str) -> Iterator[None]:
    """Raise NotIronic for errors of Ironic's database."""
    try:
        yield
    except SQLAlchemyError as error:
        raise NotIronic(f"{address}: {reason(error)}") from None


def _engine(url: str, *, write: bool) -> Engine:
    address = engine_url(url)
    scheme = address.drivername.partition("+")[0]
    if scheme not in DRIVERS:
        raise ValueError(f"{scheme} is none of {', '.join(DRIVERS)}")
    address = address.set(drivername=DRIVERS[scheme][0])
    if scheme == "sqlite":
        return create_engine("sqlite://", creator=lambda: _sqlite(address, write=write))
    return create_engine(address)


def _sqlite(address: URL, *, write: bool) -> sqlite3.Connection:
    path, mode = Path(address.database or "").absolute(), "rw" if write else "ro"
    return sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True)
