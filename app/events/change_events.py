"""
Numbering and reading of change events.

Transactions on PostgreSQL end in another order than they draw numbers from a sequence, so a reader
who remembers the last number would miss the events of a transaction that ends late. Therefore
committed events are numbered, by one process at a time: an event that is committed later gets a
higher number.
A change of a node follows an earlier one only after that one's transaction has ended, because the
node's row is locked; so numbering in the order of `id` keeps the order of each node's changes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, exists, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.db.prepared import Prepared
from app.errors import Invalid
from app.models import ChangeEvent
from app.observe import log
from app.runtime import Runtime

logger = log.get(__name__)
seldom = log.RateLimited(logger)

_EVENTS = ChangeEvent.__table__.c
#: Most events that one transaction numbers.
BATCH = 5_000
#: Key of PostgreSQL's advisory lock for numbering: "events" in ASCII.
LOCK = int.from_bytes(b"events")
#: Most milliseconds that a reader waits for a process that numbers: a stopped one keeps the lock.
PATIENCE = 1000

#: Most numbers that one query examines.
SPAN = 50_000
#: Columns of an event that readers get.
SHOWN = (
    "sequence", "created_at", "type", "node_uuid", "node_name", "resource_uuid", "resource_name",
    "operation_uuid", "operation_kind", "step", "before", "after",
)  # fmt: skip
ALL = select(*(_EVENTS[name] for name in SHOWN))

_ENDS = select(
    func.coalesce(func.min(_EVENTS.sequence), 0), func.coalesce(func.max(_EVENTS.sequence), 0)
)
_SOME_UNNUMBERED = select(_EVENTS.id).where(_EVENTS.sequence.is_(None)).limit(1)
_NEWS = Prepared(select(func.coalesce(func.max(_EVENTS.sequence), 0), exists(_SOME_UNNUMBERED)))


def document(row: Row[Any]) -> dict[str, Any]:
    """Return the document of an event that was read by `ALL`."""
    columns = row._mapping
    return {name: columns[name] for name in SHOWN}


def number(runtime: Runtime) -> None:
    """
    Number the committed events. SQLite's triggers have done so already: it has one writer.

    If the database accepts no writes, or the process that numbers does not end in time, readers get
    the events that were numbered before.
    """
    if runtime.engine.dialect.name == "sqlite":
        return
    with runtime.read_connection() as connection:
        if connection.scalar(_SOME_UNNUMBERED) is None:
            return
    try:
        while _number_batch(runtime) == BATCH:
            pass
    except DBAPIError as error:
        seldom.warning("change_events.not_numbered", error=str(error.orig))


def has_news(runtime: Runtime, last_number: int) -> bool:
    """
    Return whether there is a newer number than `last_number`, or events are not numbered yet.

    It is one statement, a fraction of the cost of `number` and `read`.
    """
    with runtime.read_connection() as connection:
        newest, some_unnumbered = _NEWS.first(connection, {}) or (0, False)
    return bool(newest != last_number or some_unnumbered)


def newest(runtime: Runtime) -> int:
    """Number the committed events, and return the newest number, or 0 without any event."""
    number(runtime)
    with runtime.read_connection() as connection:
        return ends(connection)[1]


def _number_batch(runtime: Runtime) -> int:
    with runtime.write_connection() as connection:
        # the next statement must see all that earlier holders of the lock have numbered
        patience = func.set_config("lock_timeout", str(PATIENCE), True)
        connection.execute(select(patience, func.pg_advisory_xact_lock(LOCK)))
        oldest = (
            select(_EVENTS.id, func.row_number().over(order_by=_EVENTS.id).label("place"))
            .where(_EVENTS.id.in_(
                select(_EVENTS.id)
                .where(_EVENTS.sequence.is_(None))
                .order_by(_EVENTS.id)
                .limit(BATCH)
            ))
            .subquery()
        )  # fmt: skip
        newest = select(func.coalesce(func.max(_EVENTS.sequence), 0)).scalar_subquery()
        numbered = (
            update(ChangeEvent)
            .where(ChangeEvent.id == oldest.c.id)
            .values(sequence=newest + oldest.c.place)
        )
        return connection.execute(numbered).rowcount


def ends(connection: Connection | Session) -> tuple[int, int]:
    """Return the oldest and the newest number that are kept; both are 0 without any event."""
    oldest, newest = connection.execute(_ENDS).one()
    return int(oldest), int(newest)


class Found(NamedTuple):
    """Events, and where to continue; true if there are any."""

    rows: Sequence[Row[Any]]
    first: int  # oldest number that is kept, or 0 without any event
    last: int  # all events up to this number were examined

    def __bool__(self) -> bool:
        return bool(self.rows)


def read(
    connection: Connection,
    query: Select[Any],
    sequence: int | None,
    limit: int,
    *,
    of_node: bool = False,
) -> Found:
    """
    Return at most `limit` events of a query, the oldest first.

    sequence: return the events that follow this number, the newest by default. At most `SPAN`
    numbers are examined, so that a query that few events match is short. of_node: the query selects
    one node, so that an index finds its events, and all numbers are examined.

    Raises Invalid: `sequence` is higher than the newest number.
    """
    oldest, newest = ends(connection)
    if sequence is not None and sequence > newest:
        raise Invalid(
            f"after: there is no event {sequence} yet, the newest is {newest}. If the database was"
            " restored from a backup, read all nodes again, and continue after the newest event."
        )
    low = max(newest - SPAN, 0) if sequence is None else max(sequence, oldest - 1)
    high = newest if of_node else min(newest, low + SPAN)
    range_query = query.where(_EVENTS.sequence <= high)
    if sequence is None:
        if not of_node:
            range_query = range_query.where(_EVENTS.sequence > low)
        newest_first = range_query.order_by(_EVENTS.sequence.desc()).limit(limit)
        return Found(connection.execute(newest_first).all()[::-1], oldest, high)
    following = range_query.where(_EVENTS.sequence > low).order_by(_EVENTS.sequence).limit(limit)
    rows = connection.execute(following).all()
    return Found(rows, oldest, rows[-1].sequence if len(rows) == limit else high)
