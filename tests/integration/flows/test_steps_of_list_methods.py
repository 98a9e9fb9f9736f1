"""Steps that a driver lists by a method."""

import pytest

from app.errors import Invalid
from app.models import Node
from app.planning import available_steps
from drivers.core.errors import CleanStepFailed
from drivers.core.steps import Flow
from tests.integration.harness import Acme, AcmeManagement, requested

from .conftest import POLISH

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.mark.parametrize(
    ("flow", "state", "verb", "arguments", "ends"),
    [
        ("verify", "enroll", "manage", {}, "manageable"),
        ("clean", "manageable", "provide", {}, "available"),
        ("deploy", "available", "active", {}, "active"),
        ("service", "active", "service", {"service_steps": [requested("management", "shred")]}, "active"),
    ],
)  # fmt: skip
def test_steps_from_a_drivers_list_method_are_listed_planned_and_run(
    harness, monkeypatch, flow, state, verb, arguments, ends
):
    def listing(management, target):
        usual = getattr(super(AcmeManagement, management), f"get_{flow}_steps")(target)
        return [*usual, {"step": "shred", "priority": 33, "requires_ramdisk": False}]

    def execute(management, target, step):
        return Acme.does(target, f"{step['step']} by {flow}")

    monkeypatch.setattr(AcmeManagement, f"get_{flow}_steps", listing, raising=False)
    monkeypatch.setattr(AcmeManagement, f"execute_{flow}_step", execute, raising=False)
    node = harness.node(state)
    with harness.inside.runtime.reading() as session:
        listed = available_steps.steps_of(session, session.get_one(Node, node), Flow(flow), 1)
        assert ("shred", 33) in [(entry.step.name, entry.priority) for entry in listed]
    assert ends == harness.do(node, verb, **arguments)
    assert f"shred by {flow}" in Acme.did


def test_a_list_of_steps_may_declare_arguments_as_the_spec_of_manual_cleaning_does(
    harness, monkeypatch
):
    level = {"name": "level", "description": "how deep", "required": True}
    listed = {"interface": "management", "step": "scrub", "priority": 0, "abortable": True}

    def listing(_management, _target):
        return [{**listed, "args": [level]}]

    monkeypatch.setattr(AcmeManagement, "get_clean_steps", listing, raising=False)
    node = harness.node()
    with harness.inside.runtime.reading() as session:
        steps = available_steps.steps_of(session, session.get_one(Node, node), Flow.CLEAN, None)
        (scrub,) = [step.step for step in steps if step.step.name == "scrub"]
    assert [("level", "how deep", True)] == [
        (argument.name, argument.description, argument.required) for argument in scrub.args
    ]


def test_a_driver_with_an_invalid_list_of_steps_is_named_in_the_refusal(harness, monkeypatch):
    monkeypatch.setattr(AcmeManagement, "get_clean_steps", lambda *_: [{"step": 1}], raising=False)
    with pytest.raises(Invalid, match="management interface 'acme': get_clean_steps: KeyError"):
        harness.do(harness.node(), "provide")


def test_an_invalid_list_of_steps_after_the_agents_start_fails_the_operation(harness, monkeypatch):
    node = harness.with_agent()
    assert "clean wait" == harness.do(node, "provide")
    monkeypatch.setattr(AcmeManagement, "get_clean_steps", lambda *_: [{"step": 1}], raising=False)
    assert "clean failed" == harness.call(node)
    assert "get_clean_steps: KeyError: 'priority'" in harness.inside.read(node).last_error


def test_a_step_fails_by_the_error_of_the_specs_or_by_an_invalid_outcome(harness, monkeypatch):
    def jammed(*_):
        raise CleanStepFailed("the shredder is full")

    for polish, message, code in (
        (jammed, "the shredder is full", "step_failed"),
        (lambda *_: "clean wait", "not an outcome", "defect"),
    ):
        monkeypatch.setattr(AcmeManagement, "polish", polish)
        node = harness.node()
        assert "clean failed" == harness.do(node, "clean", clean_steps=[POLISH])
        assert message in harness.inside.read(node).last_error
        assert code == harness.last(node).error["code"]


def test_equal_priorities_by_settings_are_found_at_start(inside):
    tie = "bios.factory_reset:5,bios.cache_bios_settings:5"
    inside.environ["INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE"] = tie
    view = inside.another()
    assert "[conductor]clean_step_priority_override" in view.runtime.drivers.refused["redfish"]
    assert "ipmi" in view.runtime.drivers.types
    view.close()
