"""
The witness: Redis remembers the highest water mark that the database was seen with.

With it, conductors that start anew notice that the database was restored while none ran
(`app.services.restoration`). A Redis that was emptied remembers nothing, and accuses nobody.
"""

import redis

from app.runtime import Runtime
from app.services import restoration

_RAISE = """
local known = tonumber(redis.call('GET', KEYS[1]) or '0')
if known < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return 0
"""


def _key(prefix: str) -> str:
    return f"{prefix}:watermark"


def recall(client: redis.Redis, prefix: str) -> int:
    """The highest mark that was ever written down here. Raises RedisError."""
    return int(client.get(_key(prefix)) or 0)


def write_down(runtime: Runtime, client: redis.Redis) -> None:
    """Note the mark of the database, if it is the highest so far. Raises RedisError."""
    with runtime.reading() as session:
        level = restoration.level(session)
    client.eval(_RAISE, 1, _key(runtime.settings.broker.prefix), level)
