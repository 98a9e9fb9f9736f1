"""Consoles: started after a deployment, and again by another conductor."""

import pytest

from app.engine import management, operations
from app.identity.caller import Caller
from app.models import Conductor, Fault, Node, NodeHistory
from drivers.core.errors import HardwareError
from drivers.core.steps import Failed
from drivers.fake.hardware import FakeConsole
from tests.integration.harness import Harness
from workers.periodic.consoles import Consoles

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def harness(inside):
    return Harness(inside)


@pytest.fixture
def started(monkeypatch):
    """The names of the nodes whose consoles were started, in order."""
    names, start = [], FakeConsole.start_console

    def start_console(console, target):
        names.append(target.name)
        return start(console, target)

    monkeypatch.setattr(FakeConsole, "start_console", start_console)
    return names


@pytest.mark.parametrize(("state", "verb"), [("available", "active"), ("active", "rebuild")])
def test_a_console_that_is_enabled_is_started_as_the_last_step_of_a_deployment(
    harness, started, state, verb
):
    node = harness.node(state, name="n1", console_enabled=True)
    assert "active" == harness.do(node, verb)
    assert ["n1"] == started
    assert ("console.restore_console", "done") == harness.labels(node)[-1]
    silent = harness.node(state)
    assert "active" == harness.do(silent, verb)
    assert "console.restore_console" not in dict(harness.labels(silent))


@pytest.mark.parametrize("outcome", ["raised", "returned"])
def test_a_console_that_does_not_start_fails_no_deployment(harness, monkeypatch, outcome):
    def start_console(console, target):
        if outcome == "raised":
            raise HardwareError("no more ports")
        return Failed("no more ports")

    monkeypatch.setattr(FakeConsole, "start_console", start_console)
    node = harness.node("available", console_enabled=True)
    assert "active" == harness.do(node, "active")
    row = harness.inside.read(node)
    message = "The console could not be started: no more ports"
    assert (False, message) == (row.console_enabled, row.last_error)
    with harness.inside.runtime.reading() as session:
        entries = session.query(NodeHistory).filter_by(node_id=node, event_type="console")
        assert [("ERROR", message)] == [(entry.severity, entry.event) for entry in entries]


def request_console(harness, node):
    with harness.inside.runtime.transaction() as session:
        management.request_console(session, operations.lock(session, node), True, Caller())
    harness.run()


def replace_conductor(harness, *, takes_over):
    """The conductor is gone: another one takes over, or it is back after a restart."""
    if takes_over:
        harness.inside.change(Conductor, "c-1", online=False)
    harness.conductor = harness.inside.conductor("c-2" if takes_over else "c-1")


@pytest.mark.parametrize("takes_over", [True, False])
def test_a_console_is_restored_when_its_conductor_has_changed(harness, started, takes_over):
    node, other = harness.node("active", name="n1"), harness.node("active", name="n2")
    request_console(harness, node)
    consoles = Consoles(harness.inside.runtime)
    assert 0 == consoles.restore()
    replace_conductor(harness, takes_over=takes_over)
    assert 1 == consoles.restore()
    harness.run()
    assert ["n1", "n1"] == started
    assert 0 == consoles.restore() == Consoles(harness.inside.runtime).restore()
    assert not harness.inside.read(other).console_enabled


def test_the_console_of_a_busy_node_is_restored_later(harness, started):
    node = harness.node("active", name="n1", console_enabled=True, reservation="c-1")
    consoles = Consoles(harness.inside.runtime)
    assert 0 == consoles.restore()
    harness.inside.change(Node, node, reservation=None)
    assert 1 == consoles.restore()
    harness.run()
    assert ["n1"] == started


def test_no_console_is_restored_after_a_restore_of_the_database(harness):
    harness.node("active", console_enabled=True, fault=Fault.RESTORED, maintenance=True)
    assert 0 == Consoles(harness.inside.runtime).restore()


def test_stopping_a_console_forgets_its_conductor(harness):
    node = harness.node("active")
    request_console(harness, node)
    assert harness.conductor.incarnation in harness.inside.read(node).driver_internal_info.values()
    with harness.inside.runtime.transaction() as session:
        management.request_console(session, operations.lock(session, node), False, Caller())
    harness.run()
    assert {} == harness.inside.read(node).driver_internal_info
