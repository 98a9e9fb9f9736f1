"""A standby that lacks the last writes is promoted: claims that were lost with them are given up."""

import uuid
from types import SimpleNamespace

import pytest

from app.db import schema
from app.db.clock import after
from app.models import Operation
from drivers.core.steps import Done
from tests.chaos.servers import Replica, a_folder, a_postgresql, ask, running
from tests.support import postgresql
from tests.support.fleet import until
from tests.support.inside import Inside
from workers.conductor import claims, recording
from workers.conductor.life import Life
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact


@pytest.fixture
def pair(tmp_path):
    """A primary with the service's schema, and its standby."""
    with a_postgresql() as primary, a_folder() as folder:
        schema.upgrade(primary.url)
        with running(Replica(folder, primary)) as standby:
            until(standby.receives, "replication")
            yield SimpleNamespace(primary=primary, standby=standby)


class Monitor:
    """A wait monitor that polls no agent, but the operations in `watched`."""

    running = True

    def __init__(self):
        self.watched = {}  # operation -> fence

    def watches(self, operation, fence):
        return self.watched.get(operation) == fence


def fail_over(pair):
    """Kill the primary, promote its standby."""
    pair.primary.crash()
    pair.standby.promote()
    until(lambda: not ask(pair.standby, "postgres", "SELECT pg_is_in_recovery()"), "a primary")


def replicate(pair):
    position = ask(pair.primary, "postgres", "SELECT pg_current_wal_lsn()")
    until(
        lambda: ask(pair.standby, "postgres", f"SELECT pg_last_wal_replay_lsn() >= '{position}'"),
        "replication",
    )


def claimed(inside, conductor):
    """A claimed operation: (its UUID, the attempt)."""
    name = inside.request(inside.node("manageable"), "provide")
    return name, claims.claim(conductor, name, 1, 0)


def waiting(inside, conductor):
    """An operation whose agent the conductor polls: its UUID."""
    name = inside.request(inside.node("manageable"), "provide")
    inside.change(
        Operation, name, state="waiting", claimed_by=conductor.incarnation, watched_until=after(600)
    )
    return name


def test_claims_and_waits_that_a_promoted_standby_has_again_are_given_up(pair):
    name = postgresql.name_of(pair.primary.url)
    url = (
        f"postgresql:///{name}?user={postgresql.ACCOUNT}"
        f"&host={pair.primary.folder},{pair.standby.folder}&target_session_attrs=read-write"
    )
    inside = Inside(url)
    conductor, other = inside.conductor("c-1"), inside.conductor("c-2")
    conductor.incarnation, conductor.wait_monitor = str(uuid.uuid4()), Monitor()
    conductor.witness = SimpleNamespace(recall=lambda: 0)
    life = Life(conductor, 0)
    life._register()
    done_operation, attempt = claimed(inside, conductor)
    acted, _ = claimed(inside, conductor)  # in progress all the time
    foreign, _ = claimed(inside, other)
    called, polled = waiting(inside, conductor), waiting(inside, conductor)
    conductor.wait_monitor.watched[inside.operation(polled).id] = inside.operation(polled).fence
    assert life._heartbeat()
    replicate(pair)
    pair.standby.cut_off()
    # lost: the step is done, the agent has called
    assert recording.advance(conductor, attempt, Done())
    conductor.attempts.discard(attempt.operation.claim)
    inside.change(Operation, called, state="queued", fence=2)
    fail_over(pair)
    inside.runtime.engine.dispose()
    states = {
        operation: inside.operation(operation).state
        for operation in (done_operation, acted, foreign, called)
    }
    assert {
        done_operation: "running",
        acted: "running",
        foreign: "running",
        called: "waiting",
    } == states
    assert life._heartbeat()
    assert ("queued", 2) == (inside.operation(called).state, inside.operation(called).fence)
    assert "waiting" == inside.operation(polled).state
    counts = reconciler.reconcile(inside.runtime, Contact(timeout=0))
    assert 1 == counts["taken_over"]
    states = {
        operation: inside.operation(operation).state
        for operation in (done_operation, acted, foreign)
    }
    assert {done_operation: "queued", acted: "running", foreign: "running"} == states
    assert life._heartbeat()  # the timeline is known: nothing more is given up
    assert 0 == reconciler.reconcile(inside.runtime, Contact(timeout=0))["taken_over"]
    inside.close()
