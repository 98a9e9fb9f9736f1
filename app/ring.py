"""
The hash ring: which conductor a node belongs to.

Rendezvous hashing: every conductor gets a score for the node, the highest wins, and the rest in
order are its stand-ins. When a conductor leaves, only its nodes move; when one joins, only the
nodes that it wins. A pure function: the API and the workers ask the same question and get the
same answer. It is a routing hint, never an argument for correctness.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Member:
    """
    A live conductor: its name, its incarnation, its group, the drivers that it loaded, and what it
    understands (`app.release`).
    """

    name: str
    incarnation: str
    group: str
    drivers: frozenset[str]
    version: int = 0


def owners(node_uuid: str, driver: str, group: str, members: Iterable[Member]) -> Sequence[Member]:
    """The members that serve the node's driver and group, its owner first."""
    able = serving(driver, group, members)
    return sorted(able, key=lambda each: _score(each.name, node_uuid), reverse=True)


def owner(node_uuid: str, driver: str, group: str, members: Iterable[Member]) -> Member | None:
    """The member that the node belongs to, or None when nobody serves it."""
    return winner(node_uuid, serving(driver, group, members))


def serving(driver: str, group: str, members: Iterable[Member]) -> Sequence[Member]:
    """The members that serve a driver and a group."""
    return [each for each in members if each.group == group and driver in each.drivers]


def winner(node_uuid: str, able: Sequence[Member]) -> Member | None:
    """Of members that serve a node, the one that it belongs to."""
    if len(able) < 2:
        return able[0] if able else None
    return max(able, key=lambda each: _score(each.name, node_uuid))


def _score(name: str, node_uuid: str) -> bytes:
    return blake2b(f"{name}|{node_uuid}".encode(), digest_size=8).digest()
