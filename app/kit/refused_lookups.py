"""
Lookups of agents that were refused: the latest of them, kept in Redis for those who ask why a node
still waits.

Anybody may look up, so there are few, short entries of known form, which go after an hour.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import orjson
import redis

from app.broker.redis_broker import reach
from app.kit.reach import Reach

#: Entries that are kept, MAC addresses of each, and seconds until they go.
MOST, MOST_MACS, LIFETIME = 100, 8, 3600
_NOT_OF_ADDRESSES = re.compile(r"[^0-9A-Fa-f.:, ]")


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    macs: in our form. address: where the agent asked from, as far as it is known. why: a sentence.
    node: UUID of the node that it is about, if there is one.
    """

    macs: tuple[str, ...]
    address: str
    why: str
    node: str | None
    at: datetime

    def told(self) -> str:
        return (
            f"an agent with the MAC addresses {', '.join(self.macs)} asked at"
            f" {self.at:%Y-%m-%d %H:%M:%S} UTC from {self.address or 'an unknown address'} which"
            f" node it runs on and was refused: {self.why}"
        )


class Refusals:
    """The same lookup, repeated, is one entry: the latest. Raises nothing without Redis."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client, self._key = client, f"{prefix}:refused-lookups"
        self._reach: Reach = reach()

    def note(self, macs: Sequence[str], address: str, why: str, node: str | None) -> None:
        entry = [list(macs[:MOST_MACS]), _NOT_OF_ADDRESSES.sub("", address)[:64], why, node]
        try:
            with self._reach.trying(), self._client.pipeline(transaction=False) as pipeline:
                pipeline.zadd(self._key, {orjson.dumps(entry): time.time()})
                pipeline.zremrangebyrank(self._key, 0, -MOST - 1)
                pipeline.expire(self._key, LIFETIME)
                pipeline.execute()
        except (redis.RedisError, OSError):
            return

    def since(self, moment: datetime) -> list[Refusal]:
        """Those from a moment on, the latest first."""
        begin = moment.replace(tzinfo=UTC).timestamp()
        try:
            with self._reach.trying():
                found = cast(
                    "list[tuple[bytes, float]]",
                    self._client.zrevrangebyscore(self._key, "+inf", begin, withscores=True),
                )
        except (redis.RedisError, OSError):
            return []
        return [_read(entry, at) for entry, at in found]


def _read(entry: bytes, at: float) -> Refusal:
    macs, address, why, node = orjson.loads(entry)
    return Refusal(tuple(macs), address, why, node, datetime.fromtimestamp(at, UTC))
