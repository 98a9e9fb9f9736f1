"""
Audit records: insertion, in the transaction of the recorded change where there is one.

A record has names, never values: the values of a request may be secret. All texts are printable and
cut to the length of their column, because callers choose many of them.
"""

import getpass
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, String, bindparam, insert, update

from app.config.settings import Settings
from app.db.clock import now
from app.db.prepared import Prepared
from app.models import AuditRecord, Outcome

Row = dict[str, Any]

#: Value of the column `auth` in records of commands that use the database directly.
COMMAND = "command"
#: Most names in the column `fields`, and characters of each.
MOST_NAMES, LONGEST_NAME = 30, 100

_TABLE: Any = AuditRecord.__table__
_NAMES = tuple(each.name for each in _TABLE.c if each.name not in ("id", "created_at"))
#: Text column -> its length; None: no limit.
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
_VALUES = {**{name: bindparam(each) for name, each in _PARAMETERS.items()}, "created_at": now()}
_INSERT = Prepared(insert(_TABLE).values(_VALUES))
_INSERT_PENDING = Prepared(insert(_TABLE).values(_VALUES).returning(_TABLE.c.id))
_SETTLE = Prepared(
    update(_TABLE)
    .where(_TABLE.c.id == bindparam("row"))
    .values(outcome=bindparam("new_outcome"), status=bindparam("new_status"))
)


def row(**values: Any) -> Row:
    """Build a record from values by column; texts are made printable and cut."""
    made = {**_EMPTY, **values}
    for name, text in values.items():
        if text and name in _LONGEST:
            made[name] = printable(text)[: _LONGEST[name]]
    return made


def printable(text: str) -> str:
    """Replace characters that are not printable, such as NUL, which databases refuse."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "?" for each in text)


def listed(names: Iterable[str]) -> str | None:
    """Join names for a column; None if there are none."""
    found = [each[:LONGEST_NAME].replace(",", "?") for each in names]
    more = [f"+{len(found) - MOST_NAMES}"] if len(found) > MOST_NAMES else []
    return ",".join([*found[:MOST_NAMES], *more]) or None


def add(connection: Connection, record: Row) -> None:
    """Insert a record in the transaction of the connection."""
    _INSERT.count(connection, _named(record))


def add_all(connection: Connection, records: Sequence[Row]) -> None:
    _INSERT.many(connection, [_named(each) for each in records])


def announce(connection: Connection, record: Row) -> int:
    """Insert a record whose outcome is not known yet, and return its id for `settle`."""
    found = _INSERT_PENDING.first(connection, _named({**record, "outcome": Outcome.PENDING.value}))
    assert found is not None
    return int(found[0])


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


def _named(record: Row) -> Row:
    return {_PARAMETERS[name]: value for name, value in record.items()}
