"""
Audit records: insertion, in the transaction of the recorded change where there is one.

A record has names, never values: the values of a request may be secret. All texts are printable and
cut to the length of their column, because callers choose many of them.
"""

import getpass
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    String,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from app.config.settings import Settings
from app.db.clock import after, age, fixed, now
from app.db.prepared import Prepared
from app.db.sealing import keyring_of
from app.models import AuditRecord, Outcome

Row = dict[str, Any]

#: Values of the column `auth` in records of commands that use the database directly, and in those
#: of refused requests of agents.
COMMAND, AGENT = "command", "agent"
#: Documents whose keys mean nothing to the service: few of their names are recorded, after all
#: other fields, so that no number of them hides another field.
FREE = ("extra", "network_data")
#: Most names of keys of these documents in the column `fields`, and characters of a name.
MOST_NAMES, LONGEST_NAME = 30, 100
#: Seconds after which a record without an outcome keeps none.
OPEN = 3600.0
#: Period of one record of equal refused requests of a node's agents, in seconds.
AGENT_PERIOD = 3600.0

_TABLE: Any = AuditRecord.__table__
_NAMES = tuple(column.name for column in _TABLE.c if column.name not in ("id", "created_at"))
#: Columns that equal refused requests of agents have in common; without a target, `address` too.
SAME_OF_AGENT = ("action", "status", "reason", "target")
#: Columns that change after the insertion, and in records of agents `requests`.
_CHANGED = ("outcome", "status", "mac")
#: Text column -> its length, or None without a limit.
_LONGEST = {
    name: _TABLE.c[name].type.length for name in _NAMES if isinstance(_TABLE.c[name].type, String)
}
_EMPTY: Mapping[str, Any] = {
    **dict.fromkeys(_NAMES),
    "outcome": Outcome.SUCCESS.value,
    "requests": 1,
}

#: Column -> its parameter in a statement.
_PARAMETERS = {name: f"new_{name}" for name in _NAMES}
_VALUES = {
    **{name: bindparam(parameter) for name, parameter in _PARAMETERS.items()},
    "created_at": now(),
}
_INSERT = Prepared(insert(_TABLE).values(_VALUES))
_INSERT_PENDING = Prepared(insert(_TABLE).values(_VALUES).returning(_TABLE.c.id))
_SETTLE = Prepared(
    update(_TABLE)
    .where(
        _TABLE.c.id == bindparam("row"),
        _TABLE.c.outcome == Outcome.PENDING,
        age(_TABLE.c.created_at) < OPEN,
    )
    .values(outcome=bindparam("new_outcome"), status=bindparam("new_status"))
)


def _new(name: str) -> BindParameter[Any]:
    return bindparam(f"new_{name}", type_=_TABLE.c[name].type)


def _is_same(name: str) -> ColumnElement[bool]:
    condition: ColumnElement[bool] = _TABLE.c[name].is_not_distinct_from(_new(name))
    return condition


_COUNT_AGENT = Prepared(
    update(_TABLE)
    .where(
        _TABLE.c.id
        == select(func.max(_TABLE.c.id))
        .where(
            _TABLE.c.auth == AGENT,
            _TABLE.c.created_at >= fixed(after(-AGENT_PERIOD)),
            *map(_is_same, SAME_OF_AGENT),
            or_(_new("target").is_not(None), _is_same("address")),
        )
        .scalar_subquery()
    )
    .values(requests=_TABLE.c.requests + bindparam("new_requests"))
)


def row(**values: Any) -> Row:
    """Build a record from values by column; texts are made printable and cut."""
    record = {**_EMPTY, **values}
    for name, text in values.items():
        if text and name in _LONGEST:
            record[name] = printable(text)[: _LONGEST[name]]
    return record


def printable(text: str) -> str:
    """Replace characters that are not printable, such as NUL, which databases refuse."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def listed(names: Iterable[str]) -> str | None:
    """
    Join names for a column. Returns None without any name.

    Names in `FREE` documents are the last ones, and few; none of the others is left out.
    """
    distinct = dict.fromkeys(name[:LONGEST_NAME].replace(",", "?") for name in names)
    fields = [name for name in distinct if name.partition("/")[0] not in FREE]
    free_fields = [name for name in distinct if name.partition("/")[0] in FREE]
    first_of = {name.partition("/")[0]: name for name in reversed(free_fields)}
    recorded_names = [
        *first_of.values(),
        *(name for name in free_fields if name not in first_of.values()),
    ]
    remainder = [f"+{len(recorded_names) - MOST_NAMES}"] if len(recorded_names) > MOST_NAMES else []
    return ",".join([*fields, *recorded_names[:MOST_NAMES], *remainder]) or None


def add(connection: Connection, record: Row) -> None:
    """Insert a record in the transaction of the connection."""
    _INSERT.count(connection, _named(connection, record))


def add_all(connection: Connection, records: Sequence[Row]) -> None:
    """Insert records; records of agents add to the record of their node, reason and hour."""
    other_records = [record for record in records if record["auth"] != AGENT]
    if other_records:
        _INSERT.many(connection, [_named(connection, record) for record in other_records])
    for record in records:
        if record["auth"] == AGENT and not _add_to(connection, record):
            add(connection, record)


def _add_to(connection: Connection, record: Row) -> bool:
    """Add the requests of agents to an equal record; return whether there is one."""
    values = {name: record[name] for name in (*SAME_OF_AGENT, "address", "requests")}
    return bool(_COUNT_AGENT.count(connection, {f"new_{name}": values[name] for name in values}))


def signed(record: Mapping[str, Any]) -> bytes:
    """Return the bytes of a record that its HMAC is made of."""
    unsigned = (*_CHANGED, "requests") if record["auth"] == AGENT else _CHANGED
    return orjson.dumps([record[name] for name in _NAMES if name not in unsigned])


def announce(connection: Connection, record: Row) -> int:
    """Insert a record whose outcome is not known yet, and return its id for `settle`."""
    pending = {**record, "outcome": Outcome.PENDING.value}
    inserted_row = _INSERT_PENDING.first(connection, _named(connection, pending))
    assert inserted_row is not None
    return int(inserted_row[0])


def settle(connection: Connection, record: int, outcome: Outcome, status: int | None) -> None:
    """Set the outcome of an announced record."""
    values = {"row": record, "new_outcome": outcome.value, "new_status": status}
    _SETTLE.count(connection, values)


def add_command(
    connection: Connection, settings: Settings, action: str, target: str | None = None
) -> None:
    """Record a command of an operator that changes the database, unless `[audit]enabled` is off."""
    if settings.audit.enabled:
        add(connection, row(action=action, target=target, auth=COMMAND, user_name=_system_user()))


def _system_user() -> str:
    """Return the name of the user who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user has no entry in the system's database
        return "unknown"


def _named(connection: Connection, record: Row) -> Row:
    proven = {**record, "mac": keyring_of(connection.dialect).proof(signed(record))}
    return {_PARAMETERS[name]: value for name, value in proven.items()}
