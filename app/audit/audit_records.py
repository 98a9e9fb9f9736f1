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
#: Documents whose keys mean nothing to the service: of them few names are recorded, after those of
#: all other fields, so that no number of them hides another field.
FREE = ("extra", "properties", "network_data")
#: Most names of keys of these documents in the column `fields`, and characters of a name.
MOST_NAMES, LONGEST_NAME = 30, 100
#: Seconds after which a record without an outcome keeps none.
OPEN = 3600.0
#: Seconds in which equal refused requests of a node's agents are one record.
AGENT_PERIOD = 3600.0

_TABLE: Any = AuditRecord.__table__
_NAMES = tuple(each.name for each in _TABLE.c if each.name not in ("id", "created_at"))
#: Columns that equal refused requests of agents have in common; without a target, `address` too.
SAME_OF_AGENT = ("action", "status", "reason", "target")
#: Columns that change after the insertion, and in records of agents `requests`.
_CHANGED = ("outcome", "status", "mac")
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
    .where(
        _TABLE.c.id == bindparam("row"),
        _TABLE.c.outcome == Outcome.PENDING,
        age(_TABLE.c.created_at) < OPEN,
    )
    .values(outcome=bindparam("new_outcome"), status=bindparam("new_status"))
)


def _new(name: str) -> BindParameter[Any]:
    return bindparam(f"new_{name}", type_=_TABLE.c[name].type)


def _is_same(name: str) -> Any:
    return _TABLE.c[name].is_not_distinct_from(_new(name))


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
    """
    Join names for a column; None if there are none.

    Names in `FREE` documents are the last ones, and few; none of the others is left out.
    """
    distinct = dict.fromkeys(each[:LONGEST_NAME].replace(",", "?") for each in names)
    fields = [each for each in distinct if each.partition("/")[0] not in FREE]
    free = [each for each in distinct if each.partition("/")[0] in FREE]
    first_of = {each.partition("/")[0]: each for each in reversed(free)}
    shown = [*first_of.values(), *(each for each in free if each not in first_of.values())]
    more = [f"+{len(shown) - MOST_NAMES}"] if len(shown) > MOST_NAMES else []
    return ",".join([*fields, *shown[:MOST_NAMES], *more]) or None


def add(connection: Connection, record: Row) -> None:
    """Insert a record in the transaction of the connection."""
    _INSERT.count(connection, _named(connection, record))


def add_all(connection: Connection, records: Sequence[Row]) -> None:
    """Insert records; those of agents add to the one of their node, reason and hour."""
    others = [each for each in records if each["auth"] != AGENT]
    if others:
        _INSERT.many(connection, [_named(connection, each) for each in others])
    for record in records:
        if record["auth"] == AGENT and not _add_to(connection, record):
            add(connection, record)


def _add_to(connection: Connection, record: Row) -> bool:
    """Add the requests of agents to those of an equal record; return whether there is one."""
    same = {name: record[name] for name in (*SAME_OF_AGENT, "address", "requests")}
    return bool(_COUNT_AGENT.count(connection, {f"new_{name}": same[name] for name in same}))


def signed(record: Mapping[str, Any]) -> bytes:
    """Return the bytes of a record that its HMAC is made of."""
    changed = (*_CHANGED, "requests") if record["auth"] == AGENT else _CHANGED
    return orjson.dumps([record[name] for name in _NAMES if name not in changed])


def announce(connection: Connection, record: Row) -> int:
    """Insert a record whose outcome is not known yet, and return its id for `settle`."""
    pending = {**record, "outcome": Outcome.PENDING.value}
    found = _INSERT_PENDING.first(connection, _named(connection, pending))
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


def _named(connection: Connection, record: Row) -> Row:
    proven = {**record, "mac": keyring_of(connection.dialect).proof(signed(record))}
    return {_PARAMETERS[name]: value for name, value in proven.items()}
