"""
Conductors: their registration, their liveness, and the owner of a node.

Liveness is decided by the database's clock.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, null, or_, select, update
from sqlalchemy.orm import Session

from app.cluster import periodic_passes
from app.cluster.hash_ring import Member, owner, serving
from app.db.clock import age, now
from app.db.prepared import Prepared
from app.db.transactions import connection_of
from app.errors import NotFound, Unavailable
from app.models import BeatLease, Conductor, Node
from app.process import release
from app.runtime import Runtime, runtime_of

CACHE_SECONDS = 1.0
#: Seconds from the end of a beat's lease until another beat must have taken the lead.
BEAT_GRACE = 3.0

_TABLE = Conductor.__table__
_SILENT = age(Conductor.heartbeat_at)
_ALIVE = Prepared(
    select(
        Conductor.hostname,
        Conductor.incarnation,
        Conductor.conductor_group,
        Conductor.interfaces,
        Conductor.version,
    )
    .where(
        Conductor.online,
        Conductor.impediment.is_(None),
        Conductor.drained_at.is_(None),
        _SILENT < bindparam("timeout"),
    )
    .order_by(Conductor.hostname)
)
_DRAINED = Prepared(
    select(
        Conductor.hostname,
        Conductor.incarnation,
        Conductor.conductor_group,
        Conductor.drain_reason,
    )
    .where(Conductor.online, Conductor.drained_at.is_not(None), _SILENT < bindparam("timeout"))
    .order_by(Conductor.hostname)
)
_IS_DRAINED = Prepared(select(Conductor.drained_at).where(_TABLE.c.hostname == bindparam("name")))
_IMPEDED = Prepared(
    select(Conductor.hostname, Conductor.impediment)
    .where(Conductor.online, Conductor.impediment.is_not(None), _SILENT < bindparam("timeout"))
    .order_by(Conductor.hostname)
)
_LOST = Prepared(
    select(Conductor.hostname, Conductor.incarnation, _SILENT)
    .where(Conductor.online, _SILENT >= bindparam("timeout"))
    .order_by(Conductor.hostname)
)
_LEAST_SILENCE = Prepared(select(func.min(_SILENT)))
_REGISTERED = {
    "incarnation": bindparam("new"),
    "conductor_group": bindparam("group"),
    "interfaces": bindparam("interfaces", type_=_TABLE.c.interfaces.type),
    "online": True,
    "impediment": null(),
    "version": release.UNDERSTOOD,
    "heartbeat_at": now(),
    "updated_at": now(),
}
_REGISTER = Prepared(
    update(Conductor).where(_TABLE.c.hostname == bindparam("name")).values(_REGISTERED)
)
_REGISTER_FIRST = Prepared(insert(Conductor).values({"hostname": bindparam("name"), **_REGISTERED}))
_HEARTBEAT = Prepared(
    update(Conductor)
    .where(_TABLE.c.hostname == bindparam("name"), _TABLE.c.incarnation == bindparam("own"))
    .values(heartbeat_at=now(), updated_at=now(), impediment=bindparam("reason"))
)


def alive(session: Session | Connection, timeout: float) -> list[Member]:
    """Return the conductors that can do new work, with a heartbeat within `timeout` seconds."""
    rows = _ALIVE.all(_connection(session), {"timeout": timeout})
    return [
        Member(name, incarnation, group, frozenset(types), version)
        for name, incarnation, group, types, version in rows
    ]


def impeded(session: Session | Connection, timeout: float) -> list[tuple[str, str]]:
    """Return (name, impediment) of the conductors that send heartbeats, and can do no new work."""
    rows = _IMPEDED.all(_connection(session), {"timeout": timeout})
    return [(name, reason) for name, reason in rows]


class Drained(NamedTuple):
    """A drained conductor that sends heartbeats."""

    name: str
    incarnation: str
    group: str  # conductor group
    reason: str | None  # that the operator gave

    def summary(self) -> str:
        """Say that it is drained, and the remedy."""
        return (
            f"conductor {self.name} is drained ({self.reason or 'no reason given'});"
            f" `ingot conductor undrain {self.name}` ends that"
        )


def drained(session: Session | Connection, timeout: float) -> list[Drained]:
    """Return the drained conductors that send heartbeats."""
    return [Drained(*row) for row in _DRAINED.all(_connection(session), {"timeout": timeout})]


def is_drained(session: Session, name: str) -> bool:
    """Whether an operator has drained the conductor of this name."""
    row = _IS_DRAINED.first(connection_of(session), {"name": name})
    return row is not None and row[0] is not None


def drain(session: Session, name: str, reason: str | None) -> None:
    """
    Keep new work away from a conductor, also after its restarts, until `undrain`.

    The conductor reads it with its next heartbeat (`workers.conductor.life`). A second request
    changes the reason.

    Raises NotFound.
    """
    conductor = _lock(session, name)
    conductor.drained_at = conductor.drained_at or now()
    conductor.drain_reason = reason


def undrain(session: Session, name: str) -> None:
    """
    Give new work to a conductor again; its periodic tasks are expected from its next heartbeat on.

    Raises NotFound.
    """
    conductor = _lock(session, name)
    if conductor.drained_at is not None:
        periodic_passes.forget(connection_of(session), [name])
    conductor.drained_at = conductor.drain_reason = None


def _lock(session: Session, name: str) -> Conductor:
    query = select(Conductor).where(Conductor.hostname == name).with_for_update()
    conductor = session.scalar(query)
    if conductor is None:
        raise NotFound("conductor", name)
    return conductor


def lost(session: Session | Connection, timeout: float) -> list[tuple[str, str, float]]:
    """
    Return (name, incarnation, age of the last heartbeat in seconds) of the dead conductors.

    Conductors that were stopped gracefully are not among them.
    """
    rows = _LOST.all(_connection(session), {"timeout": timeout})
    return [(name, incarnation, float(silence)) for name, incarnation, silence in rows]


def seconds_since_heartbeat(session: Session | Connection) -> float:
    """Seconds since the last heartbeat of any conductor; 0 without conductors."""
    row = _LEAST_SILENCE.first(_connection(session), {})
    return float(row[0] or 0) if row else 0.0


def _connection(session: Session | Connection) -> Connection:
    return connection_of(session) if isinstance(session, Session) else session


def living_incarnations(session: Session, timeout: float) -> set[str]:
    """Incarnations with a recent heartbeat, including those that drain."""
    is_alive = age(Conductor.heartbeat_at) < timeout
    return set(session.scalars(select(Conductor.incarnation).where(is_alive)))


def registered_incarnations(session: Session) -> set[str]:
    """Incarnations that are registered, alive or not."""
    return set(session.scalars(select(Conductor.incarnation)))


def beat_leads(session: Session) -> bool:
    """Whether a beat leads, or its lease ended less than BEAT_GRACE seconds ago."""
    return session.scalar(select(BeatLease.id).where(age(BeatLease.until) < BEAT_GRACE)) is not None


def beat_silence(session: Session) -> float | None:
    """Seconds since a leading beat last sent a message, if any was recorded."""
    seconds = session.scalar(select(age(BeatLease.sent_at)))
    return None if seconds is None else max(float(seconds), 0.0)


def members(runtime: Runtime, session: Session | Connection | None = None) -> tuple[Member, ...]:
    """Return `alive`, cached for CACHE_SECONDS: good enough for routing."""
    cached = runtime.cache.get("members")
    if cached and time.monotonic() - cached[0] < CACHE_SECONDS:
        return cached[1]  # type: ignore[no-any-return]
    if session is None:
        with runtime.read_connection() as connection:
            return members(runtime, connection)
    live_members = tuple(alive(session, runtime.settings.conductor.heartbeat_timeout))
    runtime.cache["members"] = (time.monotonic(), live_members)
    return live_members


class Share(NamedTuple):
    """Nodes of a driver and a conductor group, and the conductors that divide them."""

    driver: str
    group: str  # conductor group
    nodes: int
    members: Sequence[Member]  # live; without one the nodes cannot be managed


def shares(session: Session, live_conductors: Sequence[Member]) -> list[Share]:
    """
    Return the nodes by driver and conductor group, with the live conductors that serve them.

    Indexes have the nodes of each driver and of each group; only the rows of nodes outside of the
    largest group are read.
    """
    driver, group, number = Node.driver, Node.conductor_group, func.count()
    unassigned = Counter(dict(session.execute(select(driver, number).group_by(driver)).all()))
    groups = Counter(dict(session.execute(select(group, number).group_by(group)).all()))
    largest = next((name for name, _ in groups.most_common(1)), "")
    counts: Counter[tuple[str, str]] = Counter()
    if len(groups) > 1:
        smaller = or_(group < largest, group > largest)
        query = select(driver, group, number).where(smaller).group_by(driver, group)
        for kind, place, count in session.execute(query):
            counts[kind, place] = count
            unassigned[kind] -= count
    counts.update({(kind, largest): count for kind, count in unassigned.items() if count > 0})
    return [
        Share(kind, place, count, serving(kind, place, live_conductors))
        for (kind, place), count in sorted(counts.items())
    ]


def owner_of(session: Session, node: Node, version: int = 0) -> Member:
    """
    Return the conductor that owns a node.

    version: the conductors that understand it (`app.process.release`) are considered.

    Raises Unavailable: no live conductor of the node's group has its driver.
    """
    candidates = [
        member for member in members(runtime_of(session), session) if member.version >= version
    ]
    conductor = owner(node.uuid, node.driver, node.conductor_group, candidates)
    if conductor is None:
        group = f" in conductor group {node.conductor_group!r}" if node.conductor_group else ""
        raise Unavailable(f"no live conductor{group} serves driver {node.driver!r}")
    return conductor


def require_served(session: Session, node: Node) -> None:
    """
    Check that some conductor serves the node; if it is dead now, requests are queued for it.

    Raises Unavailable: no conductor of the node's group has ever loaded its driver.
    """
    try:
        owner_of(session, node)
    except Unavailable:
        rows = session.execute(select(Conductor.conductor_group, Conductor.interfaces))
        if not any(group == node.conductor_group and node.driver in types for group, types in rows):
            raise


def register(
    session: Session, name: str, incarnation: str, group: str, interfaces: Mapping[str, Any]
) -> None:
    """Register a conductor; an older incarnation of the name loses the name and its claims."""
    connection = connection_of(session)
    row = {"name": name, "new": incarnation, "group": group, "interfaces": dict(interfaces)}
    if not _REGISTER.count(connection, row):
        _REGISTER_FIRST.count(connection, row)


def heartbeat(session: Session, name: str, incarnation: str, impediment: str | None = None) -> bool:
    """
    Record a heartbeat; False if another incarnation has registered the name.

    impediment: reason why the conductor can do no new work, so that others get it.
    """
    beating = {"name": name, "own": incarnation, "reason": impediment}
    return bool(_HEARTBEAT.count(connection_of(session), beating))


def mark_offline(session: Session, name: str, incarnation: str) -> None:
    """
    Mark a conductor as offline: its nodes belong to other conductors from now on.

    Resets the version, because the next conductor of the name may be of an older release, which
    does not write this column.
    """
    session.execute(
        update(Conductor)
        .where(Conductor.hostname == name, Conductor.incarnation == incarnation)
        .values(online=False, version=0, updated_at=now())
    )


def remove_silent(session: Session, seconds: float) -> list[str]:
    """
    Remove conductors without a heartbeat for `seconds` seconds, and return their names.

    Drained ones are kept: their next start must find that they are.
    """
    is_gone = and_(age(Conductor.heartbeat_at) >= seconds, Conductor.drained_at.is_(None))
    names = list(session.scalars(select(Conductor.hostname).where(is_gone)))
    if names:  # one of them may send a heartbeat meanwhile, so `is_gone` is checked again
        session.execute(delete(Conductor).where(Conductor.hostname.in_(names), is_gone))
        periodic_passes.forget(connection_of(session), names)
    return names
