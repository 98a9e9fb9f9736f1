"""A receiver of webhooks and a deliverer, and what they have done."""

from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import select

from app.events import change_events, webhooks
from app.models import ChangeEvent, Node, Webhook
from tests.support.receiver import SECRET, receiving
from workers.periodic.webhooks import Webhooks


@pytest.fixture
def deliverer(inside):
    """A deliverer whose attempts do not end by the slowness of this machine."""
    configure(inside, timeout=60.0)
    instance = Webhooks(inside.runtime)
    yield instance
    instance.close()


def configure(inside, **values):
    settings = inside.runtime.settings
    inside.runtime.settings = replace(settings, webhooks=replace(settings.webhooks, **values))


@pytest.fixture
def receiver():
    with receiving() as server:
        yield server


def create(inside, receiver, **fields):
    """Create a webhook, and return its id."""
    change_events.number(inside.runtime)
    columns = {"name": receiver.url.rpartition(":")[2], "url": receiver.url, "secret": SECRET}
    with inside.runtime.transaction() as session:
        hook = webhooks.create(session, columns | fields)
        session.flush()
        return hook.id


def read(inside, hook):
    with inside.runtime.reading() as session:
        return session.get_one(Webhook, hook)


def due(inside, hook):
    """End the pause before the next attempt, or the lease of an attempt."""
    inside.change(Webhook, hook, due_at=datetime(2000, 1, 1))


def drain(inside, deliverer, hook):
    """Deliver until there is nothing left or an attempt fails."""
    change_events.number(inside.runtime)
    while deliverer.deliver(hook):
        pass


def changed(inside, node, times=1):
    """Change a node: each time is one event."""
    for number in range(times):
        maintenance = inside.read(node).maintenance
        inside.change(Node, node, maintenance=not maintenance, description=str(number))


def sequences(inside):
    change_events.number(inside.runtime)
    with inside.runtime.read_connection() as connection:
        return connection.scalars(select(ChangeEvent.sequence).order_by(ChangeEvent.sequence)).all()
