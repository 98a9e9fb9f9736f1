"""The protocol's model changes the state of its operation by the product's own table."""

from dataclasses import replace

import pytest

from app.lifecycle import operation_states
from app.lifecycle.operation_states import OPERATIONS, IllegalTransition, OperationEvent
from app.models import OperationState
from tests.model import protocol
from tests.model.checker import Broken
from tests.model.protocol import World
from tests.model.runner import check

S, E = OperationState, OperationEvent
#: Small worlds that reach the transitions below; only the last one reaches those of RESTORE.
WORLDS = (
    {"faults": ("leaving",), "last_step": 1},
    {"faults": ("silence",), "last_step": 1},
    {"faults": ("death",), "last_step": 1},
    {"faults": ("death",), "last_step": 1, "deaths": 1},
    {"faults": ("restore",), "last_step": 0},
)
#: Transitions that the model reaches there: (state before, event).
MODELLED = {
    (None, E.SUBMIT), (S.QUEUED, E.CLAIM), (S.QUEUED, E.DISPATCH), (S.QUEUED, E.RESTORE),
    (S.RUNNING, E.ADVANCE), (S.RUNNING, E.WAIT), (S.RUNNING, E.TAKE_OVER), (S.RUNNING, E.SUCCEED),
    (S.RUNNING, E.FAIL), (S.RUNNING, E.RESTORE), (S.WAITING, E.RESUME), (S.WAITING, E.FAIL),
}  # fmt: skip


def explored(worlds=WORLDS):
    """Transitions that are reached in some worlds."""
    fired = set()
    for arguments in worlds:
        world = World(**arguments)
        check(world)
        fired |= world.fired
    return fired


def worlds_with(event):
    return WORLDS[-1:] if event is E.RESTORE else WORLDS[:-1]


def changed(monkeypatch, event, **columns):
    """Change a row of the table, for the model as for the product."""
    table = {**OPERATIONS, event: replace(OPERATIONS[event], **columns)}
    monkeypatch.setattr(operation_states, "OPERATIONS", table)
    monkeypatch.setattr(protocol, "OPERATIONS", table)


def test_the_model_reaches_its_rows_of_the_table_and_no_others():
    assert MODELLED == explored()


@pytest.mark.parametrize(("origin", "event"), sorted(MODELLED, key=str))
def test_the_model_notices_that_a_row_is_missing(monkeypatch, origin, event):
    origins = {key: actors for key, actors in OPERATIONS[event].origins.items() if key != origin}
    changed(monkeypatch, event, origins=origins)
    with pytest.raises(IllegalTransition):
        explored(worlds_with(event))


@pytest.mark.parametrize("event", sorted({event for _, event in MODELLED}))
def test_the_model_notices_that_a_row_leads_to_another_state(monkeypatch, event):
    other = S.HELD if OPERATIONS[event].to in (S.SUCCEEDED, S.FAILED) else S.SUCCEEDED
    changed(monkeypatch, event, to=other)
    with pytest.raises((Broken, IllegalTransition)):
        explored(worlds_with(event))


@pytest.mark.parametrize("event", [E.RESUME, E.TAKE_OVER])
def test_the_model_notices_that_an_event_raises_no_fence(monkeypatch, event):
    changed(monkeypatch, event, new_fence=False)
    with pytest.raises(Broken, match="two dispatches have one fence"):
        explored(worlds_with(event))
