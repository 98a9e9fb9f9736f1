"""
The witness: what Redis remembers of the database, for the day on which that has forgotten.

It remembers the highest water mark that the database was seen with: with it, conductors that start
anew notice that the database was restored while none ran (`app.engine.restore`). And it
keeps a record of the nodes that work was begun on: a database that has lost only its last seconds,
as a replica may that is promoted, has lost what was done to those, and to no others.

The record counts turns. `note` gives a node the next one, before any order to its machine. `look`
writes down, all the time, with which mark the database was seen at which turn: what was committed
before that turn is in every database with a mark as high. A Redis that was restarted, emptied, or
has dropped a key, begins the record anew; it tells nothing of what was before, and accuses nobody.
"""

from dataclasses import dataclass, field
from typing import cast
from uuid import uuid4

import redis

from app.broker.redis_broker import reach
from app.engine import restore
from app.kit.reach import Reach
from app.operation_states import Actor
from app.runtime import Runtime

#: Looks that the record goes back, ten minutes at the defaults.
KEPT = 300
#: A database may have been written to, and its mark raised, before it is noticed that it is older:
#: nodes count as worked on from so many looks before on, 20 s at the defaults.
MARGIN = 10

#: Raise the highest mark; what it was.
_RAISE = """
local known = tonumber(redis.call('GET', KEYS[1]) or '0')
if known < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return known
"""
#: The record is a sorted set, node -> its last turn; the first member, of turn 0, names it.
_NOTE = """
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return redis.call('ZADD', KEYS[1], (last[2] or 0) + 1, ARGV[1])
"""
#: The name of the record, begun anew if it is not of this run of Redis, and its last turn.
_TURN = """
local name = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if not name or string.sub(name, 1, #ARGV[1]) ~= ARGV[1] then
    redis.call('DEL', KEYS[1], KEYS[2])
    name = ARGV[1] .. ':' .. ARGV[2]
    redis.call('ZADD', KEYS[1], 0, name)
end
return {name, redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]}
"""
#: Write a look down, if the record is still the same; forget what is older than the oldest kept.
_WRITE = """
if redis.call('ZRANGE', KEYS[1], 0, 0)[1] ~= ARGV[1] then return 0 end
redis.call('LPUSH', KEYS[2], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
redis.call('LTRIM', KEYS[2], 0, ARGV[4] - 1)
local oldest = string.match(redis.call('LINDEX', KEYS[2], -1), '%S+$')
return redis.call('ZREMRANGEBYSCORE', KEYS[1], '(0', '(' .. oldest)
"""


@dataclass(slots=True)
class Witness:
    client: redis.Redis
    prefix: str
    _reach: Reach = field(default_factory=reach)

    def note(self, node: str) -> bool:
        """
        Work on a node begins; False: Redis does not take it down, and it must not.

        Where Redis carries the messages as well, no work arrives without it anyway.
        """
        try:
            with self._reach.trying():
                self.client.eval(_NOTE, 1, self._record, node)
        except redis.RedisError:
            return False
        return True

    def recall(self) -> int:
        """The highest mark that was ever seen. Raises RedisError."""
        with self._reach.trying():
            return int(self.client.get(self._mark) or 0)

    def look(self, runtime: Runtime) -> None:
        """
        Write down the mark of the database. If it is too low, the database was restored, and is
        treated as such. Raises RedisError.
        """
        name, turn = self.client.eval(_TURN, 2, *self._keys, self._run(), uuid4().hex)
        with runtime.reading() as session:
            level = restore.level(session)
        seen = int(self.client.eval(_RAISE, 1, self._mark, level))
        if level < seen:
            self.testify(runtime, restore.Older(level, seen))
            return
        self.client.eval(_WRITE, 2, *self._keys, name, level, turn, KEPT)

    def testify(self, runtime: Runtime, found: restore.Older) -> None:
        """Declare the database restored, for the nodes that it may be wrong about."""
        touched = self.touched(found.level)
        with runtime.transaction(Actor.CONDUCTOR) as session:
            restore.settle(session, found, touched)

    def touched(self, level: int) -> set[str] | None:
        """
        UUIDs of the nodes that work has begun on since the database had a mark, or shortly before.

        None: that is not known. Raises RedisError.
        """
        of_run = self._run()
        names = cast("list[bytes]", self.client.zrange(self._record, 0, 0))
        if not (names and names[0].startswith(of_run.encode())):
            return None
        entries = cast("list[bytes]", self.client.lrange(self._looks, 0, -1))
        looks = (entry.split() for entry in entries)
        turns = [turn for of, mark, turn in looks if of == names[0] and int(mark) <= level]
        if len(turns) <= MARGIN:
            return None
        since = f"({turns[MARGIN].decode()}"
        found = cast("list[bytes]", self.client.zrangebyscore(self._record, since, "+inf"))
        return {each.decode() for each in found}

    def _run(self) -> str:
        """What names this run of Redis; where that may not be asked, no record counts for long."""
        try:
            server = self.client.info("server")
        except redis.ResponseError:
            server = {}
        return str(server.get("run_id") or uuid4().hex)

    @property
    def _mark(self) -> str:
        return f"{self.prefix}:watermark"

    @property
    def _record(self) -> str:
        return f"{self.prefix}:touched"

    @property
    def _looks(self) -> str:
        return f"{self.prefix}:looks"

    @property
    def _keys(self) -> tuple[str, str]:
        return self._record, self._looks
