"""The state machine: its table against a frozen copy, and the function that applies it."""

import time
from datetime import datetime
from types import SimpleNamespace

import pytest

from app.db import clock
from app.engine.provision_state import move
from app.errors import IllegalMove
from app.lifecycle.provision_states import (
    MACHINE,
    VERBS,
    Event,
    Kind,
    State,
    allows,
    of_kind,
    verbs_in,
    waits_in,
)
from app.models import Node
from tests.support.provision_vocabulary import (
    ACCEPTED,
    FROZEN,
    IRONIC,
    SEED,
    STABLE,
    TARGETS,
    parse,
)

S, E = State, Event
#: A session that has read the database's clock.
SESSION = SimpleNamespace(info={clock._READ: (datetime(2026, 1, 1), time.monotonic())})


def node(state, target=None):
    return Node(uuid="n", provision_state=state, target_provision_state=target)


def test_the_table_is_ironics_with_the_additions_of_the_seed_specs():
    assert (93, 2) == (len(parse(IRONIC)), len(parse(SEED)))
    assert set(State) == {state for state, _ in FROZEN}
    assert set(Event) == {event for _, event in FROZEN}
    ours = {(state, event): to for state, row in MACHINE.items() for event, to in row.moves.items()}
    assert FROZEN == ours


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_event_in_every_state_is_a_row_or_is_refused(state, event):
    moved = node(state, "before")
    assert ((state, event) in FROZEN) == allows(state, event)
    if (state, event) not in FROZEN:
        with pytest.raises(IllegalMove, match=f'"{event}".*"{state}"'):
            move(SESSION, moved, event)
        assert (state, "before") == (moved.provision_state, moved.target_provision_state)
        assert moved.provision_updated_at is None
        return
    move(SESSION, moved, event)
    new_state = FROZEN[state, event]
    assert new_state == moved.provision_state
    assert (MACHINE[new_state].kind is Kind.STABLE) == (moved.target_provision_state is None)
    assert moved.provision_updated_at is not None


@pytest.mark.parametrize("verb", ACCEPTED)
def test_a_verb_is_accepted_in_these_states_only(verb):
    # nodes in a busy state are reserved: they take the verbs of their wait state only
    free = set(State) - of_kind(Kind.BUSY)
    assert ACCEPTED[verb] == {state for state in free if allows(state, VERBS[verb])}


def test_a_busy_state_takes_abort_if_its_flow_has_a_wait_state():
    waits = {
        S.INSPECTING: S.INSPECT_WAIT, S.CLEANING: S.CLEAN_WAIT, S.DEPLOYING: S.DEPLOY_WAIT,
        S.RESCUING: S.RESCUE_WAIT, S.SERVICING: S.SERVICE_WAIT,
    }  # fmt: skip
    assert waits == {state: waits_in(state) for state in State if waits_in(state)}
    for busy in of_kind(Kind.BUSY):
        assert verbs_in(busy) == (("abort",) if busy in waits else ())


def test_every_verb_is_listed_and_two_have_two_names():
    assert VERBS.keys() - ACCEPTED.keys() == {"deploy", "undeploy"}
    assert (VERBS["active"], VERBS["deleted"]) == (VERBS["deploy"], VERBS["undeploy"])


def test_each_state_has_its_target_unless_it_is_stable():
    assert TARGETS == {
        target: {state for state, row in MACHINE.items() if row.target is target}
        for target in TARGETS
    }
    assert {state for state, row in MACHINE.items() if row.target is None} == of_kind(Kind.STABLE)


def test_the_kind_of_a_state_names_its_actor():
    assert STABLE == of_kind(Kind.STABLE)
    assert {S.CLEAN_HOLD, S.DEPLOY_HOLD, S.SERVICE_HOLD} == of_kind(Kind.HOLD)
    for state, row in MACHINE.items():
        match row.kind:
            case Kind.BUSY:
                assert E.FAIL in row.moves, state
            case Kind.WAIT:
                back = row.moves[E.RESUME]
                assert state is MACHINE[back].moves[E.WAIT]
                assert MACHINE[back].moves[E.FAIL] is row.moves[E.FAIL] is row.moves[E.ABORT]
            case Kind.HOLD:
                assert MACHINE[row.moves[E.UNHOLD]].kind is Kind.WAIT
            case _:
                assert not {E.DONE, E.RESUME, E.FAIL} & row.moves.keys(), state


def test_every_state_can_be_reached_and_left_again():
    reached, edge = set(), {S.ENROLL}
    while edge:
        reached |= edge
        edge = {to for state in edge for to in MACHINE[state].moves.values()} - reached
    assert set(State) == reached
    stuck = set(State) - of_kind(Kind.STABLE)
    while freed := {state for state in stuck if not stuck >= set(MACHINE[state].moves.values())}:
        stuck -= freed
    assert set() == stuck


def walk(start, *events, target=None):
    """Return (state, target) after each event; target: that of the first event."""
    moved, pairs = node(start), []
    for event in events:
        move(SESSION, moved, event, target)
        target = None
        pairs.append((moved.provision_state, moved.target_provision_state))
    return pairs


def test_a_manual_clean_has_the_target_manageable_until_it_ends():
    pairs = walk(
        S.MANAGEABLE, E.CLEAN, E.WAIT, E.HOLD, E.UNHOLD, E.RESUME, E.FAIL, target=S.MANAGEABLE
    )
    assert {S.MANAGEABLE} == {target for _, target in pairs}
    assert S.CLEAN_FAIL == pairs[-1][0]
    assert (S.MANAGEABLE, None) == walk(S.MANAGEABLE, E.CLEAN, E.MANAGE, target=S.MANAGEABLE)[-1]


def test_an_automated_clean_has_the_target_available():
    assert [
        (S.CLEANING, S.AVAILABLE),
        (S.CLEAN_WAIT, S.AVAILABLE),
        (S.CLEANING, S.AVAILABLE),
        (S.AVAILABLE, None),
    ] == walk(S.MANAGEABLE, E.PROVIDE, E.WAIT, E.RESUME, E.DONE)


def test_a_flow_that_follows_another_has_its_own_target():
    assert [
        (S.DEPLOYING, S.ACTIVE),
        (S.DEPLOY_WAIT, S.ACTIVE),
        (S.DELETING, S.AVAILABLE),
        (S.CLEANING, S.AVAILABLE),
        (S.CLEAN_FAIL, S.AVAILABLE),
    ] == walk(S.AVAILABLE, E.DEPLOY, E.WAIT, E.DELETE, E.CLEAN, E.FAIL)
    assert [(S.RESCUING, S.RESCUE), (S.RESCUE_FAIL, S.RESCUE), (S.UNRESCUING, S.ACTIVE)] == walk(
        S.ACTIVE, E.RESCUE, E.FAIL, E.UNRESCUE
    )


def test_cleaning_after_a_failed_manual_clean_uses_the_given_target():
    failed = node(S.CLEAN_FAIL, S.MANAGEABLE)
    move(SESSION, failed, E.PROVIDE, S.AVAILABLE)
    assert S.AVAILABLE == failed.target_provision_state
