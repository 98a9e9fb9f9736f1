"""
Reads of BMCs that have sent an event: their power or sensors are read as a sweep reads them.

A read that is lost with its conductor is left to the sweep.
"""

from sqlalchemy import select

from app.cluster import conductors
from app.db.clock import fixed, moment, now
from app.inventory.bmc_events import OLDEST_HINT
from app.models import EventSubscription, Node
from app.runtime import Runtime
from workers.periodic import bmc_sweep, power_sync, sensor_sweep

#: Most BMCs of one run.
_PAGE = 500


def read_changes(runtime: Runtime, conductor: str) -> dict[str, list[int]]:
    """Read what the events of a conductor's BMCs tell of; return the ids of the nodes by fact."""
    ids = _taken(runtime, conductor)
    if ids["power"]:
        power_sync.sync_nodes(runtime, ids["power"])
    if ids["sensors"] and runtime.settings.sensor_data.send_sensor_data:
        sensor_sweep.read_nodes(runtime, conductor, ids["sensors"])
    return ids


def _taken(runtime: Runtime, conductor: str) -> dict[str, list[int]]:
    """
    Take the reads that are due, so that a later event orders the next one.

    Old ones of nodes that no conductor serves are dropped by any of them.
    """
    ids: dict[str, list[int]] = {"power": [], "sensors": []}
    members = conductors.members(runtime)
    query = (
        select(EventSubscription, Node.uuid, Node.driver, Node.conductor_group)
        .join(Node, Node.id == EventSubscription.node_id)
        .where(EventSubscription.hint_due_at <= fixed(now()))
        .order_by(EventSubscription.hint_due_at)
        .limit(_PAGE)
        .with_for_update(of=EventSubscription, skip_locked=True)
    )
    with runtime.transaction() as session:
        time_now = moment(session)
        for row in session.execute(query):
            subscription: EventSubscription = row[0]
            due_at = subscription.hint_due_at or time_now
            if bmc_sweep.is_owner(conductor, row, members):
                for fact in subscription.hints.split():
                    ids[fact].append(subscription.node_id or 0)
            elif (time_now - due_at).total_seconds() < OLDEST_HINT:
                continue
            subscription.hints, subscription.hint_due_at = "", None
            subscription.hint_read_at = time_now
    return ids
