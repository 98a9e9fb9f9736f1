"""Defects of drivers: wrong outcomes and exceptions fail the step; the node stays usable."""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
import structlog
from sqlalchemy import select

from app.db.clock import after
from app.models import Operation, OperationState, OperationStep
from drivers.core.errors import HardwareError, Refused
from drivers.core.steps import Done, Failed, Hold, Wait
from drivers.fake.hardware import FakeDeploy
from tests.integration.harness import AcmeManagement, Harness, requested
from workers.conductor import claims, recording
from workers.conductor.results import LONGEST
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

LABEL = "management.polish"


@pytest.fixture
def harness(inside):
    return Harness(inside)


@pytest.fixture(autouse=True)
def _no_tracebacks():
    """Disable tracebacks with local variables, which are large here."""
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


def clean(harness, monkeypatch, outcome):
    """Clean a node by a step with this outcome; return the node, the operation and the step."""

    def polish(_interface, _target):
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome() if callable(outcome) and not isinstance(outcome, type) else outcome

    polish.__ingot_step__ = AcmeManagement.polish.__ingot_step__
    monkeypatch.setattr(AcmeManagement, "polish", polish)
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "polish")])
    return harness.inside.read(node), harness.last(node), harness.steps(node)[0]


@pytest.mark.parametrize("kind", [*RETURNED, *RAISED])
def test_an_outcome_of_a_wrong_type_fails_its_step_at_once_as_a_defect(harness, monkeypatch, kind):
    node, operation, step = clean(harness, monkeypatch, {**RETURNED, **RAISED}[kind])
    assert ("clean failed", None) == (node.provision_state, node.reservation)
    assert ("failed", "defect", LABEL) == (
        operation.state, operation.error["code"], operation.error["step"],
    )  # fmt: skip
    assert node.last_error.startswith(f"{LABEL} has a defect: ")
    assert ("failed", 1) == (step.state, step.attempts)


def test_endless_recursion_and_a_lack_of_memory_are_defects_of_the_step(harness, monkeypatch):
    def recurse():
        return recurse()

    def exhaust():
        return bytearray(sys.maxsize)

    assert "defect" == clean(harness, monkeypatch, recurse)[1].error["code"]
    node, operation, _ = clean(harness, monkeypatch, exhaust)
    assert "waiting" == operation.state  # the next attempt may have memory
    while harness.last(node.id).state == OperationState.WAITING:
        harness.poll(node.id)
    assert ("defect", True) == (
        harness.last(node.id).error["code"],
        harness.last(node.id).error["retryable"],
    )


def test_a_step_that_holds_a_node_in_a_state_without_hold_fails(harness, monkeypatch):
    monkeypatch.setattr(FakeDeploy, "adopt", lambda *_: Hold({"held": 1}))
    node = harness.node()
    assert "adopt failed" == harness.do(node, "adopt")
    row, operation = harness.inside.read(node), harness.last(node)
    reason = "deploy.adopt: a node cannot be held while it is adopting"
    assert (reason, None) == (row.last_error, row.reservation)
    assert ("failed", "not_supported") == (operation.state, operation.error["code"])


@pytest.mark.parametrize("raised", [False, True])
def test_a_reason_is_recorded_without_characters_that_a_database_refuses(
    harness, monkeypatch, raised
):
    reason = "sensor \0 says \ud800" + "!" * 100_000
    outcome = Refused(reason) if raised else Failed(reason, "refused")
    node, operation, _ = clean(harness, monkeypatch, outcome)
    assert ("clean failed", "refused") == (node.provision_state, operation.error["code"])
    assert node.last_error.startswith("management.polish: sensor  says ?!!!")
    assert len(node.last_error) < 10_000


@pytest.mark.parametrize("name", ["power_state", "health", "instance_info", "driver_internal_info"])
def test_an_invalid_report_fails_the_step(harness, monkeypatch, name):
    def polish(_interface, target):
        target.report(**{name: {"a": object()}})

    polish.__ingot_step__ = AcmeManagement.polish.__ingot_step__
    monkeypatch.setattr(AcmeManagement, "polish", polish)
    node = harness.node()
    assert "clean failed" == harness.do(
        node,
        "clean",
        clean_steps=[requested("management", "polish"), requested("management", "polish")],
    )
    assert "defect" == harness.last(node).error["code"]


def test_a_step_whose_outcome_cannot_be_recorded_is_taken_over_at_once(harness, monkeypatch):
    """A defect of the service in the record of outcomes does not delay the takeover."""
    node = harness.node()
    with monkeypatch.context() as patch:
        patch.setattr(recording, "_record", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            harness.do(node, "clean", clean_steps=[requested("management", "polish")])
    assert "running" == harness.last(node).state
    contact = Contact(15.0)
    assert reconciler.reconcile(harness.inside.runtime, contact)["taken_over"]
    harness.run()
    assert ("manageable", "succeeded") == (harness.state(node), harness.last(node).state)


def test_a_step_is_not_advanced_past_a_concurrent_abort(inside):
    """The end of the step is recorded while the request for the abort holds the operation's lock."""
    claimant = inside.conductor("c-1")
    name = inside.request(inside.node("manageable"), "provide")
    attempt = claims.claim(claimant, name, 1, 0)
    with ThreadPoolExecutor(1) as threads:
        with inside.runtime.transaction() as session:
            session.get_one(Operation, attempt.operation.id, with_for_update=True)
            session.get_one(OperationStep, attempt.step.id).abort_after = True
            advanced = threads.submit(claims.advance, claimant, attempt, {})
            inside.await_a_blocked_writer()
        assert not advanced.result()
    operation = inside.operation(name)
    assert ("running", 0) == (operation.state, operation.cursor)


def test_the_longest_allowed_pause_can_be_added_by_both_databases(inside):
    with inside.runtime.reading() as session:
        assert session.scalar(select(after(LONGEST))) is not None
