"""
The hash ring: the conductor that owns a node.

Rendezvous hashing: every conductor has a score for the node, and the highest one owns it. When a
conductor leaves, only its nodes move; when one joins, only the nodes that it wins. A pure function,
so that API and workers agree. It decides routing, not correctness: that rests on lease and fence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Member:
    """A live conductor."""

    name: str
    incarnation: str  # UUID, new at every start of the conductor
    group: str  # conductor group
    drivers: frozenset[str]  # names of the hardware types that it has loaded
    version: int = 0  # of messages that it understands (`app.process.release`)


def owner(node_uuid: str, driver: str, group: str, members: Iterable[Member]) -> Member | None:
    """Return the member that owns the node; None if no member serves its driver and group."""
    return winner(node_uuid, serving(driver, group, members))


def serving(driver: str, group: str, members: Iterable[Member]) -> Sequence[Member]:
    """Select the members that serve a driver and a group."""
    return [member for member in members if member.group == group and driver in member.drivers]


def winner(node_uuid: str, candidates: Sequence[Member]) -> Member | None:
    """Return the owner of a node among members that can serve it; None if there are none."""
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    return max(candidates, key=lambda member: _score(member.name, node_uuid))


def _score(name: str, node_uuid: str) -> bytes:
    return blake2b(f"{name}|{node_uuid}".encode(), digest_size=8).digest()
