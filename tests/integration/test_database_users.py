"""Periodic tasks and counts as the users that a conductor and the beat have in PostgreSQL."""

import base64
import uuid
from contextlib import nullcontext

import pytest
from sqlalchemy import Text, cast, func, select, text
from sqlalchemy.exc import ProgrammingError

from app.baselines import baselines
from app.db import connections, transactions
from app.db.clock import utcnow
from app.db.master_keys import masters_of
from app.errors import QuotaReached
from app.events import change_events
from app.inventory import quotas
from app.models import (
    Answered,
    ApiToken,
    AuditRecord,
    BaselineNode,
    ChangeEvent,
    Compliance,
    Conductor,
    Node,
    NodeHistory,
    NotificationCursor,
    Quota,
    Webhook,
)
from app.reports import fleet_counts
from app.rows import data_keys
from tests.support.database_users import grant, url_of
from tests.support.inside import Inside
from tests.support.local_users import Directory
from workers.periodic.database_contact import Contact
from workers.periodic.notifications import Notifications
from workers.periodic.reconciler import reconcile
from workers.periodic.schedule import PERIODIC, Control, has_work
from workers.periodic.webhooks import Webhooks

pytestmark = pytest.mark.parametrize("database", ["postgresql"], indirect=True)
#: Without a RabbitMQ.
NOWHERE = "rabbit://127.0.0.1:1/"
KEY = base64.b64encode(b"k" * 32).decode()
#: All rows are older than this.
LIFETIMES = {
    "INGOT_AUDIT_KEEP_DAYS": "1",
    "INGOT_IDENTITY_ENDED_TOKENS_LIFETIME": "1", "INGOT_CONDUCTOR_CHANGE_EVENTS_LIFETIME": "1",
    "INGOT_CONDUCTOR_CONDUCTOR_CLEANUP_TIMEOUT": "60",
    "INGOT_CONDUCTOR_NODE_HISTORY_MAX_ENTRIES": "1",
    "INGOT_CONDUCTOR_NODE_HISTORY_MINIMUM_DAYS": "0",
}  # fmt: skip
#: Table -> its column of time, and the rows that the periodic tasks leave.
PRUNED = {
    Answered: ("created_at", 0), AuditRecord: ("created_at", 0), ApiToken: ("expires_at", 0),
    ChangeEvent: ("created_at", 2), NodeHistory: ("created_at", 1), Conductor: ("heartbeat_at", 0),
}  # fmt: skip


@pytest.fixture
def aged(inside):
    """A database with rows of a year ago in all tables that are pruned."""
    node = inside.node(driver_info={"redfish_password": "calvin"})
    directory = Directory(inside.runtime.transaction)
    directory.user("ann", ("reader", None))
    directory.token("ann")
    inside.conductor("lost")
    entry = {"node_id": node, "severity": "INFO", "event_type": "x", "event": "y"}
    with inside.runtime.transaction() as session:
        session.add(Answered(caller="c", key="k", request="r", status=202))
        session.add(AuditRecord(created_at=utcnow(), action="a", outcome="success", auth="noauth"))
        session.add_all(
            NodeHistory(uuid=str(uuid.uuid4()), created_at=utcnow(), **entry) for _ in range(2)
        )
        data_keys.rotate(session.connection(), masters_of(KEY))
    with inside.runtime.transaction() as session:
        for model, (column, _) in PRUNED.items():
            session.execute(text(f"UPDATE {model.__tablename__} SET {column} = '2020-01-01'"))
        session.execute(text("UPDATE data_keys SET created_at = '2020-01-01'"))
    grant(inside.url)
    return inside


def test_a_conductor_runs_all_periodic_tasks(aged):
    change_events.number(aged.runtime)
    rule = {"field": "memory_mb", "operator": "=", "value": 1}
    with aged.runtime.transaction() as session:
        fields = {"name": "b", "selection": "uuid=*", "expected": [rule]}
        baselines.create(session, fields)
    limited = Inside(
        url_of("conductor", aged.url),
        INGOT_DATABASE_SECRETS_KEY=KEY,
        INGOT_NOTIFICATION_LEVEL="info",
        INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL=NOWHERE,
        **LIFETIMES,
    )
    runtime, contact = limited.runtime, Contact(60)
    notifications = Notifications(runtime, "c-1")
    control = Control(
        runtime,
        "c-1",
        lambda: reconcile(runtime, contact, lambda _name: 0),
        Webhooks(runtime),
        notifications,
    )
    try:
        notifications.start_due()
        aged.node()  # after the first notification's place
        for task in PERIODIC:
            task.run(control)
        notifications.close()
    finally:
        limited.close()
    with transactions.reading(aged.runtime.engine) as session:
        counts = {
            model: session.scalar(select(func.count()).select_from(model)) for model in PRUNED
        }
        assert Compliance.UNKNOWN in session.scalars(select(BaselineNode.state)).all()
        assert "RabbitMQ" in str(session.scalar(select(NotificationCursor.last_error)))
        assert {model: rows for model, (_, rows) in PRUNED.items()} == counts
        assert "calvin" not in str(session.scalar(select(cast(Node.driver_info, Text))))


def test_the_beat_finds_out_which_tasks_have_work(aged):
    with aged.runtime.transaction() as session:
        session.add(
            Webhook(
                uuid=str(uuid.uuid4()),
                name="w",
                position=0,
                url="https://events.example/",
                secret="s" * 32,
            )
        )
    engine = connections.connect(url_of("beat", aged.url))
    try:
        idle = {task.name for task in PERIODIC if not has_work(engine, task.name)}
    finally:
        engine.dispose()
    assert "ingot.deliver_webhooks" not in idle
    assert {
        "ingot.check_allocations",
        "ingot.check_switch_ports",
        "ingot.compare_baselines",
        "ingot.advance_rollouts",
        "ingot.end_expired_holds",
        "ingot.leave_bmcs",
        "ingot.read_bmc_changes",
    } == idle


@pytest.mark.parametrize("role", ["api", "conductor"])
def test_a_role_leases_nodes_within_the_quota_and_only_the_api_changes_it(inside, role):
    with inside.runtime.transaction() as session:
        quotas.create(session, {"project": "blue", "node_limit": 1})
    inside.node(lessee="blue")
    grant(inside.url)
    limited = Inside(url_of(role, inside.url))
    try:
        with limited.runtime.transaction() as session:
            quotas.check(session, Node(), "red")
            with pytest.raises(QuotaReached):
                quotas.check(session, Node(), "blue")
        refusal = pytest.raises(ProgrammingError, match="permission denied")
        with refusal if role == "conductor" else nullcontext():
            limited.change(Quota, 1, node_limit=2)
    finally:
        limited.close()


def test_the_beat_counts_the_fleet_for_its_metrics(aged):
    aged.conductor("c-1")
    with aged.runtime.transaction() as session:
        quotas.create(session, {"project": "blue", "node_limit": 1})
    aged.request(aged.node(), "manage")
    with aged.runtime.transaction() as session:
        session.add(NotificationCursor(id=1, position=0))
    engine = connections.connect(url_of("beat", aged.url))
    try:
        with transactions.reading(engine) as session:
            counts = list(fleet_counts.in_database(session, 60, 60))
    finally:
        engine.dispose()
    assert {("enroll",), ("blue",)} <= {labels for _, labels, _ in counts}
