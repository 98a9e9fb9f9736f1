"""Beat: one process leads, the others stand by."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from celery import Celery
from celery.schedules import schedule as period
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.sql.compiler import SQLCompiler
from structlog.testing import capture_logs

from app.broker import redis_broker
from app.cluster import conductors, periodic_passes
from app.db import connections, prepared, schema, transactions
from app.db.clock import after, now
from app.models import (
    Allocation,
    BeatLease,
    Conductor,
    Node,
    PeriodicPass,
    Rollout,
    RolloutState,
    Webhook,
)
from tests.support import programs
from tests.support.fleet import until
from workers.periodic import beat
from workers.periodic.database_contact import Contact
from workers.periodic.lost_conductors import DeadConductorLog
from workers.periodic.schedule import beat_time

#: Seconds without a heartbeat after which a conductor is dead.
TIMEOUT = 15.0


@pytest.fixture
def engine(database):
    database_engine = connections.connect(database)
    yield database_engine
    database_engine.dispose()


def test_the_first_beat_leads_and_keeps_its_lease_by_renewal(engine):
    assert beat.lead(engine, "first", 60)
    assert not beat.lead(engine, "second", 60)
    assert beat.lead(engine, "first", 60)


def test_what_a_first_tick_executes_was_compiled_before_the_fork(engine, monkeypatch):
    def refuse(_compiler, _dialect, statement, *_args, **_options):
        raise AssertionError(f"compiled: {statement}")

    prepared.compile_all(engine.dialect)
    monkeypatch.setattr(SQLCompiler, "__init__", refuse)
    assert beat.lead(engine, "first", 5)
    with transactions.read_connection(engine) as connection:
        assert [] == conductors.lost(connection, TIMEOUT)


def test_the_second_beat_leads_when_the_lease_of_the_first_has_expired(engine):
    assert beat.lead(engine, "first", 0.2)
    until(lambda: beat.lead(engine, "second", 60), "the end of the lease", between=0.02)
    assert not beat.lead(engine, "first", 60)


def test_a_beat_that_steps_down_is_replaced_at_once(engine):
    assert beat.lead(engine, "first", 60)
    beat.step_down(engine, "second")  # it does not lead: no effect
    assert not beat.lead(engine, "second", 60)
    beat.step_down(engine, "first")
    time.sleep(0.01)
    assert beat.lead(engine, "second", 60)


def test_one_of_many_concurrent_beats_leads(engine):
    def ask(holder):
        try:
            return beat.lead(engine, holder, 60)
        except IntegrityError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert 1 == sum(pool.map(ask, "abcdefgh"))


def test_a_killed_beat_is_replaced_by_the_standby(tmp_path, redis_url, redis_client):
    url = f"sqlite:///{tmp_path / 'ingot.db'}"
    schema.upgrade(url)
    engine = connections.connect(url)
    environ = {
        **os.environ,
        "INGOT_DATABASE_CONNECTION": url,
        "INGOT_BROKER_URL": redis_url,
        "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "0.2",
    }
    with open(os.devnull, "w") as log:
        beats = [
            programs.start("workers.cli:main", argv=["beat"], environ=environ, stderr=log)
            for _ in range(2)
        ]

    def leader():
        with transactions.reading(engine) as session:
            lease = session.get(BeatLease, 1)
            return lease and next(beat for beat in beats if f":{beat.pid}:" in lease.holder)

    try:
        first_beat = until(leader, "a lead")
        until(redis_client.keys, "a message")
        first_beat.send_signal(signal.SIGKILL)
        (second_beat,) = [beat for beat in beats if beat is not first_beat]
        until(lambda: leader() is second_beat, "the take-over")
        redis_client.flushall()
        until(redis_client.keys, "a message after the loss of all")
        second_beat.terminate()
        assert 0 == second_beat.wait(60)
    finally:
        for beat in beats:
            beat.kill()
            beat.wait()
        engine.dispose()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def lookout(inside, url, clock):
    client = redis_broker.client(url, 0.5)
    return DeadConductorLog(
        inside.runtime.engine, client, "test", TIMEOUT, Contact(TIMEOUT, clock=clock)
    )  # fmt: skip


def look(*lookouts):
    """Let each check once; return their log."""
    with capture_logs() as logged:
        for lookout in lookouts:
            lookout.check()
    return [(entry["event"], entry["conductor"], entry["conductors_left"]) for entry in logged]


def test_a_dead_conductor_is_logged_once_across_changes_of_the_leading_beat(inside, redis_url):
    for name in ("c-1", "c-2", "c-3"):
        inside.conductor(name)
    clock = Clock()
    leader, standby = lookout(inside, redis_url, clock), lookout(inside, redis_url, clock)
    assert [] == look(leader, standby)
    inside.change(Conductor, "c-1", heartbeat_at=after(-2 * TIMEOUT))
    inside.change(
        Conductor, "c-3", heartbeat_at=after(-2 * TIMEOUT), online=False
    )  # it was stopped
    clock.now = TIMEOUT - 1
    assert [] == look(leader, standby), "their contact with the database is too short"
    clock.now = TIMEOUT + 1
    assert [("conductor.lost", "c-1", 1)] == look(leader, standby, leader, standby)
    inside.conductor("c-1")
    assert [] == look(leader, standby)
    for name in ("c-1", "c-2"):
        inside.change(Conductor, name, heartbeat_at=after(-2 * TIMEOUT))
    assert [("conductor.lost", "c-1", 0), ("conductor.lost", "c-2", 0)] == look(standby, leader)
    clock.now += 2 * TIMEOUT  # the database was unavailable for as long
    assert [] == look(lookout(inside, redis_url, clock))


def test_a_dead_conductor_is_logged_while_redis_is_unreachable(inside, tmp_path):
    inside.conductor("c-1", heartbeat_at=after(-2 * TIMEOUT))
    clock = Clock()
    lonely = lookout(inside, f"redis+socket://{tmp_path}/nobody", clock)
    assert [] == look(lonely)
    clock.now = TIMEOUT
    assert [("conductor.lost", "c-1", 0)] == look(lonely, lonely)


@pytest.fixture
def scheduler(engine, monkeypatch):
    """Return a function that makes a scheduler of entries, name -> seconds since they were due."""
    messages, renewals, lead, broker = [], [], beat.lead, SimpleNamespace(away=False)

    def send(message):
        if not broker.away:
            messages.append(message)
        return not broker.away

    def probe():
        if broker.away:
            raise ConnectionError("Connection refused")

    for name, value in {
        "engine": engine, "holder": "first", "send": send, "leading": False,
        "lookout": SimpleNamespace(check=lambda: None, timeout=TIMEOUT), "silent_since": None,
        "probe": probe, "has_expected_passes": False, "expected": {}, "idle": set(), "idle_recorded": 0.0,
    }.items():  # fmt: skip
        monkeypatch.setattr(beat.LeasedScheduler, name, value, raising=False)
    # for a minute, so that a slow machine does not lose it
    monkeypatch.setattr(
        beat,
        "lead",
        lambda *arguments, **options: renewals.append(arguments) or lead(*arguments, 60, **options),
    )

    def make(**late):
        application, schedule = Celery("beat", set_as_current=False), {}
        for name in late:
            task, *arguments = name.replace("__", ".").split()
            schedule[name] = {
                "task": task, "args": arguments, "schedule": period(60.0, nowfun=beat_time),
            }  # fmt: skip
        application.conf.beat_schedule = schedule
        instance = beat.LeasedScheduler(application, max_interval=beat.PACE, lazy=True)
        instance.setup_schedule()
        for name, entry in instance.schedule.items():
            entry.last_run_at -= timedelta(seconds=60 + late[name])
        return instance

    return SimpleNamespace(make=make, messages=messages, renewals=renewals, broker=broker)


def leads(engine):
    """The holder of a valid lease; None: there is none."""
    with transactions.reading(engine) as session:
        return session.scalar(select(BeatLease.holder).where(BeatLease.until > now()))


def test_a_leader_that_cannot_send_for_a_lease_steps_down_until_it_can(
    engine, scheduler, monkeypatch
):
    monkeypatch.setattr(beat, "LEASE", 3600.0)
    alone = scheduler.make(t0=60, t1=-100)
    alone.tick()
    assert "first" == leads(engine)
    scheduler.broker.away = True
    alone.schedule["t1"].last_run_at -= timedelta(seconds=200)
    alone.populate_heap()
    alone.tick()
    alone.tick()
    assert alone.leading, "a single failed send is no reason"
    beat.LeasedScheduler.silent_since -= beat.LEASE
    assert beat.STAND_BY == alone.tick() == alone.tick()
    assert leads(engine) is None
    time.sleep(0.01)
    assert beat.lead(engine, "second"), "the other beat leads at once"
    beat.step_down(engine, "second")
    scheduler.broker.away = False
    time.sleep(0.01)
    alone.tick()
    assert "first" == leads(engine)


def test_a_beat_that_cannot_reach_the_broker_does_not_lead(engine, scheduler):
    scheduler.broker.away = True
    assert beat.STAND_BY == scheduler.make(t0=60).tick()
    assert leads(engine) is None
    assert [] == scheduler.renewals == scheduler.messages


@pytest.mark.parametrize("seconds", [-3600, -3, 3, 3600], ids="{:+} s".format)
def test_a_step_of_the_clock_changes_no_period(scheduler, monkeypatch, seconds):
    """As Celery's own schedule would: an hour back stops all tasks for an hour."""
    alone = scheduler.make(t0=-1000, t1=60)
    step = timedelta(seconds=seconds)
    monkeypatch.setattr(Celery, "now", lambda _: datetime.now(UTC) + step)
    alone.tick()
    assert {"t1"} == {message.task for message in scheduler.messages}


def test_all_due_tasks_are_sent_with_one_renewal_of_the_lease(scheduler):
    instance = scheduler.make(t0=60, t1=60, t2=60)
    assert beat.PACE == instance.tick()
    assert {"t0", "t1", "t2"} == {message.task for message in scheduler.messages}
    assert 1 == len(scheduler.renewals)


def test_a_tick_waits_for_all_tasks_that_are_due_soon(scheduler, monkeypatch):
    """A period of a minute in place of a tenth of a second, so that a slow machine cannot fail."""
    monkeypatch.setattr(beat, "TOGETHER", 60.0)
    monkeypatch.setattr(beat, "PACE", 600.0)
    assert 60.0 == scheduler.make(t0=-40, t1=-50).tick()
    assert [] == scheduler.messages


def test_the_wait_for_an_entry_is_not_shortened(scheduler):
    """Celery's scheduler subtracts 10 ms, and so ticks once more before the entry is due."""
    assert 1.5 == scheduler.make(t0=60).adjust(1.5)


WORK = {
    "ingot__advance_rollouts": Rollout(
        uuid="r", target="clean", state=RolloutState.RUNNING, waves=1, error_budget=1, nodes=1
    ),
    "ingot__fan_out ingot__power_sync": Node(
        uuid="n", driver="fake-hardware", provision_state="available"
    ),
    "ingot__check_allocations": Allocation(
        uuid="a", due_at=datetime(2000, 1, 1, tzinfo=UTC)
    ),
    "ingot__deliver_webhooks": Webhook(
        uuid="w", name="w", url="http://a", secret="s", position=0, due_at=datetime(2000, 1, 1, tzinfo=UTC)
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", WORK)
def test_a_task_without_work_is_not_sent(engine, scheduler, task):
    scheduler.make(**{task: 60}).tick()
    assert [] == scheduler.messages
    with transactions.transaction(engine) as session:
        session.merge(WORK[task])
    scheduler.make(**{task: 60}).tick()
    (message,) = scheduler.messages
    assert task.replace("__", ".").split() == [message.task, *message.arguments]


def test_a_task_is_skipped_while_its_work_cannot_be_read(scheduler, monkeypatch):
    def unreadable(*_):
        raise OperationalError("SELECT", {}, Exception("gone"))

    monkeypatch.setattr(beat.schedule, "has_work", unreadable)
    assert beat.PACE == scheduler.make(t0=60).tick()
    assert [] == scheduler.messages


def expect(engine, tasks, seconds=0.0):
    """Expect passes of tasks, name -> period, since some seconds."""
    with transactions.write_connection(engine) as connection:
        periodic_passes.expect(connection, tasks)
        connection.execute(update(PeriodicPass).values(expected_at=after(-seconds)))


def ages(engine):
    """Return task -> seconds since its last completed pass."""
    with transactions.read_connection(engine) as connection:
        return {row.task: row.seconds for row in periodic_passes.passes(connection, TIMEOUT)}


def test_the_leading_beat_expects_the_tasks_that_it_sends(engine, scheduler, monkeypatch):
    expect(engine, {"ingot.former": 1.0, "ingot.t0": 9.0}, seconds=100)
    monkeypatch.setattr(beat.LeasedScheduler, "expected", {"ingot.t0": 60.0, "ingot.t1": 7.0})
    scheduler.make(ingot__t0=-1000).tick()
    assert {"ingot.t0", "ingot.t1"} == set(ages(engine))
    assert 99 < ages(engine)["ingot.t0"], "a new leader is no completed pass"
    with transactions.reading(engine) as session:
        periods = dict(session.execute(select(PeriodicPass.task, PeriodicPass.period)).all())
    assert {"ingot.t0": 60.0, "ingot.t1": 7.0} == periods


def test_a_beat_counts_periods_from_the_last_pass_and_not_from_its_start(
    engine, scheduler, monkeypatch
):
    """Else no daily task runs where beats are started each day."""
    tasks = {"ingot.t0": 60.0, "ingot.t1": 60.0}
    expect(engine, tasks, seconds=61)
    with transactions.write_connection(engine) as connection:
        periodic_passes.complete(connection, "ingot.t1", "")
    monkeypatch.setattr(beat.LeasedScheduler, "expected", tasks)
    scheduler.make(ingot__t0=-60, ingot__t1=-60).tick()
    assert ["ingot.t0"] == [message.task for message in scheduler.messages]


def test_a_task_without_work_counts_as_completed(engine, scheduler, monkeypatch):
    tasks = {"ingot.check_allocations": 5.0}
    expect(engine, tasks, seconds=100)
    monkeypatch.setattr(beat.LeasedScheduler, "expected", tasks)
    instance = scheduler.make(ingot__check_allocations=60)
    instance.tick()
    instance.tick()
    assert 50 > ages(engine)["ingot.check_allocations"]
    assert [] == scheduler.messages


def test_the_last_message_of_the_beat_has_an_age(engine, scheduler, monkeypatch):
    def silence():
        with transactions.reading(engine) as session:
            return conductors.beat_silence(session)

    assert silence() is None
    instance = scheduler.make(t0=60)
    instance.tick()
    monkeypatch.setattr(beat.LeasedScheduler, "last_sent_at", time.monotonic() - 1000)
    instance.tick()
    assert 999 < silence()
