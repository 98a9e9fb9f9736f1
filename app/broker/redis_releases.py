"""
Releases of Redis and Valkey without known holes.
"""

import re
from collections.abc import Mapping
from contextlib import suppress

import redis

from app.observe import log

logger = log.get(__name__)

#: Product and series -> its first release without the holes of October 2025 (CVE-2025-46817 to
#: CVE-2025-46819, CVE-2025-49844): scripts of a client, of which every role sends some, could run
#: code in the server. Series after the last one have it.
LEAST: Mapping[tuple[str, tuple[int, int]], tuple[int, int, int]] = {
    ("redis", (6, 2)): (6, 2, 20),
    ("redis", (7, 2)): (7, 2, 11),
    ("redis", (7, 4)): (7, 4, 6),
    ("redis", (8, 0)): (8, 0, 4),
    ("redis", (8, 2)): (8, 2, 2),
    ("valkey", (7, 2)): (7, 2, 11),
    ("valkey", (8, 0)): (8, 0, 6),
    ("valkey", (8, 1)): (8, 1, 4),
}


def of(info: Mapping[str, object]) -> tuple[str, str]:
    """Return product and version of a server, by its answer to INFO."""
    product = "valkey" if "valkey_version" in info else "redis"
    return product, str(info.get(f"{product}_version", ""))


def warn(broker: "redis.Redis") -> None:
    """Log a warning if the server has known holes; a user that may not ask it is no reason."""
    with suppress(redis.RedisError):
        if problem := complaint(*of(broker.info("server"))):
            logger.warning("redis.outdated", detail=problem)


def complaint(product: str, version: str) -> str | None:
    """Describe the known hole of a release, if it has one, as a clause."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if match is None:
        return f"its version {version!r} is unknown"
    major, minor, patch = (int(part or 0) for part in match.groups())
    if minimum := LEAST.get((product, (major, minor))):
        if (major, minor, patch) >= minimum:
            return None
        return (
            f"{product} {version} has known holes: install {'.'.join(map(str, minimum))} or newer"
        )
    if (major, minor) > max(series for name, series in LEAST if name == product):
        return None
    return (
        f"{product} {version} is of a series that its project does not maintain: install a newer"
        " one, unless a distribution mends it"
    )
