"""Whatever a driver returns or raises ends its step at once, and the node can be used again."""

import logging
import sys
from datetime import UTC, datetime

import pytest
import structlog
from sqlalchemy import select, update

from app.db import after
from app.models import OperationState, OperationStep
from drivers.core.errors import HardwareError, Refused
from drivers.core.steps import Done, Failed, Hold, Wait
from tests.integration.world import AcmeManagement, World, asked
from workers import attempts, claims, reconciler
from workers.returned import LONGEST

LABEL = "management.polish"


@pytest.fixture
def world(inside):
    return World(inside)


@pytest.fixture(autouse=True)
def _no_tracebacks():
    """Those of the tests' default log show all local variables, which are large here."""
    configured = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**configured)


class Unreadable:
    def __repr__(self):
        raise RuntimeError("no text either")


class UnreadableError(Exception):
    def __str__(self):
        raise RuntimeError("no message either")


class OddError(HardwareError):
    code = 7


def nested(depth):
    document = {}
    for _ in range(depth):
        document = {"more": document}
    return document


RETURNED = {
    "a pause that is text": Wait(poll_after="x"),
    "a pause that is true": Wait(poll_after=True),
    "a pause that is no number": Wait(poll_after=float("nan")),
    "a pause without an end": Wait(poll_after=float("inf")),
    "a negative pause": Wait(poll_after=-1),
    "a pause of centuries": Wait(poll_after=1e12),
    "a timeout that is text": Wait(poll_after=1, timeout="60"),
    "a timeout of centuries": Wait(timeout=1e300),
    "progress that is a list": Wait([1], poll_after=1),
    "progress with a set": Wait({"a": {1}}, poll_after=1),
    "progress with NaN": Wait({"a": float("nan")}, poll_after=1),
    "progress with a time": Wait({"a": datetime.now(UTC)}, poll_after=1),
    "progress with numbers as keys": Wait({1: 2}, poll_after=1),
    "progress with a number too large": Wait({"a": 1 << 70}, poll_after=1),
    "progress with half a character": Wait({"a": "\ud800"}, poll_after=1),
    "progress that is too deep": Wait(nested(10_000), poll_after=1),
    "progress that is too long": Wait({"a": "x" * (5 << 20)}, poll_after=1),
    "a result with an object": Done({"a": object()}),
    "a result that is text": Done("done"),
    "held with an object": Hold({"a": object()}),
    "a reason that is an exception": Failed(ValueError("no")),
    "a code that is a number": Failed("no", 3),
    "text": "done",
    "false": False,
    "zero": 0,
    "a class": Done,
    "an object without a text": Unreadable(),
}
RAISED = {
    "ValueError": ValueError("no"),
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "an exception without a message": UnreadableError(),
    "a HardwareError whose code is a number": OddError("odd"),
}


def clean(world, monkeypatch, outcome):
    """Clean a node by a step that comes to an outcome; the node, the operation and the step."""

    def polish(_interface, _target):
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome() if callable(outcome) and not isinstance(outcome, type) else outcome

    polish.__ingot_step__ = AcmeManagement.polish.__ingot_step__
    monkeypatch.setattr(AcmeManagement, "polish", polish)
    node = world.node()
    world.do(node, "clean", clean_steps=[asked("management", "polish")])
    return world.inside.read(node), world.last(node), world.steps(node)[0]


@pytest.mark.parametrize("what", [*RETURNED, *RAISED])
def test_an_outcome_of_a_wrong_type_fails_its_step_at_once_as_a_defect(world, monkeypatch, what):
    node, operation, step = clean(world, monkeypatch, {**RETURNED, **RAISED}[what])
    assert ("clean failed", None) == (node.provision_state, node.reservation)
    assert ("failed", "defect", LABEL) == (
        operation.state, operation.error["code"], operation.error["step"],
    )  # fmt: skip
    assert node.last_error.startswith(f"{LABEL} has a defect: ")
    assert ("failed", 1) == (step.state, step.attempts)


def test_endless_recursion_and_a_lack_of_memory_are_defects_of_the_step(world, monkeypatch):
    def recurse():
        return recurse()

    def exhaust():
        return bytearray(sys.maxsize)

    assert "defect" == clean(world, monkeypatch, recurse)[1].error["code"]
    node, operation, _ = clean(world, monkeypatch, exhaust)
    assert "waiting" == operation.state  # there may be memory at the next try
    while world.last(node.id).state == OperationState.WAITING:
        world.poll(node.id)
    assert ("defect", True) == (
        world.last(node.id).error["code"],
        world.last(node.id).error["retryable"],
    )


@pytest.mark.parametrize("raised", [False, True])
def test_a_reason_that_a_database_would_not_take_is_recorded_without_what_it_refuses(
    world, monkeypatch, raised
):
    reason = "sensor \0 says \ud800" + "!" * 100_000
    outcome = Refused(reason) if raised else Failed(reason, "refused")
    node, operation, _ = clean(world, monkeypatch, outcome)
    assert ("clean failed", "refused") == (node.provision_state, operation.error["code"])
    assert node.last_error.startswith("sensor  says ?!!!")
    assert len(node.last_error) < 10_000


@pytest.mark.parametrize("name", ["power_state", "health", "instance_info", "driver_internal_info"])
def test_a_report_that_cannot_be_written_fails_the_step(world, monkeypatch, name):
    def polish(_interface, target):
        target.report(**{name: {"a": object()}})

    polish.__ingot_step__ = AcmeManagement.polish.__ingot_step__
    monkeypatch.setattr(AcmeManagement, "polish", polish)
    node = world.node()
    assert "clean failed" == world.do(
        node, "clean", clean_steps=[asked("management", "polish"), asked("management", "polish")]
    )
    assert "defect" == world.last(node).error["code"]


def test_what_cannot_be_recorded_at_all_is_taken_over_at_once(world, monkeypatch):
    """A defect of ours where outcomes are recorded must not cost the step's whole time."""
    node = world.node()
    with monkeypatch.context() as patch:
        patch.setattr(attempts, "_record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.do(node, "clean", clean_steps=[asked("management", "polish")])
    assert "running" == world.last(node).state
    contact = reconciler.Contact(15.0)
    assert reconciler.reconcile(world.inside.runtime, contact)["taken_over"]
    world.run()
    assert ("manageable", "succeeded") == (world.state(node), world.last(node).state)


def test_a_step_that_is_to_be_followed_by_an_abort_is_not_advanced_past_it(inside, monkeypatch):
    """The abort comes while the conductor is about to record that the step is done."""
    claimant = inside.conductor("c-1")
    name = inside.request(inside.node("manageable"), "provide")
    attempt = claims.claim(claimant, name, 1, 0)
    executed, real = [], type(inside.runtime.engine.connect()).execute

    def execute(connection, statement, *rest, **options):
        result = real(connection, statement, *rest, **options)
        if statement is claims._ADVANCE and not executed:
            executed.append(True)
            asked = update(OperationStep).where(OperationStep.id == attempt.step.id)
            real(connection, asked.values(abort_after=True))
        return result

    monkeypatch.setattr("sqlalchemy.engine.Connection.execute", execute)
    assert not claims.advance(claimant, attempt, {})
    assert executed
    operation = inside.operation(name)
    assert ("running", 0) == (operation.state, operation.cursor)


def test_a_pause_that_is_allowed_is_one_that_the_databases_can_add(inside):
    with inside.runtime.reading() as session:
        assert session.scalar(select(after(LONGEST))) is not None
