"""A crash or pause of any process at any kill point: each flow ends, and repeats no command."""

import os
from collections import Counter
from dataclasses import dataclass, field
from zlib import crc32

import pytest
from sqlalchemy import select

from app.engine import operations, power
from app.engine.records import sanitation
from app.identity.caller import Caller
from app.models import Benchmark, SanitationReport
from tests.integration.crash_harness import (
    API,
    CONDUCTOR,
    IN_A_TRANSACTION,
    NOW,
    WAKER,
    Interruption,
    opened,
)
from tests.integration.harness import Acme, requested
from tests.unit.drivers.machines import image_server, scripted_agent

#: Delays of fake hardware, so that its steps have to be polled.
SETTINGS = {
    "INGOT_AGENT_REQUIRE_TLS": "false",
    "INGOT_AGENT_POST_DEPLOY_GET_POWER_STATE_RETRIES": "0",
    "INGOT_FAKE_DEPLOY_DELAY": "1",
    "INGOT_FAKE_INSPECT_DELAY": "1",
    "INGOT_FAKE_POWER_DELAY": "1",
}
#: Effects on a machine that must not be repeated.
ONCE = {"execute_clean_step", "execute_deploy_step", "execute_service_step",
        "install_bootloader", "finalize_rescue", "power_off"}  # fmt: skip
SCRUB = requested("management", "scrub", args={"level": "deep"})
METRICS = {"fio.read": 512, "fio.write": 256}
BURN, POLISH = requested("deploy", "burn"), requested("management", "polish")


@dataclass(frozen=True)
class Flow:
    """
    A verb requested of a node in a state, the state at its end, and the end of its operation.

    first_request: verb requested before, up to its first wait.
    """

    verb: str
    begins: str
    ends: str
    agent: bool = True
    arguments: dict = field(default_factory=dict)
    first_request: tuple = ()
    operation: str = "succeeded"


FLOWS = {
    "manage": Flow("manage", "enroll", "manageable", agent=False),
    "inspect": Flow("inspect", "manageable", "manageable", agent=False),
    "provide": Flow("provide", "manageable", "available"),
    "clean": Flow("clean", "manageable", "manageable",
                  arguments={"clean_steps": [requested("deploy", "erase_devices"), SCRUB]}),
    "active": Flow("active", "available", "active"),
    "fake active": Flow("active", "available", "active", agent=False),
    "rebuild": Flow("rebuild", "active", "active", agent=False),
    "deleted": Flow("deleted", "active", "available", agent=False),
    "rescue": Flow("rescue", "active", "rescue", arguments={"rescue_password": "x"}),
    "unrescue": Flow("unrescue", "rescue", "active", agent=False),
    "service": Flow("service", "active", "active", arguments={"service_steps": [BURN, POLISH]}),
    "fake service": Flow("service", "active", "active", agent=False,
                         arguments={"service_steps": [requested("management", "crawl")]}),
    "adopt": Flow("adopt", "manageable", "active", agent=False),
    "power": Flow("power", "active", "active", agent=False),
    "abort": Flow("abort", "available", "deploy failed", first_request=("active", {}),
                  operation="aborted"),
    "instead": Flow("deleted", "available", "available", agent=False, first_request=("active", {})),
}  # fmt: skip


@pytest.fixture
def harness(inside, monkeypatch):
    inside.environ.update(SETTINGS)
    with scripted_agent() as agent, image_server() as images:
        images.files["/disk.raw"] = bytes(512)
        plain = inside.another()
        with opened(plain, agent, monkeypatch) as harness:
            harness.offer("clean", ("deploy", "erase_devices", 10))
            harness.offer("deploy", ("deploy", "check", 50))
            harness.offer("service", ("deploy", "burn", 0))
            url = f"{images.url}/disk.raw"
            harness.image = {"image_source": url, "image_checksum": "a" * 64}
            yield harness
        plain.close()


def begin(harness, flow, interruption, *, lossy=False):
    """Run a new node through a flow; return its id."""
    interfaces = {"deploy_interface": "direct", "rescue_interface": "agent"} if flow.agent else {}
    state = {"power_state": "power on"} if flow.begins == "active" else {}
    node = harness.node(flow.begins, instance_info=harness.image, **interfaces, **state)
    harness.begin(None)
    if flow.first_request:
        verb, arguments = flow.first_request
        harness.ask(node, verb, **arguments)
        while harness.queue:
            harness._deliver()
    harness.begin(interruption, lossy=lossy)
    if flow.verb == "power":
        switch(harness, node)
    else:
        harness.ask(node, flow.verb, **flow.arguments)
    harness.drive()
    return node


def switch(harness, node):
    """Request a reboot, and retry until the API has accepted it."""
    while not operations_of(harness, node):
        with harness.acting_as(harness.api), harness.runtime.transaction() as session:
            row = operations.lock(session, node)
            power.request(session, row, "rebooting", None, Caller())
        harness.api.up = True


def operations_of(harness, node):
    with harness.runtime.reading() as session:
        return operations.of_node(session, node)


def orders(harness):
    """Commands to the agent, each with its step."""
    return Counter(
        (name, str(params.get("step", {}).get("ingot_step")))
        for name, params in harness.agent.received
        if name.partition(".")[2] in ONCE
    )


def check(harness, flow, node):
    """Assert that no work is left, lost or recorded twice; return the operation."""
    row, operation = harness.inside.read(node), operations_of(harness, node)[0]
    assert (flow.ends, None, None) == (row.provision_state, row.reservation, row.operation_id)
    assert flow.operation == operation.state
    assert [] == harness.queue
    assert {} == harness.keys
    steps = harness.inside.steps(operation.uuid)
    assert {"done", "aborted", "skipped"} >= {step.state for step in steps}
    assert {1} == {count for count in harness.wrote.values() if count}
    if operation.kind in sanitation.KINDS:
        with harness.runtime.reading() as session:
            of_operation = SanitationReport.operation_uuid == operation.uuid
            assert 1 == len(session.scalars(select(SanitationReport).where(of_operation)).all())
    with harness.runtime.reading() as session:
        of_operation = Benchmark.operation_uuid == operation.uuid
        numbers = session.scalars(select(Benchmark.value).where(of_operation)).all()
    assert list(METRICS.values() if harness.step_result else ()) == numbers
    twice = {order: count for order, count in orders(harness).items() if count > 1}
    assert {} == twice
    return operation


def interruptions(name, reached):
    """
    Crashes and pauses at each kill point that a run has reached: at one occurrence, which varies
    by flow.

    With INGOT_EVERY_KILL_POINT in the environment, at every occurrence; that takes half an hour.
    """
    every = "INGOT_EVERY_KILL_POINT" in os.environ
    for (role, point), count in sorted(reached.items()):
        some = 1 + crc32(f"{name} {role} {point}".encode()) % count
        for nth in range(1, count + 1) if every else [some]:
            yield Interruption(role, point, nth)
            if point not in IN_A_TRANSACTION:
                yield Interruption(role, point, nth, pause=True)


def interrupt_each(harness, name, *, lossy=False, roles=(API, CONDUCTOR, WAKER, NOW)):
    """Run a flow without interruption, then again with each interruption of the roles."""
    flow = FLOWS[name]
    node = begin(harness, flow, None, lossy=lossy)
    assert not any(step.deaths for step in harness.inside.steps(check(harness, flow, node).uuid))
    reached, did, commands = Counter(harness.reached), Counter(Acme.did), orders(harness)
    for interruption in interruptions(name, reached):
        if interruption.role not in roles:
            continue
        node = begin(harness, flow, interruption, lossy=lossy)
        try:
            assert harness.interrupted, "the point was not reached"
            operation = check(harness, flow, node)
            assert 1 >= sum(step.deaths for step in harness.inside.steps(operation.uuid))
            assert Counter() == did - Counter(Acme.did), "a step did not run"
            assert sum((Counter(Acme.did) - did).values()) <= 2, "more than one step was repeated"
            assert len(commands) == len(orders(harness))
            if interruption.pause and interruption.point in ("acted", "freed"):
                assert 1 == operation.refused
        except AssertionError as error:
            raise AssertionError(f"{name}, {interruption}: {error}") from error
    return {point for _, point in reached}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_completes_after_a_crash_or_pause_at_any_kill_point(harness, name):
    always = {"handed_out", "committed", "sent", "received", "leased", "claimed", "acted", "freed",
              "recorded"}  # fmt: skip
    assert always <= interrupt_each(harness, name)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_measured_numbers_are_recorded_once_after_a_crash_or_pause_at_any_kill_point(harness):
    harness.step_result = {"metrics": METRICS}
    assert {"acted", "recorded"} <= interrupt_each(harness, "clean")


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_flow_completes_after_a_crash_or_pause_with_postgresql(harness):
    assert "waking" in interrupt_each(harness, "fake service")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["inspect", "service", "abort"])
def test_a_flow_driven_by_the_reconciler_alone_completes_after_its_crash_or_pause(harness, name):
    assert {"reconciling", "decided"} <= interrupt_each(harness, name, lossy=True, roles=[NOW])
