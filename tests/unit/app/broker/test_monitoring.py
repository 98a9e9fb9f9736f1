"""Task events: collected, and published in one message that Celery's receivers understand."""

from types import SimpleNamespace

import pytest
from celery import Celery
from structlog.testing import capture_logs

from app.broker import monitoring
from app.broker.messages import Link, Message
from app.observe import log

LABELS = ("deploy.prepare", "deploy.write_image", "deploy.boot_instance")


@pytest.fixture
def application(monkeypatch):
    """An application on a broker in memory, whose outbox has no thread."""
    with Celery("events", broker="memory://", set_as_current=False) as application:
        application.conf.worker_send_task_events = True
        application.outbox = monitoring.Outbox(application)
        application.outbox._thread = SimpleNamespace()
        monkeypatch.setattr(monitoring, "seldom", log.RateLimited(log.get("test")))
        yield application


@pytest.fixture
def state(application):
    """Return a function that publishes, and gives the state that a monitor then shows."""
    state = application.events.State()
    with application.connection_for_read() as connection:
        receiver = application.events.Receiver(connection, handlers={"*": state.event})
        with receiver.consumer_context():

            def published():
                application.outbox.publish()
                receiver.capture(limit=1, timeout=60, wakeup=False)
                return {task.name: task.state for task in state.tasks.values()}

            yield published


def message(**fields):
    links = tuple(Link(f"task-{at}", at, label) for at, label in enumerate(LABELS))
    return Message("c-1", "a-node", "an-operation", 7, links, **fields)


def test_the_links_of_a_chain_are_pending_and_those_that_it_drops_are_revoked(application, state):
    monitoring.announce(application, message(name="rack1-u01"), "conductor.c-1")
    assert dict.fromkeys(LABELS, "PENDING") == state()
    monitoring.withdraw(application, "c-1", message().links[1:])
    assert {LABELS[0]: "PENDING", LABELS[1]: "REVOKED", LABELS[2]: "REVOKED"} == state()


def test_nothing_is_collected_while_events_are_off(application):
    application.conf.worker_send_task_events = False
    monitoring.announce(application, message(), "q")
    monitoring.withdraw(application, "c-1", message().links)
    assert [] == application.outbox._events


def test_events_that_cannot_be_sent_are_left_out_and_logged(application, monkeypatch):
    def refused(**_options):
        raise ConnectionError("NOPERM this user has no permissions")

    monkeypatch.setattr(application.amqp.producer_pool, "acquire", refused)
    with capture_logs() as lines:
        for _ in range(3):
            monitoring.announce(application, message(), "q")
            application.outbox.publish()
    assert [("events.not_sent", "NOPERM this user has no permissions")] == [
        (line["event"], line["detail"]) for line in lines
    ]
    assert [] == application.outbox._events


def test_the_number_of_collected_events_is_bounded(application, monkeypatch):
    monkeypatch.setattr(monitoring, "MOST", 5)
    for _ in range(4):
        monitoring.announce(application, message(), "q")
    assert 5 == len(application.outbox._events)
