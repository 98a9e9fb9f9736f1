"""
Readings of sensors, within limits, and their storage in the database.

The texts of a BMC are hostile: names are printable, short and unique within a machine, and there is
a limit to their number, since each is a time series in Prometheus.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from app.db.clock import moment
from app.inventory import history
from app.models import Node, NodeSensors
from app.text.sentences import enumerated

Reading = Mapping[str, Any]  # name, kind, reading, unit, health; as `Management.sensors` has it

#: Most sensors of a machine that are kept, and characters of a name.
MOST, LONGEST_NAME = 200, 64
#: Kind of a sensor -> its units.
UNITS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("°C",),
    "fan": ("RPM", "%"),
    "voltage": ("V",),
    "power": ("W",),
}
#: Healths, from the best to the worst.
HEALTHS = ("unknown", "ok", "warning", "critical")
#: Reads in a row without a critical sensor after which a critical state has ended: a sensor at its
#: threshold does not fill the history of its node.
CALM_READS = 10
#: Most critical sensors that a sentence names.
_NAMED = 5
_LONGEST_ERROR = 1000
#: Columns that an error leaves, with the values of a new row.
_FRESH: Mapping[str, object] = {
    "read_at": None, "health": "unknown", "critical_since": None, "calm_reads": 0,
    "readings": "[]", "history": "{}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Read:
    """A read of the sensors of a node."""

    node_id: int
    readings: Sequence[Reading]  # by `cleaned`; empty after an error
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings of a node in the database."""

    read_at: datetime | None = None
    error: str | None = None
    health: str = "unknown"
    critical_since: datetime | None = None
    readings: Sequence[Reading] = ()
    history: Mapping[str, object] | None = None

    @property
    def critical(self) -> str:
        """Names of the critical sensors, for a sentence; empty if there is none."""
        return _named(self.readings) if self.health == "critical" else ""


def cleaned(readings: Iterable[Any]) -> list[Reading]:
    """Return the readings of a BMC within the limits; others are left out."""
    kept_readings: dict[str, Reading] = {}
    for reading in readings:
        if len(kept_readings) == MOST:
            break
        kind, unit, value = reading.get("kind"), reading.get("unit"), reading.get("reading")
        name = "".join(filter(str.isprintable, str(reading.get("name"))[:LONGEST_NAME])).strip()
        if not name or unit not in UNITS.get(kind, ()):
            continue
        health = reading.get("health")
        unique_name = _unique(name, kept_readings)
        kept_readings[unique_name] = {
            "name": unique_name,
            "kind": kind,
            "reading": value if type(value) in (int, float) else None,
            "unit": unit,
            "health": health if health in HEALTHS else "unknown",
        }
    return list(kept_readings.values())


def _unique(name: str, names: Mapping[str, object]) -> str:
    number, unique_name = 1, name
    while unique_name in names:
        number += 1
        unique_name = f"{name} #{number}"
    return unique_name


def worst(readings: Iterable[Reading]) -> str:
    """Return the worst health of some readings."""
    return max((reading["health"] for reading in readings), key=HEALTHS.index, default="unknown")


def store(session: Session, reads: Sequence[Read], length: int) -> None:
    """Store reads, and tell critical sensors in the history of their node. length: of the rings."""
    ids = [read.node_id for read in reads]
    existing_ids = set(session.scalars(select(Node.id).where(Node.id.in_(ids))))
    columns: Any = NodeSensors.__table__.c
    of_nodes = select(*columns).where(columns.node_id.in_(ids))
    rows = {row.node_id: row for row in session.execute(of_nodes)}
    time = moment(session)
    changes: dict[bool, list[dict[str, object]]] = {True: [], False: []}
    for read in reads:
        if read.node_id not in existing_ids:  # deleted since
            continue
        row = rows.get(read.node_id)
        if read.error is not None:
            values = _after_error(row, read.error)
        else:
            values = _after_read(row, read, time, length) | _told(session, row, read, time)
        changes[row is not None].append({"node_id": read.node_id, **values})
    if changes[False]:
        session.execute(insert(NodeSensors), changes[False])
    if changes[True]:
        session.execute(update(NodeSensors), changes[True])


def _after_error(row: object, error: str) -> dict[str, object]:
    """Return the columns of a node's row after a failed read. row: None if there is none yet."""
    known_values = {name: getattr(row, name) for name in _FRESH} if row else _FRESH
    return {**known_values, "error": error[:_LONGEST_ERROR]}


def _after_read(row: Any, read: Read, time: datetime, length: int) -> dict[str, object]:
    """Return the columns of a node's row after a read, without those of `_told`."""
    return {
        "read_at": time,
        "error": None,
        "health": worst(read.readings),
        "readings": orjson.dumps(read.readings).decode(),
        "history": _extended(row.history if row else "{}", read.readings, time, length),
    }


def _told(session: Session, row: Any, read: Read, time: datetime) -> dict[str, object]:
    """Record the begin or the end of a critical state in the node's history."""
    since, calm_reads = (row.critical_since, row.calm_reads) if row else (None, 0)
    if worst(read.readings) == "critical":
        if since is None:
            event = f"Critical sensors: {_named(read.readings)}."
            node = session.get_one(Node, read.node_id)
            history.add(session, node, "monitoring", event, "ERROR")
        return {"critical_since": since or time, "calm_reads": 0}
    if since is None or calm_reads + 1 < CALM_READS:
        return {"critical_since": since, "calm_reads": calm_reads + 1 if since else 0}
    node = session.get_one(Node, read.node_id)
    history.add(session, node, "monitoring", "No sensor is critical any more.")
    return {"critical_since": None, "calm_reads": 0}


def _named(readings: Iterable[Reading]) -> str:
    """Name the critical sensors with their readings."""
    critical = [reading for reading in readings if reading["health"] == "critical"]
    phrases = [_with_value(reading) for reading in critical[:_NAMED]]
    return enumerated(phrases, _NAMED, total=len(critical))


def _with_value(reading: Reading) -> str:
    value = "" if reading["reading"] is None else f" {reading['reading']:g} {reading['unit']}"
    return f"{reading['name']} ({reading['kind']}{value})"


def _extended(text: str, readings: Sequence[Reading], time: datetime, length: int) -> str:
    """Return the ring of a node with its newest readings; sensors that are gone are dropped."""
    if not length:
        return "{}"
    ring = orjson.loads(text)
    times, values = ring.get("times", []), ring.get("values", {})
    missing = [None] * len(times)
    extended_values = {
        reading["name"]: [*values.get(reading["name"], missing), reading["reading"]][-length:]
        for reading in readings
    }
    new_times = [*times, f"{time.isoformat(timespec='seconds')}Z"][-length:]
    return orjson.dumps({"times": new_times, "values": extended_values}).decode()


def of_node(session: Session, node_id: int, *, with_history: bool = False) -> Readings:
    """Return the last readings of a node, and those before."""
    row = session.get(NodeSensors, node_id)
    if row is None:
        return Readings()
    return Readings(
        row.read_at,
        row.error,
        row.health,
        row.critical_since,
        orjson.loads(row.readings),
        orjson.loads(row.history) if with_history else None,
    )
