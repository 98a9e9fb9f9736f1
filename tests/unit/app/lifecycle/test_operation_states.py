"""States of operations and steps change only as their tables allow."""

import ast
from pathlib import Path

import pytest

from app.lifecycle.operation_states import (
    STEPS,
    Actor,
    IllegalTransition,
    OperationEvent,
    StepEvent,
    sole_move,
    state_after,
    step_transition,
)
from app.models import OperationState, OperationStep, StepState

ROOT = Path(__file__).parents[4]
S, E = OperationState, OperationEvent


@pytest.mark.parametrize(
    ("state", "event", "actor"),
    [("waiting", E.CLAIM, Actor.CONDUCTOR), ("queued", E.CLAIM, Actor.API),
     ("succeeded", E.FAIL, Actor.CONDUCTOR), ("held", E.RESUME, Actor.API),
     ("failed", E.TAKE_OVER, Actor.RECONCILER), ("running", E.REPAIR, Actor.API)],
)  # fmt: skip
def test_a_change_of_an_operation_that_is_not_in_the_table_raises(state, event, actor):
    with pytest.raises(IllegalTransition, match=state):
        state_after(state, event, actor)


def test_only_an_event_with_one_source_state_can_be_used_in_a_statement():
    assert (S.QUEUED, S.RUNNING) == sole_move(E.CLAIM, Actor.CONDUCTOR)
    with pytest.raises(IllegalTransition, match="by API"):
        sole_move(E.CLAIM, Actor.API)
    with pytest.raises(ValueError, match="too many values"):
        sole_move(E.ABORT, Actor.API)


def test_a_finished_operation_does_not_change_again():
    for event in OperationEvent:
        for actor in Actor:
            for state in (S.SUCCEEDED, S.FAILED, S.ABORTED):
                with pytest.raises(IllegalTransition):
                    state_after(state, event, actor)


@pytest.mark.parametrize("event", StepEvent)
def test_a_step_changes_only_as_its_table_allows(event):
    for state in (None, *StepState):
        step = OperationStep(state=state)
        if state in STEPS[event].origins:
            step_transition(step, event)
            assert STEPS[event].to == step.state
        else:
            with pytest.raises(IllegalTransition):
                step_transition(step, event)
            assert state == step.state


def written_states(tree):
    """Targets of a module's writes to a `state`: objects, statements, new rows."""
    for node in ast.walk(tree):
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if stored and node.attr == "state":
            yield ast.unparse(node.value)
        if isinstance(node, ast.Call) and any(keyword.arg == "state" for keyword in node.keywords):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in ("values", "Operation", "OperationStep"):
                yield name


def test_only_the_module_of_the_table_writes_the_state_of_an_operation_or_a_step():
    writes = {
        (str(path.relative_to(ROOT)), table)
        for folder in ("app", "workers")
        for path in (ROOT / folder).rglob("*.py")
        for table in written_states(ast.parse(path.read_text()))
    }
    assert writes == {
        ("app/lifecycle/operation_states.py", "operation"),
        ("app/lifecycle/operation_states.py", "step"),
        ("workers/conductor/claims.py", "values"),  # with `sole_move`
        # these have states of their own
        ("app/baselines/comparison.py", "row"),
        ("app/inventory/scheduling.py", "allocation"),
        ("app/lifecycle/rollout_states.py", "rollout"),
        ("app/models/vaulting.py", "values"),
        ("app/rollouts/rollout_waves.py", "member"),
        ("app/vault/writing.py", "values"),
    }
