"""Health is work done: completed passes of periodic tasks, and who reports those that are late."""

import threading

import pytest
from celery import Celery
from sqlalchemy import select, update

from app.cluster import conductors, periodic_passes
from app.db.clock import after
from app.models import BeatLease, Conductor, Operation, PeriodicPass
from app.reports import health, service_state
from app.server.application import create_app
from tests.support.redis import breakers
from workers.doctor import database_checks
from workers.doctor.checks import Installation
from workers.periodic import control_tasks, pruning, reconciler, schedule
from workers.periodic.database_contact import Contact
from workers.periodic.schedule import Periodic

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
BLINK = "ingot.blink"
#: Seconds without a heartbeat after which a conductor is dead.
TIMEOUT = 15.0


def late(inside):
    """Return (task, conductor) of the late passes."""
    with inside.runtime.read_connection() as connection:
        passes = periodic_passes.passes(connection, TIMEOUT)
    return [(row.task, row.conductor) for row in passes if row.is_late]


def expect(inside, tasks, conductor=None):
    with inside.runtime.write_connection() as connection:
        if conductor is None:
            periodic_passes.expect(connection, tasks)
        else:
            periodic_passes.expect_of(connection, conductor, tasks)


def grow_old(inside, seconds=100.0):
    """Let the last passes, and what was expected before, be older by some seconds."""
    old = {"expected_at": after(-seconds), "completed_at": None}
    with inside.runtime.write_connection() as connection:
        connection.execute(update(PeriodicPass).values(**old))


@pytest.fixture
def blink(inside, redis_client, redis_url, monkeypatch):
    """Return a function that makes the task BLINK of some work, in a control process."""

    def make(work, **columns):
        row = Periodic(BLINK, lambda _control: work(), lambda _settings: 1.0, **columns)
        monkeypatch.setattr(schedule, "PERIODIC", (row,))
        monkeypatch.setattr(control_tasks, "_spaced", lambda _seconds, work: work)
        application = Celery(set_as_current=False)
        application.breakers = breakers(redis_url)
        control_tasks.register_tasks(application, inside.runtime, "c-1", redis_client)
        return application.tasks[BLINK]

    return make


def test_a_completed_pass_is_recorded(inside, blink):
    expect(inside, {BLINK: 1.0})
    grow_old(inside)
    assert [(BLINK, "")] == late(inside)
    runs = []
    blink(lambda: runs.append(BLINK))()
    assert ([BLINK], []) == (runs, late(inside))


@pytest.mark.parametrize(
    ("period", "timeout"), [(2.0, 15.0), (0.3, 2.0), (0.1, 0.2), (120.0, 15.0), (86400.0, 15.0)]
)
def test_records_are_much_younger_than_the_bound(period, timeout):
    age = max(periodic_passes.resolution(period, timeout), period) + period
    assert age < periodic_passes.bound(period, timeout)


@SQLITE
@pytest.mark.parametrize("error", [ValueError("a defect"), ConnectionError("no broker")])
def test_a_pass_that_fails_is_not_recorded(inside, blink, error):
    def fail():
        raise error

    expect(inside, {BLINK: 1.0})
    grow_old(inside)
    task = blink(fail)
    if isinstance(error, ValueError):
        with pytest.raises(ValueError):
            task()
    else:  # an outage is logged
        task()
    assert [(BLINK, "")] == late(inside)


@SQLITE
def test_a_pass_that_hangs_or_is_refused_for_it_is_not_recorded(inside, blink):
    begun, end = threading.Event(), threading.Event()
    expect(inside, {BLINK: 1.0})
    grow_old(inside)
    task = blink(lambda: begun.set() or end.wait(), at_most=1)
    hanging = threading.Thread(target=task)
    hanging.start()
    try:
        assert begun.wait(30)
        task()  # at most one at a time: it returns at once, without a pass
        assert [(BLINK, "")] == late(inside)
    finally:
        end.set()
        hanging.join()
    assert [] == late(inside)


@SQLITE
def test_passes_in_quick_succession_are_written_once(inside):
    writes, moment = [], [0.0]
    run = control_tasks._recorded(
        lambda: writes.append(moment[0]), lambda: None, 5.0, lambda: moment[0]
    )
    for moment[0] in (0.0, 2.0, 4.0, 6.0):
        run()
    assert [0.0, 6.0] == writes


def test_each_conductor_completes_its_own_passes(inside, blink):
    for name in ("c-1", "c-2"):
        inside.conductor(name)
        expect(inside, {BLINK: 1.0}, name)
    grow_old(inside)
    blink(lambda: None, each_conductor=True)()
    assert [(BLINK, "c-2")] == late(inside)
    inside.change(Conductor, "c-2", heartbeat_at=after(-100))
    assert [] == late(inside), "it is dead, and others have its nodes"
    inside.change(Conductor, "c-2", heartbeat_at=after(0), impediment="it has no broker")
    assert [] == late(inside), "others have its nodes"
    inside.change(Conductor, "c-2", impediment=None)
    assert [(BLINK, "c-2")] == late(inside)
    expect(inside, {BLINK: 1.0}, "c-2")  # its next incarnation
    assert [] == late(inside)


@SQLITE
def test_a_conductor_that_is_forgotten_leaves_no_rows(inside):
    inside.conductor("c-1", heartbeat_at=after(-100))
    expect(inside, {BLINK: 1.0}, "c-1")
    with inside.runtime.transaction() as session:
        assert ["c-1"] == conductors.remove_silent(session, 50)
    with inside.runtime.reading() as session:
        assert [] == session.scalars(select(PeriodicPass.task)).all()


def test_every_task_says_what_stops_without_it():
    assert {task.name for task in schedule.PERIODIC} == set(periodic_passes.WITHOUT)


# reports


@pytest.fixture
def healthy(inside):
    """A service in which all is well: a beat leads, two conductors live."""
    with inside.runtime.transaction() as session:
        session.add(BeatLease(id=1, holder="a beat", until=after(600), sent_at=after(0)))
    for name in ("c-1", "c-2"):
        inside.conductor(name, heartbeat_at=after(0))
    tasks = {"ingot.reconcile": 2.0}
    expect(inside, tasks)
    for name in ("c-1", "c-2"):
        expect(inside, {"ingot.power_sync": 120.0}, name)
    return inside


def reasons(inside):
    """Return part -> reason of all parts that are not well."""
    with inside.runtime.reading() as session:
        parts = health.examine(session)
    return {part.part: part.reason for part in parts if not part.is_healthy}


def a_late_reconciler(inside):
    grow_old(inside)
    return {"periodic tasks": "ingot.reconcile does not complete"}


def a_late_power_sync_of_one_conductor(inside):
    old = update(PeriodicPass).where(PeriodicPass.conductor == "c-2")
    with inside.runtime.write_connection() as connection:
        connection.execute(old.values(expected_at=after(-1000)))
    return {"periodic tasks": "ingot.power_sync does not complete"}


def one_lost_conductor(inside):
    inside.change(Conductor, "c-2", heartbeat_at=after(-100))
    return {"conductors": "1 lost"}


def one_impeded_conductor(inside):
    inside.change(Conductor, "c-2", impediment="it has no broker")
    return {"conductors": "1 impeded"}


def a_silent_beat(inside):
    with inside.runtime.write_connection() as connection:
        connection.execute(update(BeatLease).values(sent_at=after(-1000)))
    return {"beat": "it sends nothing"}


def a_message_that_was_sent_again_and_again(inside):
    name = inside.request(inside.node("manageable"), "provide")
    inside.change(Operation, name, first_sent_at=after(-1000), sent_at=after(-1), sends=17)
    return {"messages": "conductors leave messages unclaimed"}


def an_operation_beyond_its_deadline(inside):
    name = inside.request(inside.node("manageable"), "provide")
    inside.change(Operation, name, state="waiting", deadline_at=after(-1000))
    return {"operations": "1 without progress"}


@SQLITE
@pytest.mark.parametrize(
    "fault",
    [
        a_late_reconciler,
        a_late_power_sync_of_one_conductor,
        one_lost_conductor,
        one_impeded_conductor,
        a_silent_beat,
        a_message_that_was_sent_again_and_again,
        an_operation_beyond_its_deadline,
    ],
)
def test_health_is_green_only_where_all_is_well(healthy, fault):
    http = create_app(healthy.runtime).test_client()
    assert {} == reasons(healthy)
    assert 200 == http.get("/healthcheck?detailed=true").status_code
    assert fault(healthy) == reasons(healthy)
    assert 503 == http.get("/healthcheck?detailed=true").status_code


@SQLITE
def test_a_resend_does_not_renew_the_age_of_a_message(healthy):
    name = healthy.request(healthy.node("manageable"), "provide")
    healthy.change(Operation, name, first_sent_at=after(-1000), sent_at=after(-90))
    trusted = Contact(0)
    assert 1 == reconciler.reconcile(healthy.runtime, trusted)["resent"]
    assert "messages" in reasons(healthy)


@SQLITE
def test_a_late_task_is_named_with_what_stops_without_it(healthy):
    a_late_power_sync_of_one_conductor(healthy)
    with healthy.runtime.reading() as session:
        document = service_state.describe(session)
    (task,) = [task for task in document["periodic_tasks"] if not task["healthy"]]
    assert ("ingot.power_sync", "c-2") == (task["task"], task["conductor"])
    (finding,) = database_checks.late_passes(Installation(healthy.runtime, None, None))
    assert "task ingot.power_sync on conductor c-2" == finding.subject
    assert "has not completed for 1000 s" in finding.explanation
    assert "power states, health and boot modes are not read" in finding.explanation
    assert "power states" in task["without"]
    assert 390 == task["bound_seconds"]


@SQLITE
def test_rows_of_conductors_that_died_long_ago_are_deleted(inside):
    inside.environ["INGOT_CONDUCTOR_CONDUCTOR_CLEANUP_TIMEOUT"] = "3600"
    view = inside.another()
    for name, silent in (("c-1", 0), ("c-2", 3500), ("c-3", 3700), ("c-4", 86400)):
        view.conductor(name, heartbeat_at=after(-silent))
    assert 2 == pruning.forget_conductors(view.runtime)
    assert 0 == pruning.forget_conductors(view.runtime)
    with view.runtime.reading() as session:
        assert {"c-1", "c-2"} == set(session.scalars(select(Conductor.hostname)))
    view.close()
