"""The timeline of PostgreSQL, and the claims that a conductor gives up when it changes."""

import uuid
from types import SimpleNamespace

import psycopg
import pytest
from structlog.testing import capture_logs

from app.db.clock import after
from app.models import Operation
from drivers.core.steps import Done
from tests.support import database_users
from tests.support.inside import Inside
from workers.conductor import attempts, claims
from workers.conductor.promotion import Timeline, give_up_lost
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact


@pytest.fixture
def of_conductor(postgresql_copies):
    """The service on PostgreSQL, with the rights of a conductor; `owner`: URL of the owner."""
    url = postgresql_copies.take()
    database_users.grant(url)
    inside = Inside(database_users.url_of("conductor", url))
    inside.owner = url
    yield inside
    inside.close()
    postgresql_copies.give_back(url)


def timeline_of(inside):
    return Timeline(SimpleNamespace(runtime=inside.runtime))


def test_the_user_of_a_conductor_reads_the_timeline(of_conductor):
    timeline = timeline_of(of_conductor)
    timeline.look()
    assert 1 == timeline.last_timeline


def test_without_the_right_to_read_the_timeline_heartbeats_go_on(of_conductor):
    timeline = timeline_of(of_conductor)
    revoke = "REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC"
    with psycopg.connect(of_conductor.owner, autocommit=True) as session:
        session.execute(revoke)
        try:
            with capture_logs() as logged:
                timeline.look()
                timeline.look()
        finally:  # the next test gets this database
            session.execute(revoke.replace("REVOKE", "GRANT").replace("FROM", "TO"))
    assert timeline.last_timeline is None
    assert ["database.no_timeline"] == [line["event"] for line in logged]


def test_a_database_without_timelines_has_no_promotion(tmp_path, migrated_sqlite):
    inside = Inside(f"sqlite:///{migrated_sqlite}")
    timeline = timeline_of(inside)
    timeline.look()
    inside.close()
    assert timeline.last_timeline is None


@pytest.fixture
def conductor(inside):
    return inside.conductor("c-1")


def waiting(inside, conductor, **columns):
    """An operation whose agent the conductor polls, by its record."""
    name = inside.request(inside.node("manageable"), "provide")
    polled = {"claimed_by": conductor.incarnation, "watched_until": after(600)}
    inside.change(Operation, name, state="waiting", **polled | columns)
    return name


def claimed(inside, conductor):
    name = inside.request(inside.node("manageable"), "provide")
    return name, claims.claim(conductor, name, 1, 0)


def test_a_claim_without_an_attempt_is_taken_over_as_after_a_death(inside, conductor):
    name, attempt = claimed(inside, conductor)
    assert (0, 0) == give_up_lost(conductor), "its attempt is in progress"
    conductor.attempts.discard(attempt.operation.claim)
    assert (1, 0) == give_up_lost(conductor)
    assert 1 == reconciler.reconcile(inside.runtime, Contact(timeout=0))["taken_over"]
    assert ("queued", 1) == (inside.operation(name).state, inside.steps(name)[0].deaths)
    assert claims.claim(conductor, name, 2, 0).resumed, "the step looks before it acts"


def test_claims_of_others_and_waits_of_other_kinds_stay(inside, conductor):
    other = inside.conductor("c-2")
    foreign, _ = claimed(inside, other)
    other.attempts.clear()
    names = [
        waiting(inside, other),
        waiting(inside, conductor, watched_until=None),  # its agent's heartbeat resumes it
        waiting(inside, conductor, wake_at=after(60)),  # its poll is due later
    ]
    assert (0, 0) == give_up_lost(conductor)
    assert ["running"] + 3 * ["waiting"] == [
        inside.operation(name).state for name in (foreign, *names)
    ]


def test_an_agent_is_asked_again_unless_it_is_polled_under_this_fence(inside, conductor):
    asked_name, polled_name, outdated_name = (waiting(inside, conductor) for _ in range(3))
    fences = {inside.operation(polled_name).id: 1, inside.operation(outdated_name).id: 2}
    conductor.wait_monitor = SimpleNamespace(
        watches=lambda operation, fence: fences.get(operation) == fence
    )
    assert (0, 2) == give_up_lost(conductor)
    states = [inside.operation(name).state for name in (asked_name, polled_name, outdated_name)]
    assert ["queued", "waiting", "queued"] == states


@pytest.mark.parametrize("fails", [None, RuntimeError("a defect"), SystemExit()])
def test_an_attempt_is_in_progress_until_its_record(inside, conductor, monkeypatch, fails):
    name = inside.request(inside.node("manageable"), "provide")
    during = []

    def call(*_):
        during.append(set(conductor.attempts))
        if fails:
            raise fails
        return Done()

    monkeypatch.setattr(attempts, "call_of", lambda *_: call)
    attempts.run(conductor, inside.message(name))
    ((token,),) = during
    assert uuid.UUID(token)
    assert set() == conductor.attempts


def test_a_refused_claim_is_no_attempt(inside, conductor):
    name = inside.request(inside.node("manageable"), "provide")
    assert claims.claim(conductor, name, 7, 0) is None
    assert set() == conductor.attempts
