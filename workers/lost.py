"""
Lost conductors: logged once when their signs of life stop, by the beat that leads.

The beat lives where no conductor does any more, and only one of them leads. What was logged is
noted in Redis, so that the next leader does not log it again.
"""

from dataclasses import dataclass, field

import redis
from sqlalchemy import Engine

from app import db, log
from app.services import conductors
from workers.reconciler import Contact

logger = log.get(__name__)

#: Seconds for which it is noted that a loss was logged.
NOTED = 14 * 86400


@dataclass(slots=True)
class Lookout:
    """timeout: seconds of silence after which a conductor counts as dead."""

    engine: Engine
    client: redis.Redis
    prefix: str
    timeout: float
    contact: Contact
    _logged: set[str] = field(default_factory=set)

    def look(self) -> None:
        """
        Log the conductors that were lost since the last look. To be called after each successful
        write to the database: while that takes none, all conductors are silent.
        """
        if not self.contact.made():
            return
        with db.looking(self.engine) as connection:
            lost = conductors.lost(connection, self.timeout)
            left = len(conductors.alive(connection, self.timeout)) if lost else 0
        for name, incarnation, silent in lost:
            if incarnation not in self._logged and self._is_first(incarnation):
                logger.warning(
                    "conductor.lost",
                    conductor=name,
                    incarnation=incarnation,
                    silent_for=round(silent, 1),
                    conductors_left=left,
                )
        self._logged = {incarnation for _, incarnation, _ in lost}

    def _is_first(self, incarnation: str) -> bool:
        """Whether no other beat has logged it; without Redis that is not known."""
        try:
            return bool(
                self.client.set(f"{self.prefix}:lost:{incarnation}", b"1", nx=True, ex=NOTED)
            )
        except (redis.RedisError, OSError):
            return True
