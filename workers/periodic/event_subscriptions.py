"""
Subscriptions to the events of BMCs: order them, check them, and delete those that are not wanted.

A check of a subscription that is in order is one read of the BMC, in each interval of
`[redfish]event_check_interval`. The digest of its secret is recorded before it is ordered, and it
counts once the BMC lists it: a conductor that dies in between leaves a subscription that the next
check recognizes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from app.cluster import conductors
from app.db.clock import after, fixed, moment, now
from app.db.item_isolation import isolated
from app.db.prepared import Prepared
from app.hardware import targets
from app.inventory import event_subscriptions
from app.metrics.table import EVENT_SUBSCRIPTIONS
from app.models import EventSubscription, Node
from app.observe import log
from app.process import kill_points
from app.runtime import Runtime
from drivers.core.driver import interfaces_of
from drivers.core.errors import (
    Busy,
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    PasswordUnsettled,
    Refused,
    SecretsUnavailable,
)
from drivers.core.interface_kinds import Management
from drivers.core.kinds.events import Subscription
from drivers.core.target import Target
from workers.periodic import bmc_sweep
from workers.periodic.sensor_sweep import EXCLUDED

logger = log.get(__name__)

#: BMCs that are asked at a time, and seconds after which a pass begins no further one.
WORKERS, MOST = 16, 45.0
#: Intervals until a refused subscription is ordered again.
REFUSED_INTERVALS = 6
#: Seconds between two test events: a BMC sends them to its other subscribers, too.
TEST_INTERVAL = 86400.0
#: Seconds between attempts to leave a BMC, and age at which a subscription there is given up.
LEAVE_INTERVAL, GIVE_UP = 300.0, 86400.0
_LONGEST_ERROR = 1000

#: Errors of a BMC that will not answer otherwise soon.
_FINAL = (LoginRefused, NotSupported, InvalidDriverInfo)

_ROW: Any = EventSubscription.__table__.c
_IS_DUE = _ROW.due_at <= fixed(now())
#: A subscription: without one there is none to leave.
ROW_ONE = Prepared(select(_ROW.id).limit(1))


def check(runtime: Runtime, conductor: str) -> int:
    """Check the subscriptions of a conductor's nodes that are due; return how many."""
    url = runtime.settings.redfish.event_receiver_url
    if url is None:
        return 0
    is_due = or_(_ROW.id.is_(None), _IS_DUE)
    ids = bmc_sweep.owned_ids(runtime, conductor, _nodes().where(is_due))
    return _in_threads(ids, "events.not_checked", partial(_check, runtime, url))


def leave(runtime: Runtime, conductor: str) -> int:
    """Delete the subscriptions that are not wanted any more at their BMCs; return how many."""
    left_count = _in_threads(
        _departed(runtime, conductor), "events.not_left", partial(_leave_departed, runtime)
    )
    if runtime.settings.redfish.event_receiver_url is not None:
        return left_count
    ids = bmc_sweep.owned_ids(runtime, conductor, _nodes().where(_IS_DUE))
    return left_count + _in_threads(ids, "events.not_left", partial(_leave_node, runtime))


def _nodes() -> bmc_sweep.OwnersQuery:
    """Return the query for nodes whose BMC is contacted, as in a sweep, and their subscriptions."""
    return (
        select(*bmc_sweep.OWNING)
        .outerjoin(EventSubscription, _ROW.node_id == Node.id)
        .where(
            Node.reservation.is_(None),
            Node.maintenance.is_(False),
            Node.provision_state.not_in(EXCLUDED),
        )
    )


def _in_threads(ids: Sequence[int], event: str, work: Callable[[int], bool]) -> int:
    """Do work for several rows at a time, within `MOST` seconds; return how many it has done."""
    deadline = time.monotonic() + MOST

    def isolated_work(row_id: int) -> bool:
        if time.monotonic() > deadline:  # the next pass begins with it
            return False
        results = [False]
        with isolated(event, id=row_id):
            results.append(work(row_id))
        return results[-1]

    if not ids:
        return 0
    with ThreadPoolExecutor(min(WORKERS, len(ids))) as threads:
        return sum(threads.map(isolated_work, ids))


class _Check:
    """One check of a node's subscription."""

    def __init__(
        self, runtime: Runtime, url: str, node: Node, row: EventSubscription | None
    ) -> None:
        self._runtime, self._url, self._node, self._row = runtime, url, node, row
        self._mark = event_subscriptions.mark(node.uuid)
        self._digest = row.digest if row else None
        self._secret = ""

    def run(self) -> None:
        """
        Find the subscription, or order one; record that the BMC lists it, and order a test event.

        Raises HardwareError.
        """
        target, source = _source(self._runtime, self._node)
        path = self._row.path if self._row else None
        subscription = path and self._current(source.event_subscriptions(target, self._mark, path))
        if not subscription:
            listed = source.event_subscriptions(target, self._mark)
            subscription = self._current(listed)
            if subscription is None and not self._record_secret():
                return
            for outdated in listed:
                if outdated is not subscription:
                    source.unsubscribe(target, outdated.path)
        result = "kept"
        if not subscription:
            subscription, result = self._ordered(target, source), "ordered"
        EVENT_SUBSCRIPTIONS.add(result)
        self._record_listed(subscription.path)
        self._test(target, source)

    def _current(self, listed: Sequence[Subscription]) -> Subscription | None:
        """Return the subscription that receives the events of the node, if there is one."""
        return next(
            (
                subscription
                for subscription in listed
                if subscription.is_enabled
                and event_subscriptions.leads_here(
                    subscription.destination, self._url, self._node.uuid, self._digest
                )
            ),
            None,
        )

    def _record_secret(self) -> bool:
        """
        Make a secret, and record its digest; False if another conductor has recorded one since.

        Only then may subscriptions with other secrets be deleted: one may be that conductor's.
        """
        recorded_digest, self._secret = self._digest, event_subscriptions.new_secret()
        self._digest = event_subscriptions.digest(self._secret)
        values = {"digest": self._digest, "path": None, "subscribed_at": None, "tested_at": None}
        node_id = self._node.id
        with self._runtime.write_connection() as connection:
            if self._row is None:
                return _inserted(connection, node_id, values) == 1
            is_unchanged = _ROW.digest.is_not_distinct_from(recorded_digest)
            change = update(EventSubscription).where(_ROW.node_id == node_id, is_unchanged)
            return connection.execute(change.values(**values)).rowcount == 1

    def _ordered(self, target: Target, source: Management) -> Subscription:
        """
        Order a subscription with the recorded secret.

        Raises HardwareError: also if the BMC does not list it afterwards.
        """
        uuid = self._node.uuid
        destination = event_subscriptions.destination(self._url, uuid, self._secret)
        path = source.subscribe(target, destination, self._mark, f"ingot {uuid}")
        kill_points.reach("subscribed")
        subscription = self._current(source.event_subscriptions(target, self._mark, path))
        if subscription is None:
            raise Refused("the BMC has accepted a subscription to events, and does not list it")
        return subscription

    def _record_listed(self, path: str) -> None:
        interval = self._runtime.settings.redfish.event_check_interval
        with self._runtime.transaction() as session:
            row = session.scalar(self._own_row().with_for_update())
            if row is not None:
                row.subscribed_at = row.subscribed_at or moment(session)
                row.path, row.error, row.due_at = path, None, after(interval)
            self._row = row

    def _own_row(self) -> Select[EventSubscription]:
        return select(EventSubscription).where(
            _ROW.node_id == self._node.id, _ROW.digest == self._digest
        )

    def _test(self, target: Target, source: Management) -> None:
        """Order a test event, unless events arrive, or one was ordered within `TEST_INTERVAL`."""
        with self._runtime.reading() as session:
            row = session.scalar(self._own_row())
            if row is None or not _is_silent(row, moment(session)):
                return
        error = None
        try:
            source.submit_test_event(target)
        except Refused as refusal:
            error = str(refusal)[:_LONGEST_ERROR]
        with self._runtime.write_connection() as connection:
            change = update(EventSubscription).where(_ROW.id == row.id)
            connection.execute(change.values(tested_at=now(), error=error))


def _is_silent(row: EventSubscription, time_now: datetime) -> bool:
    """Whether no event was received or ordered since the subscription, or not for long."""
    since = row.subscribed_at or time_now
    moments = [at for at in (row.tested_at, row.received_at) if at is not None and at >= since]
    return not moments or (time_now - max(moments)).total_seconds() > TEST_INTERVAL


def _source(runtime: Runtime, node: Node) -> tuple[Target, Management]:
    """
    Return the target of a node, and the interface that subscribes to its events.

    Raises HardwareError.
    """
    target = targets.build(runtime, node)
    source: Management = interfaces_of(target).management
    if not source.sends_events:
        raise NotSupported(f"management_interface: {source.name} has no events")
    source.validate(target)
    return target, source


def _node_and_row(runtime: Runtime, node_id: int) -> tuple[Node | None, EventSubscription | None]:
    """Read a node and its subscription, as far as they exist."""
    with runtime.reading() as session:
        row = session.scalar(select(EventSubscription).where(_ROW.node_id == node_id))
        return session.get(Node, node_id), row


def _check(runtime: Runtime, url: str, node_id: int) -> bool:
    node, row = _node_and_row(runtime, node_id)
    if node is None:
        return False
    try:
        _Check(runtime, url, node, row).run()
    except (PasswordUnsettled, SecretsUnavailable):  # the BMC was not asked
        return False
    except HardwareError as error:
        is_refusal = isinstance(error, Refused | NotSupported | InvalidDriverInfo)
        EVENT_SUBSCRIPTIONS.add("refused" if is_refusal else "failed")
        _record_error(runtime, node_id, error, is_refusal=is_refusal)
    return True


def _record_error(
    runtime: Runtime, node_id: int, error: HardwareError, *, is_refusal: bool
) -> None:
    """Record why a check has failed; is_refusal: the BMC has no subscription, unless it is busy."""
    interval = runtime.settings.redfish.event_check_interval
    values: dict[str, Any] = {
        "error": str(error)[:_LONGEST_ERROR],
        "due_at": after(interval * (REFUSED_INTERVALS if is_refusal else 1)),
    }
    if is_refusal and not isinstance(error, Busy | LoginRefused):
        values |= {"path": None, "subscribed_at": None}
    with runtime.write_connection() as connection:
        change = update(EventSubscription).where(_ROW.node_id == node_id)
        if not connection.execute(change.values(**values)).rowcount:
            _inserted(connection, node_id, values)


def _inserted(connection: Connection, node_id: int, values: Mapping[str, Any]) -> int:
    """Insert the row of a node; return 0 if another conductor has, or the node is deleted."""
    try:
        with connection.begin_nested():
            connection.execute(insert(EventSubscription).values(node_id=node_id, **values))
    except IntegrityError:
        return 0
    return 1


def _leave_node(runtime: Runtime, node_id: int) -> bool:
    """Delete the subscriptions of a node, and its row."""
    node, row = _node_and_row(runtime, node_id)
    if node is None or row is None:
        return False
    return _left(runtime, node, row, is_ours=lambda _destination: True)


def _departed(runtime: Runtime, conductor: str) -> Sequence[int]:
    """Return the ids of the rows without a node that are due, of BMCs that the conductor serves."""
    members = conductors.members(runtime)
    with runtime.reading() as session:
        query = select(EventSubscription).where(_ROW.node_id.is_(None), _IS_DUE)
        rows = session.scalars(query.order_by(_ROW.due_at)).all()
    return [row.id for row in rows if bmc_sweep.is_owner(conductor, _former_node(row), members)]


def _former_node(row: EventSubscription) -> Node:
    """Return the node of a departed row, as far as it reaches the BMC."""
    access = row.departed or {}
    return Node(
        **access, instance_info={}, driver_internal_info={}, properties={}, extra={},
        network_data={},
    )  # fmt: skip


def _leave_departed(runtime: Runtime, row_id: int) -> bool:
    with runtime.reading() as session:
        row = session.get(EventSubscription, row_id)
    if row is None or row.node_id is not None:
        return False
    is_ours = partial(event_subscriptions.is_recorded, recorded_digest=row.digest)
    return _left(runtime, _former_node(row), row, is_ours)


def _left(
    runtime: Runtime, node: Node, row: EventSubscription, is_ours: Callable[[str], bool]
) -> bool:
    """
    Delete subscriptions at a BMC, then the row; try again later if the BMC does not answer.

    is_ours: of the destinations with the mark of the node.
    """
    try:
        if row.digest is not None:
            target, source = _source(runtime, node)
            mark = event_subscriptions.mark(node.uuid)
            for subscription in source.event_subscriptions(target, mark):
                if is_ours(subscription.destination):
                    source.unsubscribe(target, subscription.path)
    except HardwareError as error:
        with runtime.transaction() as session:
            since = row.departed_at or moment(session)
            is_hopeless = (moment(session) - since).total_seconds() > GIVE_UP
            if not (is_hopeless or isinstance(error, _FINAL)):
                values = {"error": str(error)[:_LONGEST_ERROR], "due_at": after(LEAVE_INTERVAL)}
                session.execute(update(EventSubscription).where(_ROW.id == row.id).values(**values))
                return False
        logger.warning("events.left_behind", node=node.uuid, detail=str(error))
    else:
        EVENT_SUBSCRIPTIONS.add("left")
    with runtime.write_connection() as connection:
        connection.execute(delete(EventSubscription).where(_ROW.id == row.id))
    return True
