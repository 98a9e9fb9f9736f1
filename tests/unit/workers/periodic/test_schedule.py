"""The rows of the periodic tasks, and tasks that take longer than their period."""

import threading
from types import SimpleNamespace

import pytest

from app.broker import queue
from app.broker.redis_broker import client
from app.config.settings import load
from app.runtime import make
from tests.support.fleet import until
from workers.periodic import control_tasks, schedule
from workers.periodic.control_tasks import _at_most, _spaced
from workers.periodic.schedule import FAN_OUT, PERIODIC, Periodic

NOWHERE = {"INGOT_BROKER_URL": "redis://127.0.0.1:1"}


@pytest.fixture
def registered(tmp_path):
    """The names of the tasks of a conductor's control process."""
    settings = load({**NOWHERE, "INGOT_DATABASE_CONNECTION": f"sqlite:///{tmp_path / 'ingot.db'}"})
    application = queue.celery(settings)
    runtime = make(settings, lambda _: True)
    control_tasks.register_tasks(application, runtime, "c-1", client(settings.broker.url, 1))
    yield set(application.tasks)
    runtime.engine.dispose()
    application.close()


def test_each_row_of_the_periodic_tasks_is_registered_and_scheduled(registered):
    names = [task.name for task in PERIODIC]
    assert len(set(names)) == len(names)
    assert {FAN_OUT, *names} <= registered
    every = {
        "INGOT_PXE_BOOT_RETRY_TIMEOUT": "60",
        "INGOT_DATABASE_SECRETS_KEY": "a key",
        "INGOT_NOTIFICATION_LEVEL": "info",
        "INGOT_SENSOR_DATA_SEND_SENSOR_DATA": "true",
        "INGOT_REDFISH_EVENT_RECEIVER_URL": "https://ingot.example",
        "INGOT_NOVA_AUTH_URL": "http://keystone",
        "INGOT_VAULT_ADDRESS": "https://vault.example",
        "INGOT_VAULT_ROLE_ID": "a role",
        "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL": "rabbit://localhost",
    }
    entries = schedule.schedule(load(every)).values()
    assert names == [[entry["task"], *entry["args"]][-1] for entry in entries]


@pytest.mark.parametrize(("each_conductor", "task"), [(True, FAN_OUT), (False, "ingot.blink")])
def test_a_task_of_each_conductor_is_scheduled_as_a_fan_out(monkeypatch, each_conductor, task):
    row = Periodic("ingot.blink", lambda _: None, lambda _: 7.0, each_conductor=each_conductor)
    monkeypatch.setattr(schedule, "PERIODIC", (row,))
    (entry,) = schedule.schedule(load({})).values()
    assert (task, 7.0) == (entry["task"], entry["schedule"].seconds)
    assert (("ingot.blink",) if each_conductor else ()) == entry["args"]


def test_a_period_of_0_disables_its_task_alone():
    every = set(schedule.schedule(load({})))
    some = set(schedule.schedule(load({"INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "0"})))
    assert {"ingot.fan_out.ingot.power_sync"} == every - some


def test_a_running_periodic_task_is_not_started_again():
    begun, go_on = [], threading.Event()

    def work():
        begun.append(threading.current_thread())
        go_on.wait(60)

    turn = _at_most(2, work)
    threads = [threading.Thread(target=turn) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(begun) == 2)
    turn()
    assert threading.current_thread() not in begun
    go_on.set()
    for thread in threads:
        thread.join(60)
    turn()
    assert threading.current_thread() is begun[-1]


def test_of_messages_that_waited_together_the_first_runs():
    """By their own clocks their ages could be anything: those of sender and receiver differ."""
    moment, runs = 1000.0, []
    run = _spaced(2.0, lambda: runs.append(moment), lambda: moment)
    for _ in range(50):
        run()
    assert [1000.0] == runs
    for moment in (1000.9, 1001.1, 1001.9, 1003.0, 1003.1):  # noqa: B007 - read by the clock
        run()
    assert [1000.0, 1001.1, 1003.0] == runs


def test_a_fan_out_reaches_every_conductor(tmp_path, monkeypatch):
    settings = load({**NOWHERE, "INGOT_DATABASE_CONNECTION": f"sqlite:///{tmp_path / 'ingot.db'}"})
    application, messages = queue.celery(settings), []
    runtime = make(settings, lambda _: True)
    control_tasks.register_tasks(application, runtime, "c-1", client(settings.broker.url, 1))
    members = [SimpleNamespace(name=f"c-{number}") for number in range(3)]
    monkeypatch.setattr(control_tasks.conductors, "members", lambda _runtime: members)
    monkeypatch.setattr(control_tasks, "send_task", lambda _app, *message: messages.append(message))
    application.tasks[FAN_OUT]("ingot.power_sync")
    assert [
        ("ingot.power_sync", (), f"conductor.c-{number}.now") for number in range(3)
    ] == messages
    runtime.engine.dispose()
    application.close()
