"""
Restore detection with a record in Redis, the witness.

Redis keeps the highest watermark of the database. A lower watermark in the database means that it
was restored from a backup, also while no conductor ran (`workers.restoration.restore`). Redis also
keeps the nodes that were worked on recently: a promoted replica that lacks its last seconds has
lost changes of these nodes only.

The record counts sequence numbers. `note` gives a node the next number, before any order to its
machine. `look` records pairs of watermark and sequence number: a transaction committed before that
number is in every database with a watermark at least as high. When Redis was restarted or emptied,
or has evicted a key, the record starts again; the nodes worked on before are then unknown.
"""

from dataclasses import dataclass
from typing import cast
from uuid import uuid4

import redis

from app.lifecycle.operation_states import Actor
from app.process.circuit_breaker import CircuitBreaker
from app.runtime import Runtime
from workers.restoration import restore

#: Pairs of watermark and sequence number that are kept: ten minutes at the defaults.
KEPT = 300
#: Extra pairs by which `touched` goes back, 20 s at the defaults: the restored database may have
#: been written to, and its watermark raised, before the restore is detected.
MARGIN = 10

#: Raise the highest watermark; returns the previous one.
_RAISE = """
local known = tonumber(redis.call('GET', KEYS[1]) or '0')
if known < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return known
"""
#: The record is a sorted set, node -> its last sequence number. Its first member, with number 0, is
#: the name of the record.
_NOTE = """
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return redis.call('ZADD', KEYS[1], (last[2] or 0) + 1, ARGV[1])
"""
#: Return the record's name and its last sequence number. Starts a new record if the existing one is
#: from before a restart of Redis.
_LAST = """
local name = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if not name or string.sub(name, 1, #ARGV[1]) ~= ARGV[1] then
    redis.call('DEL', KEYS[1], KEYS[2])
    name = ARGV[1] .. ':' .. ARGV[2]
    redis.call('ZADD', KEYS[1], 0, name)
end
return {name, redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]}
"""
#: Record a pair, unless the record was replaced meanwhile; trim nodes older than the oldest pair.
_WRITE = """
if redis.call('ZRANGE', KEYS[1], 0, 0)[1] ~= ARGV[1] then return 0 end
redis.call('LPUSH', KEYS[2], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
redis.call('LTRIM', KEYS[2], 0, ARGV[4] - 1)
local oldest = string.match(redis.call('LINDEX', KEYS[2], -1), '%S+$')
return redis.call('ZREMRANGEBYSCORE', KEYS[1], '(0', '(' .. oldest)
"""


@dataclass(slots=True)
class RestoreGuard:
    """Record of watermarks and of nodes worked on, in Redis under a key prefix."""

    client: redis.Redis
    prefix: str
    reach: CircuitBreaker  # of Redis

    def note(self, node: str) -> bool:
        """
        Record that work on a node begins, by its UUID.

        False: Redis did not record it, so the work must not begin.
        """
        try:
            with self.reach.guard():
                self.client.eval(_NOTE, 1, self._record, node)
        except redis.RedisError:
            return False
        return True

    def recall(self) -> int:
        """
        Return the highest watermark ever seen; 0 if none was.

        Raises RedisError.
        """
        with self.reach.guard():
            return int(self.client.get(self._mark) or 0)

    def check(self, runtime: Runtime) -> None:
        """
        Record the watermark of the database; if it is too low, declare the database restored.

        Raises RedisError.
        """
        name, last_sequence = self.client.eval(_LAST, 2, *self._keys, self._run_id(), uuid4().hex)
        with runtime.read_connection() as connection:
            level = restore.level(connection)
        seen_watermark = int(self.client.eval(_RAISE, 1, self._mark, level))
        if level < seen_watermark:
            self.declare_restored(runtime, restore.DatabaseRewound(level, seen_watermark))
            return
        self.client.eval(_WRITE, 2, *self._keys, name, level, last_sequence, KEPT)

    def declare_restored(self, runtime: Runtime, rewind: restore.DatabaseRewound) -> None:
        """
        Declare the database restored: quarantine the nodes whose rows may be outdated.

        Raises RedisError.
        """
        nodes = self.touched(rewind.level)
        with runtime.transaction(Actor.CONDUCTOR) as session:
            restore.quarantine_once(session, rewind, nodes)

    def touched(self, level: int) -> set[str] | None:
        """
        Return the UUIDs of nodes worked on since the database had the watermark `level`.

        Nodes worked on shortly before are included (MARGIN). Returns None if the nodes are not
        known.
        Raises RedisError.
        """
        run_id = self._run_id()
        names = cast("list[bytes]", self.client.zrange(self._record, 0, 0))
        if not (names and names[0].startswith(run_id.encode())):
            return None
        entries = cast("list[bytes]", self.client.lrange(self._check_key, 0, -1))
        pairs = (entry.split() for entry in entries)
        numbers = [
            sequence
            for run, watermark, sequence in pairs
            if run == names[0] and int(watermark) <= level
        ]
        if len(numbers) <= MARGIN:
            return None
        minimum = f"({numbers[MARGIN].decode()}"
        node_entries = cast("list[bytes]", self.client.zrangebyscore(self._record, minimum, "+inf"))
        return {node.decode() for node in node_entries}

    def _run_id(self) -> str:
        """Return the id of this run of Redis, which changes when Redis is restarted."""
        try:
            server = self.client.info("server")
        except redis.ResponseError:  # INFO is not permitted: a random id invalidates any record
            server = {}
        return str(server.get("run_id") or uuid4().hex)

    @property
    def _mark(self) -> str:
        return f"{self.prefix}:watermark"

    @property
    def _record(self) -> str:
        return f"{self.prefix}:touched"

    @property
    def _check_key(self) -> str:
        return f"{self.prefix}:looks"

    @property
    def _keys(self) -> tuple[str, str]:
        return self._record, self._check_key
