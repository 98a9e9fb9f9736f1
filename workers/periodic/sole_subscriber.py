"""Delivery of change events to a service of the settings, which has the only row of a table."""

from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError

from app.events import change_events
from app.models import ChangeEvent
from app.observe import log
from app.runtime import Runtime
from workers.periodic.delivery import Deliverer

logger = log.get(__name__)


#: Seconds between two attempts, at most: after an outage of a minute or a day, a subscriber has its
#: events within another one.
MAX_RETRY_INTERVAL = 60.0


class SoleSubscriber(Deliverer):
    """Deliveries of a process to the only subscriber of its kind."""

    def __init__(self, runtime: Runtime, timeout: float) -> None:
        """Begin without a subscriber. timeout: seconds for it to accept events."""
        super().__init__(runtime, timeout, MAX_RETRY_INTERVAL)

    def start_due(self) -> None:
        self.begin()
        super().start_due()

    def begin(self) -> None:
        """Make the row after the newest event, unless there is one."""
        with self._runtime.read_connection() as connection:
            if connection.scalar(select(self.model.id)) is not None:
                return
        change_events.number(self._runtime)
        newest = select(func.coalesce(func.max(ChangeEvent.sequence), 0)).scalar_subquery()
        try:
            with self._runtime.write_connection() as connection:
                connection.execute(insert(self.model).values(id=1, position=newest))
        except IntegrityError:
            return  # another conductor was first
        logger.info(f"{self.name}s.begun")
