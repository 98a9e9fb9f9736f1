"""Rights of a rollout's caller, and turns of projects."""

from dataclasses import replace

import pytest

from app.errors import Forbidden
from app.identity import accounts, authentication
from app.lifecycle.rollout_states import RolloutEvent
from app.models import PauseCause, RolloutState
from app.rollouts import rollout_waves, rollouts
from tests.support.local_users import Directory

from .conftest import CALLER


@pytest.fixture
def people(inside):
    """Users of the database, with `auth_strategy` local."""
    settings = inside.runtime.settings
    inside.runtime.settings = replace(
        settings, default=replace(settings.default, auth_strategy="local")
    )
    return Directory(inside.runtime.transaction)


def caller_of(inside, name, project=None):
    """The caller of a user with all roles in a scope."""
    with inside.runtime.engine.connect() as connection:
        account = authentication.account_of(connection, name)
        return authentication.of_account(connection, account, project, "req-9")


def several(fleet, number):
    fleet.inside.conductor("c-1")
    for _ in range(number):
        fleet.node()


def disable(people):
    people.enable("ann", False)


def lose_the_role(people):
    people.revoke("manager", "blue", user="ann")


def leave_the_group(people):
    with people._transaction() as session:
        accounts.remove_member(session, "team", "ann")


def be_deleted(people):
    people.remove("user", "ann")


def lose_the_project(people):
    people.remove("project", "blue")


@pytest.mark.parametrize(
    ("loss", "by_group"),
    [
        (disable, False), (be_deleted, False), (lose_the_role, False), (lose_the_project, False),
        (leave_the_group, True),
    ],
)  # fmt: skip
def test_a_rollout_pauses_before_its_next_node_when_its_caller_loses_rights(
    fleet, inside, people, loss, by_group
):
    people.user("ann")
    people.user("bob", ("admin", None))
    people.project("blue", "p-blue")
    if by_group:
        people.group("team", "ann")
        people.grant("manager", "blue", group="team")
    else:
        people.grant("manager", "blue", user="ann")
    several(fleet, 3)
    rollout = fleet.create(caller=caller_of(inside, "ann", "blue"))
    assert 1 == fleet.advance(rollout).running + fleet.of(rollout).succeeded

    loss(people)
    for _ in range(3):
        row = fleet.advance(rollout)
    assert (RolloutState.PAUSED, PauseCause.CALLER) == (row.state, row.pause_cause)
    assert 2 == row.pending, "the operation in progress ends, and no further one begins"
    assert "ann has lost rights" in fleet.summary(rollout)

    bob = caller_of(inside, "bob")
    with inside.runtime.transaction() as session:
        rollouts.request(session, row.uuid, RolloutEvent.RESUME, bob)
    for _ in range(4):
        row = fleet.advance(rollout)
    assert (RolloutState.COMPLETED, "bob") == (row.state, row.user_name)


def test_a_node_is_not_started_by_a_caller_who_has_lost_rights_since_the_decision(
    fleet, inside, people
):
    people.user("ann", ("manager", None))
    several(fleet, 1)
    rollout = fleet.create(caller=caller_of(inside, "ann"))
    members = rollout_waves._decide(inside.runtime, rollout)
    disable(people)
    assert [False] == [rollout_waves._start(inside.runtime, rollout, member) for member in members]
    assert [0] == fleet.operations()
    assert PauseCause.CALLER == fleet.of(rollout).pause_cause


def test_more_rights_and_another_password_leave_a_rollout_as_it_is(fleet, inside, people):
    people.user("ann", ("member", None))
    several(fleet, 2)
    rollout = fleet.create(caller=caller_of(inside, "ann"))
    people.grant("admin", user="ann")
    people.password("ann", "another password")
    assert RolloutState.RUNNING == fleet.advance(rollout).state
    people.revoke("admin", user="ann")
    for _ in range(3):
        row = fleet.advance(rollout)
    assert RolloutState.COMPLETED == row.state, "the role that it relies on was kept"


def test_a_rollout_is_taken_over_only_with_all_of_its_rights(fleet, inside, people):
    people.project("blue", "p-blue")
    people.project("red", "p-red")
    people.user("ann", ("manager", "blue"))
    people.user("low", ("member", "blue"))
    people.user("far", ("admin", "red"))
    several(fleet, 2)
    rollout = fleet.create(caller=caller_of(inside, "ann", "blue"))
    disable(people)
    fleet.advance(rollout)
    for name, project in (("low", "blue"), ("far", "red")):
        caller = caller_of(inside, name, project)
        with pytest.raises(Forbidden, match="manager"), inside.runtime.transaction() as session:
            rollouts.request(session, fleet.of(rollout).uuid, RolloutEvent.RESUME, caller)
    assert PauseCause.CALLER == fleet.of(rollout).pause_cause


def test_callers_who_are_no_users_of_the_database_are_not_checked(fleet, inside, people):
    several(fleet, 1)
    rollout = fleet.create(caller=CALLER)
    for _ in range(3):
        row = fleet.advance(rollout)
    assert (RolloutState.COMPLETED, None) == (row.state, row.authority)


def test_the_rollouts_of_a_project_leave_time_to_others(fleet, inside, monkeypatch):
    """Without time, a project has one start in a run, however many rollouts it has."""
    monkeypatch.setattr(rollout_waves, "TURN", 0)
    several(fleet, 4)
    strategy = {"max_unavailable": "100%"}
    many = [fleet.create(caller=replace(CALLER, project_id="p-many"), **strategy) for _ in range(3)]
    started = []
    monkeypatch.setattr(
        rollout_waves,
        "_start",
        lambda _runtime, rollout, _member: bool(started.append(rollout)) or True,
    )
    honest = fleet.create(caller=replace(CALLER, project_id="p-honest"), **strategy)
    rollout_waves.advance_all(inside.runtime)
    assert 2 == len(started)
    assert honest in started
    assert set(started) & set(many)
