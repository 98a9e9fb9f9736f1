"""Reads of BMCs that have sent an event."""

import pytest
from sqlalchemy import select, update

from app.db.clock import after, now
from app.models import EventSubscription, Node, NodeSensors
from drivers.core.kinds.power_pursuit import PENDING
from workers.periodic import bmc_event_reads

BOTH = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def settings(settings):
    return settings | {
        "INGOT_SENSOR_DATA_SEND_SENSOR_DATA": "true",
        "INGOT_CONDUCTOR_FORCE_POWER_STATE_DURING_SYNC": "false",
    }


def hinted(view, machine, hints, due_at=None, **columns):
    """Create a node whose BMC has sent an event."""
    columns = {"management_interface": "redfish", "power_state": "power off", **columns}
    node = view.node("active", driver_info=machine.driver_info(), **columns)
    view.change(Node, node, driver="redfish")
    with view.runtime.transaction() as session:
        values = {"hints": hints, "hint_due_at": now() if due_at is None else due_at}
        session.add(EventSubscription(node_id=node, **values))
    return node


def read(view):
    return bmc_event_reads.read_changes(view.runtime, "c-1")


def row(view):
    with view.runtime.reading() as session:
        return session.scalars(select(EventSubscription)).one()


@BOTH
def test_the_power_is_read_once_from_the_machine(view, fleet):
    machine = fleet.machines[0]
    node = hinted(view, machine, "power")
    assert {"power": [node], "sensors": []} == read(view)
    assert "power off" == view.read(node).power_state  # as the machine is
    machine.power = "On"
    assert {"power": [], "sensors": []} == read(view)
    view.change(EventSubscription, row(view).id, hints="power", hint_due_at=now())
    read(view)
    assert "power on" == view.read(node).power_state
    assert None is row(view).hint_due_at
    assert None is not row(view).hint_read_at


@SQLITE
def test_the_sensors_are_read_as_the_sweep_reads_them(view, fleet):
    node = hinted(view, fleet.machines[0], "power sensors")
    hinted(view, fleet.machines[1], "sensors", maintenance=True)
    read(view)
    with view.runtime.reading() as session:
        assert [node] == list(session.scalars(select(NodeSensors.node_id)))


@SQLITE
def test_a_read_that_is_not_due_is_not_made(view, fleet):
    hinted(view, fleet.machines[0], "power", after(60))
    assert {"power": [], "sensors": []} == read(view)
    assert "power" == row(view).hints


@SQLITE
@pytest.mark.parametrize("columns", [{"maintenance": True}, {"reservation": "c-1"}])
def test_nodes_that_the_sweep_leaves_out_are_not_read(view, fleet, columns):
    machine = fleet.machines[0]
    machine.power = "On"
    node = hinted(view, machine, "power", **columns)
    read(view)
    assert ("power off", 0) == (view.read(node).power_state, machine.reads)


@SQLITE
def test_a_bmc_that_sends_and_does_not_answer_is_left_to_the_sweep(view, fleet):
    fleet.set_faults(0, bmc_dead=True)
    node = hinted(view, fleet.machines[0], "power")
    for _ in range(6):
        view.change(EventSubscription, row(view).id, hints="power", hint_due_at=now())
        read(view)
    node = view.read(node)
    assert (0, False, None) == (node.power_sync_failures, node.maintenance, node.fault)


@SQLITE
def test_an_order_of_unknown_effect_is_left_to_the_sweep(view, fleet):
    pending = {PENDING: {"state": "power on", "sweeps": 0}}
    node = hinted(view, fleet.machines[0], "power", driver_internal_info=pending)
    read(view)
    assert pending == view.read(node).driver_internal_info


@SQLITE
def test_the_events_of_nodes_of_others_wait_for_them_for_a_while(view, fleet):
    node = hinted(view, fleet.machines[0], "power")
    view.change(Node, node, conductor_group="elsewhere")
    assert {"power": [], "sensors": []} == read(view)
    assert "power" == row(view).hints
    with view.runtime.transaction() as session:
        session.execute(update(EventSubscription).values(hint_due_at=after(-70)))
    assert {"power": [], "sensors": []} == read(view)
    assert "" == row(view).hints  # no conductor serves it
