"""
Conductors: who is alive, decided by the database's clock, and which one a node belongs to.
"""

import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.orm import Session

from app import release
from app.db import age, now
from app.errors import Unavailable
from app.models import BeatLease, Conductor, Node
from app.ring import Member, owner
from app.runtime import Runtime, of

CACHE_SECONDS = 1.0
#: Seconds that may pass from the end of a beat's lease until another one has the lead.
BEAT_GRACE = 3.0


def alive(session: Session | Connection, timeout: float = 15.0) -> list[Member]:
    """The conductors that are online and have given a sign of life within `timeout` seconds."""
    rows = session.execute(
        select(
            Conductor.hostname,
            Conductor.incarnation,
            Conductor.conductor_group,
            Conductor.interfaces,
            Conductor.version,
        )
        .where(Conductor.online, age(Conductor.heartbeat_at) < timeout)
        .order_by(Conductor.hostname)
    )
    return [
        Member(name, incarnation, group, frozenset(types), version)
        for name, incarnation, group, types, version in rows
    ]


def lost(session: Session | Connection, timeout: float) -> list[tuple[str, str, float]]:
    """
    (name, incarnation, seconds of silence) of the conductors that have stopped to give signs of
    life and did not leave.
    """
    seconds = age(Conductor.heartbeat_at)
    rows = session.execute(
        select(Conductor.hostname, Conductor.incarnation, seconds)
        .where(Conductor.online, seconds >= timeout)
        .order_by(Conductor.hostname)
    )
    return [(name, incarnation, float(silent)) for name, incarnation, silent in rows]


def silence(session: Session | Connection) -> float:
    """Seconds since any conductor has given a sign of life."""
    return float(session.scalar(select(func.min(age(Conductor.heartbeat_at)))) or 0)


def living(session: Session, timeout: float) -> set[str]:
    """Incarnations that have given a sign of life, also those about to leave."""
    fresh = age(Conductor.heartbeat_at) < timeout
    return set(session.scalars(select(Conductor.incarnation).where(fresh)))


def known(session: Session) -> set[str]:
    """Incarnations that still own their name, alive or not."""
    return set(session.scalars(select(Conductor.incarnation)))


def beat_leads(session: Session) -> bool:
    """Whether a beat leads, or did so a moment ago."""
    return session.scalar(select(BeatLease.id).where(age(BeatLease.until) < BEAT_GRACE)) is not None


def members(runtime: Runtime, session: Session | Connection | None = None) -> tuple[Member, ...]:
    """`alive`, at most a second old: a hint for routing."""
    cached = runtime.cache.get("members")
    if cached and time.monotonic() - cached[0] < CACHE_SECONDS:
        return cached[1]  # type: ignore[no-any-return]
    if session is None:
        with runtime.reading() as own:
            return members(runtime, own)
    found = tuple(alive(session, runtime.settings.conductor.heartbeat_timeout))
    runtime.cache["members"] = (time.monotonic(), found)
    return found


def owner_of(session: Session, node: Node, version: int = 0) -> Member:
    """
    The conductor that a node belongs to, of those that understand `version` (`app.release`).

    Raises Unavailable when none serves it.
    """
    able = [each for each in members(of(session), session) if each.version >= version]
    found = owner(node.uuid, node.driver, node.conductor_group, able)
    if found is None:
        group = f" in conductor group {node.conductor_group!r}" if node.conductor_group else ""
        raise Unavailable(f"no live conductor{group} serves driver {node.driver!r}")
    return found


def require_served(session: Session, node: Node) -> None:
    """
    There is a conductor for the node, be it dead just now: then what is asked for is queued.

    Raises Unavailable when none of the node's group has ever loaded its driver.
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
    """Take a name; whoever had it before has lost it, and all that it had claimed, at once."""
    row = session.scalar(select(Conductor).where(Conductor.hostname == name).with_for_update())
    if row is None:
        row = Conductor(hostname=name)
        session.add(row)
    row.incarnation, row.conductor_group = incarnation, group
    row.interfaces, row.online = dict(interfaces), True
    row.version = release.UNDERSTOOD
    row.heartbeat_at = row.updated_at = now()


def heartbeat(session: Session, name: str, incarnation: str) -> bool:
    """Give a sign of life; False when the name belongs to another incarnation now."""
    result = session.execute(
        update(Conductor)
        .where(Conductor.hostname == name, Conductor.incarnation == incarnation)
        .values(heartbeat_at=now(), updated_at=now())
    )
    return bool(result.rowcount)  # type: ignore[attr-defined]


def leave(session: Session, name: str, incarnation: str) -> None:
    """
    Say goodbye: the nodes belong to the others from now on.

    The version goes, too: the next to have the name may be of a release that does not write it.
    """
    session.execute(
        update(Conductor)
        .where(Conductor.hostname == name, Conductor.incarnation == incarnation)
        .values(online=False, version=0, updated_at=now())
    )


def forget(session: Session, silent: float) -> list[str]:
    """Remove the conductors that have given no sign of life for so many seconds; their names."""
    gone = age(Conductor.heartbeat_at) >= silent
    names = list(session.scalars(select(Conductor.hostname).where(gone)))
    if names:  # one of them may come back meanwhile: it is looked at again
        session.execute(delete(Conductor).where(Conductor.hostname.in_(names), gone))
    return names
