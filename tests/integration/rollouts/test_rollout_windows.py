"""Windows of rollouts: outside of them no node is started, and what runs goes on."""

from datetime import timedelta

from sqlalchemy import select, update

from app.db.clock import moment
from app.models import Node, Rollout
from app.rollouts import rollout_progress, rollout_waves

from .conftest import STROLL

EVER = {"cron": "* * * * *", "zone": "UTC", "minutes": 1}


def time_of(fleet):
    with fleet.inside.runtime.reading() as session:
        return moment(session)


def window_from(fleet, hours):
    """Return a window of two hours a day, the next or last of which began at a time from now."""
    begin = time_of(fleet) + timedelta(hours=hours)
    return {"cron": f"{begin.minute} {begin.hour} * * *", "zone": "UTC", "minutes": 120}


def set_strategy(fleet, rollout, **changes):
    with fleet.inside.runtime.transaction() as session:
        strategy = session.scalar(select(Rollout.strategy).where(Rollout.id == rollout))
        session.execute(
            update(Rollout).where(Rollout.id == rollout).values(strategy={**strategy, **changes})
        )


def explained(fleet, node_id):
    with fleet.inside.runtime.reading() as session:
        node = session.get_one(Node, node_id)
        return " ".join(rollout_progress.pending_on(session, node.uuid))


def test_a_rollout_starts_nothing_outside_of_its_window_and_says_so(fleet):
    node, other = fleet.node(), fleet.node()
    closed = window_from(fleet, 6)
    rollout = fleet.create(windows=[closed])
    fleet.advance(rollout, 3)
    assert [0, 0] == fleet.operations()
    hour, minute = closed["cron"].split()[1::-1]
    opening = f"T{int(hour):02}:{int(minute):02}:00Z"
    assert "It starts no node before 20" in fleet.summary(rollout)
    assert f"{opening}. Wave 1 of 2 waits for 1 of 1 node: 1 not started." in fleet.summary(rollout)
    assert f"rollout {fleet.of(rollout).uuid} will request clean: it starts no node before 20" in (
        explained(fleet, other)
    )
    set_strategy(fleet, rollout, windows=[closed, window_from(fleet, -1)])
    fleet.advance(rollout)
    assert ["running", "pending"] == fleet.states(rollout)
    assert "starts no node" not in fleet.summary(rollout)
    assert "will request clean: it is in wave 1 of 2" in explained(fleet, other)
    assert "will request" not in explained(fleet, node)


def test_a_rollout_waits_for_its_earliest_time(fleet):
    fleet.node()
    later = time_of(fleet) + timedelta(hours=1)
    rollout = fleet.create(not_before=later.isoformat())
    fleet.advance(rollout, 2)
    assert ["pending"] == fleet.states(rollout)
    assert f"before {later.isoformat(timespec='seconds')}Z." in fleet.summary(rollout)
    set_strategy(fleet, rollout, not_before=time_of(fleet).isoformat())
    assert "completed" == fleet.advance(rollout, 3).state


def test_a_window_that_closes_in_a_wave_stops_the_next_nodes_and_cuts_nothing(fleet, monkeypatch):
    members = [fleet.node() for _ in range(3)]
    rollout = fleet.create(steps=[STROLL], max_unavailable="3", windows=[window_from(fleet, -1)])
    later = iter([timedelta(0), timedelta(0)])  # the decision, and the start of the first node
    monkeypatch.setattr(
        rollout_waves, "moment", lambda session: moment(session) + next(later, timedelta(hours=6))
    )
    fleet.advance(rollout, 2)
    assert ["running", "pending", "pending"] == fleet.states(rollout)
    fleet.poll(members[0])
    fleet.advance(rollout, 2)
    assert ["succeeded", "pending", "pending"] == fleet.states(rollout)
    monkeypatch.undo()
    fleet.advance(rollout)
    assert ["succeeded", "running", "running"] == fleet.states(rollout)


def test_the_next_wave_waits_for_the_next_window(fleet):
    for _ in range(2):
        fleet.node()
    rollout = fleet.create(windows=[EVER])
    fleet.advance(rollout)
    set_strategy(fleet, rollout, windows=[window_from(fleet, 6)])
    fleet.advance(rollout, 3)
    assert ["succeeded", "pending"] == fleet.states(rollout)
    assert "It starts no node before" in fleet.summary(rollout)


def test_a_rollout_ends_and_is_aborted_outside_of_its_window(fleet):
    fleet.node()
    rollout = fleet.create(windows=[EVER])
    fleet.advance(rollout)
    set_strategy(fleet, rollout, windows=[window_from(fleet, 6)])
    assert "completed" == fleet.advance(rollout, 2).state
    waiting = fleet.create(windows=[window_from(fleet, 6)])
    fleet.request(waiting, "abort")
    assert "aborted" == fleet.advance(waiting).state


def test_a_failure_is_recorded_in_a_window_only(fleet, monkeypatch):
    """The window closes between the refusal of a node and its record: it is tried again."""
    node = fleet.node()
    rollout = fleet.create(windows=[window_from(fleet, -1)])
    with fleet.inside.runtime.transaction() as session:
        session.get_one(Node, node).provision_state = "active"
    later = iter([timedelta(0), timedelta(0)])
    monkeypatch.setattr(
        rollout_waves, "moment", lambda session: moment(session) + next(later, timedelta(hours=6))
    )
    fleet.advance(rollout)
    assert ["pending"] == fleet.states(rollout)
    monkeypatch.undo()
    fleet.advance(rollout)
    assert ["failed"] == fleet.states(rollout)
