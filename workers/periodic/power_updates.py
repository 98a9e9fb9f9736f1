"""Reporting the power of machines with an instance to Nova."""

from typing import Any

from sqlalchemy import Row, Select, select

from app.events import change_events
from app.metrics.table import POWER_UPDATE_DELIVERIES, POWER_UPDATE_LAG
from app.models import ChangeEvent, ChangeType, Node, PowerUpdateCursor
from app.observe import log
from app.runtime import Runtime
from drivers.core.errors import HardwareError
from workers.periodic.delivery import Sent
from workers.periodic.sole_subscriber import SoleSubscriber

logger = log.get(__name__)
seldom = log.RateLimited(logger)

_EVENT: Any = ChangeEvent.__table__.c


class PowerUpdates(SoleSubscriber):
    """Deliveries of a process to Nova, its only subscriber."""

    name = "power_update"
    model = PowerUpdateCursor
    outcomes, lag = POWER_UPDATE_DELIVERIES, POWER_UPDATE_LAG

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, runtime.settings.nova.timeout)
        self._options = runtime.settings.options()["nova"]

    def selected(self, row: Row[Any]) -> Select[Any]:
        return change_events.ALL.where(_EVENT.type == ChangeType.POWER_STATE)

    def send(self, row: Row[Any], previous_sequence: int, page: change_events.Found) -> Sent:
        """
        Report the machines whose power has changed, in one request.

        Their present power: that of an event may be out of date when Nova answers again.
        """
        from drivers.net import power_events  # imports keystoneauth, which takes long

        uuids = {event.node_uuid for event in page.rows}
        present = select(Node.instance_uuid, Node.power_state).where(
            Node.uuid.in_(uuids),
            Node.instance_uuid.is_not(None),
            Node.power_state.in_(power_events.TAGS),
        )
        with self._runtime.read_connection() as connection:
            states = {str(instance): str(state) for instance, state in connection.execute(present)}
        if not states:
            return Sent(page.last)
        try:
            refused = power_events.send(self._options, states)
        except HardwareError as error:
            return Sent(row.position, str(error))
        for instance, status in refused.items():
            seldom.warning("power_update.not_taken", instance=instance, status=status)
        return Sent(page.last)
