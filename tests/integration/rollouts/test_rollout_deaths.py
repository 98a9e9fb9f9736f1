"""One start of each node, in spite of deaths and competitors."""

import threading

import pytest
from sqlalchemy import select

from app.models import Operation
from app.rollouts import rollout_waves

from .conftest import die_in


@pytest.mark.parametrize("point", ["acted:rollout", "handed_out:clean", "committed:clean"])
def test_a_death_at_any_point_loses_and_repeats_nothing(fleet, point):
    for _ in range(3):
        fleet.node()
    rollout = fleet.create(max_unavailable="2")
    died = die_in(fleet.inside, point, lambda another: another.advance(rollout, 4))
    assert died
    row = fleet.of(rollout)
    assert [1] * row.running + [0] * (3 - row.running) == fleet.operations()
    for message in unsent(fleet):  # the reconciler sends the ones that the process has not
        fleet.inside.messages.append(message)
    fleet.run()
    ended = fleet.advance(rollout, 5)
    assert ("completed", 3) == (ended.state, ended.succeeded)
    assert [1] * 3 == fleet.operations()


def unsent(fleet):
    with fleet.inside.runtime.reading() as session:
        names = session.scalars(select(Operation.uuid).where(Operation.state == "queued")).all()
    return [fleet.inside.message(name) for name in names]


def test_several_processes_start_each_node_once(fleet):
    for _ in range(40):
        fleet.node()
    rollout = fleet.create(max_unavailable="40")
    views = [fleet.inside.another() for _ in range(4)]
    for view in views:
        view.runtime.drivers = fleet.inside.runtime.drivers
    start, errors = threading.Barrier(4), []

    def work(other):
        try:
            start.wait(60)
            for _ in range(10):
                rollout_waves.advance_all(other.runtime)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(view,)) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for view in views:
        fleet.inside.messages += view.messages
        view.close()
    assert [] == errors
    fleet.advance(rollout)
    assert [1] * 40 == fleet.operations()
    fleet.run()
    ended = fleet.advance(rollout, 2)
    assert ("completed", 40, 0) == (ended.state, ended.succeeded, ended.running)


def test_an_end_is_recorded_once_also_for_more_nodes_than_one_transaction_takes(fleet, monkeypatch):
    monkeypatch.setattr(rollout_waves, "SETTLED", 2)
    monkeypatch.setattr(rollout_waves, "STARTED", 3)
    for _ in range(7):
        fleet.node()
    rollout = fleet.create(max_unavailable="7")
    fleet.advance(rollout)
    assert 3 == fleet.of(rollout).running
    fleet.advance(rollout, 3)
    ended = fleet.of(rollout)
    assert ("completed", 7, 0) == (ended.state, ended.succeeded, ended.failed)
