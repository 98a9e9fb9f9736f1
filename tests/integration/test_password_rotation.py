"""Rotation of BMC passwords by the service: killed anywhere, sealed, and without other logins."""

import json
import logging

import pytest
from sqlalchemy import Text, cast, select

from app.engine import operations
from app.hardware import targets
from app.models import Node
from drivers.builtin import HARDWARE_TYPES
from drivers.core import password_rotation
from drivers.core.bmc import Bmcs
from drivers.core.password_rotation import KEY
from drivers.core.registry import load
from drivers.simulator.simulator import running
from tests.integration.crash_harness import CONDUCTOR, IN_A_TRANSACTION, Interruption, opened
from tests.integration.harness import Acme, Harness, requested
from tests.unit.drivers.machines import scripted_agent
from workers.periodic import power_sync

ROTATE = requested("management", "rotate_bmc_password")
STATES = {"clean": "manageable", "service": "active"}


@pytest.fixture
def bmcs():
    with running(machines=1) as fleet:
        yield fleet


def enrolled(harness, machine, verb="clean", **columns):
    """Return the id of a new node of the machine, in the state in which a verb begins."""
    machine.password = "admin"
    node = harness.node(STATES[verb], driver_info=machine.driver_info(), **columns)
    harness.inside.change(Node, node, driver="redfish", power_state="power off")
    return node


def rotate(harness, node, verb="clean"):
    harness.ask(node, verb, **{f"{verb}_steps": [ROTATE]}, disable_ramdisk=True)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("verb", STATES)
def test_a_password_is_rotated_and_sealed_in_both_flows(sealed, bmcs, verb, caplog):
    caplog.set_level(logging.DEBUG)
    harness, machine = Harness(sealed), bmcs.machines[0]
    node = enrolled(harness, machine, verb)
    rotate(harness, node, verb)
    harness.run()
    row = sealed.read(node)
    stored = row.driver_internal_info[KEY]
    assert "admin" == stored["old"] == row.driver_info["redfish_password"]
    assert stored["new"] not in str(targets.build(sealed.runtime, row).record)
    assert stored["new"] not in text_of(sealed, Node.driver_internal_info)
    requests = machine.reads
    power_sync.sync(sealed.runtime, "c-1")
    assert (requests, 0) == (machine.reads, sealed.read(node).power_sync_failures)
    assert STATES[verb] == harness.poll(node)
    row = sealed.read(node)
    assert machine.password == row.driver_info["redfish_password"] == stored["new"]
    assert KEY not in row.driver_internal_info
    assert stored["new"] not in text_of(sealed, Node.driver_info)
    steps = [[step.args, step.progress, step.result] for step in harness.steps(node)]
    assert stored["new"] not in json.dumps(steps) + str(vars(harness.last(node))) + caplog.text
    power_sync.sync(sealed.runtime, "c-1")
    assert (0, 0) == (machine.wrong_logins, sealed.read(node).power_sync_failures)


def text_of(inside, column):
    """Return a column of all nodes as it is stored."""
    with inside.runtime.reading() as session:
        return str(session.scalars(select(cast(column, Text))).all())


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_two_nodes_with_one_user_of_a_bmc_are_refused(inside, bmcs):
    harness, machine = Harness(inside), bmcs.machines[0]
    node, _twin = enrolled(harness, machine), enrolled(harness, machine, name="its-twin")
    rotate(harness, node)
    harness.run()
    assert "clean failed" == harness.state(node)
    assert "node its-twin has the same user" in inside.read(node).last_error
    assert "admin" == machine.password


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_crash_or_pause_at_any_kill_point_loses_no_password(inside, bmcs, monkeypatch):
    machine = bmcs.machines[0]
    with scripted_agent() as agent, opened(inside, agent, monkeypatch) as harness:
        inside.runtime.drivers = load([*HARDWARE_TYPES, Acme], bmcs=Bmcs(trip_after=100))

        def run(interruption):
            node = enrolled(harness, machine)
            harness.begin(interruption)
            rotate(harness, node)
            harness.drive()
            row = inside.read(node)
            assert machine.password == row.driver_info["redfish_password"] != "admin"
            assert KEY not in row.driver_internal_info
            with harness.runtime.reading() as session:
                assert "succeeded" == operations.of_node(session, node)[0].state
            inside.change(Node, node, driver_info={})  # no other node has the user

        run(None)
        reached = [(*place, count) for place, count in harness.reached.items()]
        assert (CONDUCTOR, "acted", 2) in [it for it in reached if it[1] == "acted"]
        for role, point, count in reached:
            for nth in range(1, count + 1):
                run(Interruption(role, point, nth))
                if point not in IN_A_TRANSACTION:
                    run(Interruption(role, point, nth, pause=True))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_bmc_that_accepts_neither_password_keeps_both_and_is_left_alone(
    inside, bmcs, monkeypatch
):
    monkeypatch.setattr(password_rotation, "ROUNDS", (0.0,))
    harness, machine = Harness(inside), bmcs.machines[0]
    node = enrolled(harness, machine)
    rotate(harness, node)
    harness.run()
    machine.password = "of-nobody"
    machine.sessions.clear()
    harness.poll(node)
    assert "clean failed" == harness.poll(node)
    row = inside.read(node)
    assert "accepts neither the old nor the new password" in row.last_error
    assert row.driver_internal_info[KEY]["unsettled"]
    wrong = machine.wrong_logins
    inside.change(Node, node, maintenance=False, fault=None)
    power_sync.sync(inside.runtime, "c-1")
    assert (wrong, 0) == (machine.wrong_logins, inside.read(node).power_sync_failures)
    machine.password = row.driver_internal_info[KEY]["new"]
    inside.change(Node, node, provision_state="manageable")
    rotate(harness, node)
    harness.run()
    assert "manageable" == harness.state(node)
    assert machine.password == inside.read(node).driver_info["redfish_password"]
