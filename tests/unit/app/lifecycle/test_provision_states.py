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

S, E = State, Event
#: A session that has read the database's clock.
SESSION = SimpleNamespace(info={clock._READ: (datetime(2026, 1, 1), time.monotonic())})

#: Ironic's states and transitions. A change of the table is repeated here on purpose.
IRONIC = """
enroll: manage -> verifying
verifying: done -> manageable, fail -> enroll
manageable: provide -> cleaning, clean -> cleaning, inspect -> inspecting, adopt -> adopting
available: deploy -> deploying, manage -> manageable
inspecting: done -> manageable, wait -> inspect wait, fail -> inspect failed
inspect wait: resume -> inspecting, done -> manageable, fail -> inspect failed, abort -> inspect failed
inspect failed: manage -> manageable, inspect -> inspecting
cleaning: done -> available, manage -> manageable, wait -> clean wait, hold -> clean hold, fail -> clean failed
clean wait: resume -> cleaning, hold -> clean hold, fail -> clean failed, abort -> clean failed
clean hold: unhold -> clean wait, abort -> clean failed
clean failed: manage -> manageable
deploying: done -> active, wait -> wait call-back, hold -> deploy hold, fail -> deploy failed
wait call-back: resume -> deploying, hold -> deploy hold, fail -> deploy failed, abort -> deploy failed, delete -> deleting
deploy hold: unhold -> wait call-back, abort -> deploy failed
deploy failed: deploy -> deploying, rebuild -> deploying, delete -> deleting
active: rebuild -> deploying, delete -> deleting, rescue -> rescuing, service -> servicing
deleting: clean -> cleaning, fail -> error
error: rebuild -> deploying, delete -> deleting
adopting: done -> active, fail -> adopt failed
adopt failed: adopt -> adopting, manage -> manageable
rescuing: done -> rescue, wait -> rescue wait, fail -> rescue failed
rescue wait: resume -> rescuing, fail -> rescue failed, abort -> rescue failed, delete -> deleting
rescue: rescue -> rescuing, unrescue -> unrescuing, delete -> deleting
rescue failed: rescue -> rescuing, unrescue -> unrescuing, delete -> deleting
unrescuing: done -> active, fail -> unrescue failed
unrescue failed: rescue -> rescuing, unrescue -> unrescuing, delete -> deleting
servicing: done -> active, wait -> service wait, hold -> service hold, fail -> service failed
service wait: resume -> servicing, hold -> service hold, fail -> service failed, abort -> service failed, delete -> deleting
service hold: service -> servicing, unhold -> service wait, fail -> service failed, abort -> service failed
service failed: service -> servicing, rescue -> rescuing, wait -> service wait, hold -> service hold, delete -> deleting, abort -> active
"""
#: Additions of the seed specs (implement-cleaning-states).
SEED = """
clean failed: provide -> cleaning, clean -> cleaning
"""
#: `target` of PUT states/provision -> states that accept it.
ACCEPTED = {
    "active": {S.AVAILABLE, S.DEPLOY_FAIL},
    "rebuild": {S.ACTIVE, S.DEPLOY_FAIL, S.ERROR},
    "deleted": {
        S.ACTIVE, S.DEPLOY_WAIT, S.DEPLOY_FAIL, S.ERROR, S.RESCUE, S.RESCUE_WAIT, S.RESCUE_FAIL,
        S.UNRESCUE_FAIL, S.SERVICE_FAIL, S.SERVICE_WAIT,
    },
    "manage": {S.ENROLL, S.AVAILABLE, S.CLEAN_FAIL, S.INSPECT_FAIL, S.ADOPT_FAIL},
    "provide": {S.MANAGEABLE, S.CLEAN_FAIL},
    "inspect": {S.MANAGEABLE, S.INSPECT_FAIL},
    "abort": {
        S.CLEAN_WAIT, S.CLEAN_HOLD, S.RESCUE_WAIT, S.INSPECT_WAIT, S.DEPLOY_WAIT, S.DEPLOY_HOLD,
        S.SERVICE_WAIT, S.SERVICE_HOLD, S.SERVICE_FAIL,
    },
    "clean": {S.MANAGEABLE, S.CLEAN_FAIL},
    "adopt": {S.MANAGEABLE, S.ADOPT_FAIL},
    "rescue": {S.ACTIVE, S.RESCUE, S.RESCUE_FAIL, S.UNRESCUE_FAIL, S.SERVICE_FAIL},
    "unrescue": {S.RESCUE, S.RESCUE_FAIL, S.UNRESCUE_FAIL},
    "unhold": {S.CLEAN_HOLD, S.DEPLOY_HOLD, S.SERVICE_HOLD},
    "service": {S.ACTIVE, S.SERVICE_HOLD, S.SERVICE_FAIL},
}  # fmt: skip
TARGETS = {
    S.MANAGEABLE: {S.VERIFYING, S.INSPECTING, S.INSPECT_WAIT, S.INSPECT_FAIL},
    S.AVAILABLE: {S.CLEANING, S.CLEAN_WAIT, S.CLEAN_HOLD, S.CLEAN_FAIL, S.DELETING},
    S.ACTIVE: {
        S.DEPLOYING, S.DEPLOY_WAIT, S.DEPLOY_HOLD, S.DEPLOY_FAIL, S.ADOPTING, S.ADOPT_FAIL,
        S.UNRESCUING, S.UNRESCUE_FAIL, S.SERVICING, S.SERVICE_WAIT, S.SERVICE_HOLD, S.SERVICE_FAIL,
    },
    S.RESCUE: {S.RESCUING, S.RESCUE_WAIT, S.RESCUE_FAIL},
}  # fmt: skip


def parse(table):
    """(state, event) -> next state."""
    transitions = {}
    for line in table.strip().splitlines():
        state, moves = line.split(": ")
        for move_ in moves.split(", "):
            event, after = move_.split(" -> ")
            transitions[State(state), Event(event)] = State(after)
    return transitions


FROZEN = {**parse(IRONIC), **parse(SEED)}


def node(state, target=None):
    return Node(uuid="n", provision_state=state, target_provision_state=target)


def test_the_table_is_ironics_with_the_additions_of_the_seed_specs():
    assert (93, 2) == (len(parse(IRONIC)), len(parse(SEED)))
    assert (30, 18) == (len(State), len(Event))
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
    after = FROZEN[state, event]
    assert after == moved.provision_state
    assert (MACHINE[after].kind is Kind.STABLE) == (moved.target_provision_state is None)
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
    assert {S.ENROLL, S.MANAGEABLE, S.AVAILABLE, S.ACTIVE, S.ERROR, S.RESCUE} == of_kind(
        Kind.STABLE
    )
    assert {S.CLEAN_HOLD, S.DEPLOY_HOLD, S.SERVICE_HOLD} == of_kind(Kind.HOLD)
    assert 9 == len(of_kind(Kind.BUSY))
    assert 7 == len(of_kind(Kind.FAILED))
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
    moved, seen = node(start), []
    for event in events:
        move(SESSION, moved, event, target)
        target = None
        seen.append((moved.provision_state, moved.target_provision_state))
    return seen


def test_a_manual_clean_has_the_target_manageable_until_it_ends():
    seen = walk(
        S.MANAGEABLE, E.CLEAN, E.WAIT, E.HOLD, E.UNHOLD, E.RESUME, E.FAIL, target=S.MANAGEABLE
    )
    assert {S.MANAGEABLE} == {target for _, target in seen}
    assert S.CLEAN_FAIL == seen[-1][0]
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
