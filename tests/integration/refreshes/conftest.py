"""Refreshes of nodes of fake hardware, and what they leave in the database."""

import pytest
from sqlalchemy import select

from app.api.schemas.baselines import BaselineCreate
from app.baselines import baselines
from app.engine import operations, refreshes
from app.identity.caller import Caller
from app.inventory import hardware_inventory
from app.models import (
    ChangeEvent,
    Node,
    NodeInventory,
    NodeRefresh,
)
from app.reports import why
from drivers.core.target import BmcInventory
from drivers.fake.hardware import FakeManagement
from tests.integration.harness import Harness

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
MEMORY = {"field": "memory_mb", "operator": ">=", "value": 32768}
BMC = {"field": "firmware.bmc", "operator": "=", "value": "2.10"}
MACHINE = {"memory": {"physical_mb": 65536}, "disks": [{"name": "sda", "serial": "S1", "size": 9}]}
SMALLER = {"memory": {"physical_mb": 32768}, "disks": [{"name": "sda", "serial": "S2", "size": 9}]}


@pytest.fixture
def harness(inside):
    return Harness(inside)


@pytest.fixture
def shows(monkeypatch):
    """Return a function that sets what the BMC of fake hardware shows."""

    def show(inventory, unread=()):
        def read(_interface, target):
            if isinstance(inventory, Exception):
                raise inventory
            target.report(inventory=BmcInventory(inventory, unread))

        monkeypatch.setattr(FakeManagement, "read_inventory", read, raising=False)

    return show


def ask(harness, node):
    with harness.inside.runtime.transaction() as session:
        refreshes.request(session, operations.lock(session, node), Caller(user_id="ada"))


def refresh(harness, node):
    """Refresh a node; return the state of the operation."""
    ask(harness, node)
    harness.run()
    return harness.last(node).state


def result(harness, node):
    with harness.inside.runtime.reading() as session:
        return session.get(NodeRefresh, node)


def changes(harness, node):
    return [tuple(change.values()) for change in result(harness, node).changes]


def rows(harness, model, node):
    with harness.inside.runtime.reading() as session:
        query = select(model).where(model.node_id == node)
        return list(session.scalars(query.order_by(*model.__table__.primary_key)))


def told(harness, node):
    with harness.inside.runtime.reading() as session:
        return why.explain(session, session.get_one(Node, node)).summary


def events(harness, node):
    uuid = harness.inside.read(node).uuid
    with harness.inside.runtime.reading() as session:
        query = select(ChangeEvent.operation_uuid, ChangeEvent.after).where(
            ChangeEvent.type == "node.facts", ChangeEvent.node_uuid == uuid
        )
        return [tuple(row) for row in session.execute(query)]


#: Columns of a node that any operation changes.
_OF_WORK = {"fence", "operation_id", "reservation", "updated_at"}


def columns(harness, node):
    row = harness.inside.read(node)
    return {
        column.key: getattr(row, column.key)
        for column in Node.__table__.c
        if column.key not in _OF_WORK
    }


def create_baseline(harness, *rules):
    body = {"name": "base", "selection": "driver=redfish", "expected": list(rules)}
    with harness.inside.runtime.transaction() as session:
        baselines.create(session, BaselineCreate().load(body))


def inspected(harness, node, inventory, source):
    with harness.inside.runtime.transaction() as session:
        row = session.get_one(Node, node)
        hardware_inventory.store(session, row, inventory, {"kept": True}, source)


def inventory_of(harness, node):
    (row,) = rows(harness, NodeInventory, node)
    return row
