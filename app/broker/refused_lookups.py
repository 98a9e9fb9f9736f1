"""
Record of refused agent lookups in Redis, which helps to explain why a node still waits.

Lookups need no authentication, so the number, size and format of the entries are limited, and they
expire after an hour. Where there are too many, the address with the most loses its oldest one, so
that a flood of one address does not displace the lookups of others.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import orjson
import redis

from app.process.circuit_breaker import CircuitBreaker

#: Maximum number of entries, MAC addresses per entry, and lifetime in seconds.
MOST, MOST_MACS, LIFETIME = 100, 8, 3600
_NOT_OF_ADDRESSES = re.compile(r"[^0-9A-Fa-f.:, ]")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused lookup."""

    macs: tuple[str, ...]  # lower case, with colons
    address: str  # the agent's IP address; empty: unknown
    reason: str  # as the end of a sentence
    node: str | None  # UUID of the node that refused it, if a node was found
    at: datetime  # UTC

    def summary(self) -> str:
        """Describe the lookup for operators."""
        return (
            f"a lookup of an agent with the MAC addresses {', '.join(self.macs)}, at"
            f" {self.at:%Y-%m-%d %H:%M:%S} UTC from {self.address or 'an unknown address'},"
            f" was refused: {self.reason}"
        )


class Refusals:
    """
    Refused lookups in Redis; a repeated lookup replaces its older entry.

    If Redis is out of reach, nothing is recorded or found, and no exception is raised.
    """

    def __init__(self, client: redis.Redis, prefix: str, reach: CircuitBreaker) -> None:
        self._client, self._key = client, f"{prefix}:refused-lookups"
        self._reach = reach

    def note(
        self, macs: Sequence[str], address: str, reason: str, node: str | None, time: datetime
    ) -> None:
        """Record a refused lookup; see `Refusal`. time: by the database's clock, naive UTC."""
        entry = [list(macs[:MOST_MACS]), _NOT_OF_ADDRESSES.sub("", address)[:64], reason, node]
        try:
            with self._reach.guard(), self._client.pipeline(transaction=False) as pipeline:
                pipeline.zadd(self._key, {orjson.dumps(entry): _seconds(time)})
                pipeline.zcard(self._key)
                pipeline.expire(self._key, LIFETIME)
                _, count, _ = pipeline.execute()
                if count > MOST:
                    entries = cast("list[bytes]", self._client.zrange(self._key, 0, -1))
                    if excess := _excess(entries):
                        self._client.zrem(self._key, *excess)
        except (redis.RedisError, OSError):
            return

    def since(self, moment: datetime) -> list[Refusal]:
        """Return the refused lookups since a time (naive UTC), the latest first."""
        begin = _seconds(moment)
        try:
            with self._reach.guard():
                entries = cast(
                    "list[tuple[bytes, float]]",
                    self._client.zrevrangebyscore(self._key, "+inf", begin, withscores=True),
                )
        except (redis.RedisError, OSError):
            return []
        return [_read(entry, score) for entry, score in entries]


def _excess(entries: Sequence[bytes]) -> list[bytes]:
    """Return the entries to remove. entries: the oldest first."""
    by_address: dict[str, list[int]] = {}  # address -> places of its entries, the oldest last
    for place in reversed(range(len(entries))):
        by_address.setdefault(orjson.loads(entries[place])[1], []).append(place)
    excess: list[bytes] = []
    for _ in range(len(entries) - MOST):
        places = max(filter(None, by_address.values()), key=lambda group: (len(group), -group[-1]))
        excess.append(entries[places.pop()])
    return excess


def _seconds(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()


def _read(entry: bytes, score: float) -> Refusal:
    macs, address, reason, node = orjson.loads(entry)
    return Refusal(tuple(macs), address, reason, node, datetime.fromtimestamp(score, UTC))
