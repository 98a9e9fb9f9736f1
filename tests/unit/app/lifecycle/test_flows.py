"""Flows: each declaration is complete, and each name belongs to its enum."""

import ast
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from app.config.conductor_settings import Conductor
from app.config.settings import Api, load
from app.engine import provision_state
from app.engine.admission import limit_of
from app.lifecycle import flows
from app.lifecycle.failures import KNOWN
from app.lifecycle.flows import FLOWS, Effect
from app.lifecycle.provision_states import MACHINE, Event, Kind, State, of_kind
from app.models import BESIDE, Fault, OperationKind
from drivers.builtin import HARDWARE_TYPES, INTERFACES
from drivers.core.errors import FailureCode
from drivers.core.registry import load as load_drivers
from drivers.core.steps import Flow
from tests.support.provision_vocabulary import EVENT_TYPES

ROOT = Path(__file__).parents[4]
#: Codes without a hint: their message says everything.
WITHOUT_HINT = {
    FailureCode.HARDWARE_ERROR,
    FailureCode.NOT_FOUND,
    FailureCode.STEP_FAILED,
    FailureCode.LEASE_LOST,  # ends an attempt, never an operation
}


def test_every_busy_wait_and_hold_state_belongs_to_exactly_one_flow():
    counts = Counter(state for flow in FLOWS for state in flow.under_way.values())
    assert dict.fromkeys(of_kind(Kind.BUSY, Kind.WAIT, Kind.HOLD), 1) == counts


def test_a_flow_selects_its_states_by_kind():
    assert {State.CLEAN_WAIT, State.CLEAN_HOLD} == flows.CLEAN.states((Kind.WAIT, Kind.HOLD))
    assert frozenset() == flows.VERIFY.states((Kind.WAIT, Kind.HOLD))


def test_an_operation_of_a_kind_that_only_a_newer_release_knows_has_its_kind_as_event_type():
    assert "defragment" == flows.event_type("defragment")


def test_every_failed_state_belongs_to_exactly_one_flow():
    counts = Counter(flow.failed for flow in FLOWS)
    assert {1} == set(counts.values())
    assert of_kind(Kind.FAILED) <= set(counts)


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_the_states_of_a_flow_are_those_that_its_transitions_reach(flow):
    assert {kind: MACHINE[state].kind for kind, state in flow.under_way.items()} == {
        kind: kind for kind in flow.under_way
    }
    moves = MACHINE[flow.busy].moves
    assert (flow.wait, flow.hold) == (moves.get(Event.WAIT), moves.get(Event.HOLD))
    assert flow.failed == moves[Event.FAIL]


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_flow_declares_effects_only_for_its_own_ends(flow):
    aborted = any(Event.ABORT in MACHINE[state].moves for state in flow.under_way.values())
    assert aborted or not flow.on_abort
    assert Event.ABORT in MACHINE[flow.failed].moves or not flow.on_abandon
    faults = {Effect.SET_FAULT, Effect.SET_FAULT_IF_ATTEMPTED, Effect.CLEAR_FAULT}
    effects = {*flow.on_done, *flow.on_fail, *flow.on_abort, *flow.on_abandon}
    assert flow.fault or not effects & faults


def test_every_effect_is_named_by_a_flow_and_has_its_function():
    effects = {
        effect
        for flow in FLOWS
        for effect in (*flow.on_done, *flow.on_fail, *flow.on_abort, *flow.on_abandon)
    }
    assert effects == set(Effect) == set(provision_state._APPLY)


@pytest.mark.parametrize(
    ("state", "event", "effects"),
    [(State.CLEANING, Event.MANAGE, flows.CLEAN.on_done),
     (State.CLEANING, Event.FAIL, flows.CLEAN.on_fail),
     (State.CLEANING, Event.WAIT, ()), (State.CLEANING, Event.HOLD, ()),
     (State.CLEAN_WAIT, Event.RESUME, ()), (State.CLEAN_WAIT, Event.FAIL, ()),
     (State.CLEAN_HOLD, Event.ABORT, flows.CLEAN.on_abort),
     (State.CLEAN_FAIL, Event.PROVIDE, ()), (State.DELETING, Event.CLEAN, flows.DELETE.on_done),
     (State.SERVICE_FAIL, Event.ABORT, flows.SERVICE.on_abandon)],
)  # fmt: skip
def test_the_effects_of_an_event_are_those_of_the_flows_end(state, event, effects):
    flow = flows.under_way_in(state) or flows.failed_in(state)
    assert effects == provision_state._effects(flow, state, event)


def test_every_setting_that_a_flow_names_exists():
    conductor = {flow.callback_timeout for flow in FLOWS}
    conductor |= {flow.power_off_on_failure for flow in FLOWS} - {None}
    conductor |= {flow.limit.setting for flow in FLOWS if flow.limit}
    assert conductor <= {field.name for field in fields(Conductor)}
    assert {flow.forbidden_steps for flow in FLOWS} - {None} <= {
        field.name for field in fields(Api)
    }


def test_every_kind_of_operation_belongs_to_one_flow_or_leaves_the_provision_state_alone():
    counts = Counter([*BESIDE, *(kind for flow in FLOWS for kind in flow.operations)])
    assert dict.fromkeys(OperationKind, 1) == counts


def test_every_step_flow_is_run_by_one_flow():
    assert set(Flow) == {flow.step_flow for flow in FLOWS} - {None}
    assert [flows.of_steps(step_flow).step_flow for step_flow in Flow] == list(Flow)


def test_the_frames_of_drivers_are_those_of_flows():
    registry = load_drivers(HARDWARE_TYPES, [kind.name for kind in HARDWARE_TYPES], INTERFACES)
    deploys = [
        interface for kinds in registry.types.values() for interface in kinds["deploy"].values()
    ]
    framed = {name for interface in deploys for name in interface.frames}
    assert framed == {flow.name for flow in FLOWS} - {flows.VERIFY.name, flows.INSPECT.name}


@pytest.mark.parametrize("state", State)
def test_a_flow_is_found_by_its_states(state):
    flow = flows.under_way_in(state)
    assert (flow is not None) == (MACHINE[state].kind in (Kind.BUSY, Kind.WAIT, Kind.HOLD))
    assert flows.busy_in(state) == (flow if MACHINE[state].kind is Kind.BUSY else None)


def test_the_entries_of_an_operation_in_the_history_have_ironics_event_type():
    assert EVENT_TYPES == {kind: flows.event_type(kind) for kind in OperationKind}


@pytest.mark.parametrize(
    ("queue", "option"),
    [("deploy", "max_concurrent_deploy"), ("clean", "max_concurrent_clean")],
)
def test_a_queue_has_the_slots_of_its_setting_in_each_conductor_group(queue, option):
    settings = load({f"INGOT_CONDUCTOR_{option.upper()}": "7"})
    assert [7, 7] == [limit_of(settings, queue), limit_of(settings, f"{queue}/group")]


def test_only_deploying_and_cleaning_are_limited():
    limited = {flow.name: flow.limit.queue for flow in FLOWS if flow.limit}
    assert {"deploy": "deploy", "clean": "clean"} == limited


def test_the_faults_of_flows_are_ironics():
    by_flow = {flow.name: flow.fault for flow in FLOWS if flow.fault}
    assert by_flow == {
        "clean": Fault.CLEAN_FAILURE,
        "rescue": Fault.RESCUE_ABORT_FAILURE,
        "service": Fault.SERVICE_FAILURE,
    }


def test_every_failure_code_has_a_hint_or_is_listed_as_having_none():
    assert set(FailureCode) - set(KNOWN) == WITHOUT_HINT
    assert set(KNOWN) <= set(FailureCode)


def test_no_failure_code_is_a_bare_string():
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("app", "drivers", "workers")
        for path in (ROOT / folder).rglob("*.py")
        for node in bare_codes(ast.parse(path.read_text()))
    ]
    assert [] == places


def bare_codes(tree):
    """Places of a module that give a failure a code as a string literal."""
    failures = {"described"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "drivers.core.steps":
            failures |= {alias.name for alias in node.names if alias.name == "Failed"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            place = {"Failed": 1, "described": 0}.get(name)
            if name in failures and place is not None:
                codes = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                codes += node.args[place : place + 1]
                yield from (code for code in codes if isinstance(code, ast.Constant))
        elif isinstance(node, ast.ClassDef) and any("Error" in ast.unparse(b) for b in node.bases):
            for child in node.body:
                if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == "code":
                    yield from [child.value] if isinstance(child.value, ast.Constant) else []


def test_a_bare_code_is_found():
    text = """
from drivers.core.steps import Failed
class Odd(HardwareError):
    code = "odd"
def step():
    faults.described("odd", "why")
    return Failed("why", "odd") or Failed("why", code="odd") or Failed("why", FailureCode.BUSY)
"""
    assert [4, 6, 7, 7] == sorted(code.lineno for code in bare_codes(ast.parse(text)))
