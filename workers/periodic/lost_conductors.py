"""
Dead conductors: the leading beat logs each of them once, when its heartbeats stop.

The beat also runs when no conductor is alive, and only one beat leads. Redis has a key for each
logged incarnation, so that the next leader does not log it again.
"""

from dataclasses import dataclass, field

import redis
from sqlalchemy import Engine

from app.cluster import conductors
from app.db import transactions
from app.observe import log
from workers.periodic.database_contact import Contact

logger = log.get(__name__)

#: Seconds for which a logged incarnation is kept in Redis.
KEPT = 14 * 86400


@dataclass(slots=True)
class DeadConductorLog:
    engine: Engine
    client: redis.Redis
    prefix: str  # of keys in Redis
    timeout: float  # seconds without a heartbeat after which a conductor counts as dead
    contact: Contact
    _logged: set[str] = field(default_factory=set)  # incarnations

    def check(self) -> None:
        """
        Log the conductors that died since the last call.

        Call this only after a successful write to the database: while the database accepts no
        writes, no conductor can send a heartbeat.
        """
        if not self.contact.record():
            return
        with transactions.read_connection(self.engine) as connection:
            lost_conductors = conductors.lost(connection, self.timeout)
            living_count = len(conductors.alive(connection, self.timeout)) if lost_conductors else 0
        for name, incarnation, silence in lost_conductors:
            if incarnation not in self._logged and self._is_first(incarnation):
                logger.warning(
                    "conductor.lost",
                    conductor=name,
                    incarnation=incarnation,
                    silent_for=round(silence, 1),
                    conductors_left=living_count,
                )
        self._logged = {incarnation for _, incarnation, _ in lost_conductors}

    def _is_first(self, incarnation: str) -> bool:
        """Whether no other beat has logged the incarnation; True if Redis does not answer."""
        try:
            return bool(
                self.client.set(f"{self.prefix}:lost:{incarnation}", b"1", nx=True, ex=KEPT)
            )
        except (redis.RedisError, OSError):
            return True
