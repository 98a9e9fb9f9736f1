"""Power updates: Nova learns each change of the power of a machine with an instance."""

from contextlib import contextmanager
from datetime import datetime
from uuid import uuid4

import pytest

from app.events import change_events
from app.models import Node, PowerUpdateCursor
from app.process import kill_points
from tests.support.inside import Inside
from tests.support.web import Handler, serving
from workers.periodic.power_updates import PowerUpdates
from workers.periodic.schedule import PERIODIC

UNKNOWN = {"itemNotFound": {"code": 404, "message": "No instances found for any event"}}


class Nova(Handler):
    """Nova's events; `status`, `answer`: of the next answers; `events`: (instance, tag) of the events."""

    def do_POST(self):
        assert "/v2.1/os-server-external-events" == self.path
        assert "compute 2.76" == self.headers["OpenStack-API-Version"]
        events = self.body()["events"]
        assert {"power-update"} == {event["name"] for event in events}
        if self.server.status is None:
            self.close_connection = True
            self.connection.close()
            return
        if self.server.status == 200:
            self.server.events += [(event["server_uuid"], event["tag"]) for event in events]
        answer = {"events": [{**event, "code": 200, "status": "completed"} for event in events]}
        answer = answer if self.server.answer is None else self.server.answer
        self.answer(self.server.status, answer)


@pytest.fixture
def nova():
    with serving(Nova, events=[], status=200, answer=None) as server:
        yield server


@contextmanager
def sending(database, nova, **environ):
    usual = {"INGOT_NOVA_AUTH_TYPE": "none", "INGOT_NOVA_ENDPOINT_OVERRIDE": f"{nova.url}/v2.1"}
    inside = Inside(database, **usual | environ)
    deliverer = PowerUpdates(inside.runtime)
    deliverer.begin()
    try:
        yield inside, deliverer
    finally:
        deliverer.close()
        inside.close()


def deliver(inside, deliverer):
    change_events.number(inside.runtime)
    inside.change(PowerUpdateCursor, 1, due_at=datetime(2000, 1, 1))
    while deliverer.deliver(1):
        pass


def cursor(inside):
    with inside.runtime.reading() as session:
        return session.get(PowerUpdateCursor, 1)


def instance(inside, power_state="power off"):
    """A node with an instance: its id, and the instance's UUID."""
    uuid = str(uuid4())
    return inside.node("active", instance_uuid=uuid, power_state=power_state), uuid


def test_nova_is_told_the_power_of_instances(database, nova):
    with sending(database, nova) as (inside, deliverer):
        node, uuid = instance(inside)
        free = inside.node("available", power_state="power off")
        for changed_node in (node, free):
            inside.change(Node, changed_node, power_state="power on")
        deliver(inside, deliverer)
        assert [(uuid, "POWER_ON")] == nova.events
        inside.change(Node, node, power_state="power off")
        deliver(inside, deliverer)
        assert [(uuid, "POWER_ON"), (uuid, "POWER_OFF")] == nova.events
        deliver(inside, deliverer)
        assert 2 == len(nova.events), "accepted events are not sent again"


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("state", [None, "error", "rebooting"])
def test_a_power_state_that_nova_does_not_know_is_not_reported(database, nova, state):
    with sending(database, nova) as (inside, deliverer):
        node, _ = instance(inside, "power on")
        inside.change(Node, node, power_state=state)
        deliver(inside, deliverer)
        assert ([], change_events.newest(inside.runtime)) == (nova.events, cursor(inside).position)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("status", "error"), [(503, "Nova answered 503"), (403, "Nova answered 403"),
                                               (404, "Nova answered 404"), (None, "Nova did not answer")])  # fmt: skip
def test_nova_is_told_the_present_state_once_it_answers(database, nova, status, error):
    with sending(database, nova) as (inside, deliverer):
        node, uuid = instance(inside)
        nova.status, nova.answer = status, {}
        for state in ("power on", "power off", "power on", "power off"):
            inside.change(Node, node, power_state=state)
            deliver(inside, deliverer)
        assert error in cursor(inside).last_error
        assert [] == nova.events
        nova.status, nova.answer = 200, None
        deliver(inside, deliverer)
        assert [(uuid, "POWER_OFF")] == nova.events
        assert (None, 0) == (cursor(inside).last_error, cursor(inside).failed_attempts)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("status", "answer"), [
    (404, UNKNOWN), (207, {"events": [{"server_uuid": "x", "code": 422, "status": "failed"}]}),
])  # fmt: skip
def test_an_instance_that_nova_does_not_have_holds_up_no_other(database, nova, status, answer):
    with sending(database, nova) as (inside, deliverer):
        node, _ = instance(inside)
        nova.status, nova.answer = status, answer
        inside.change(Node, node, power_state="power on")
        deliver(inside, deliverer)
        assert (None, change_events.newest(inside.runtime)) == (
            cursor(inside).last_error,
            cursor(inside).position,
        )


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("answer", [b"<html>", {"events": "none"}, [1]])
def test_a_malformed_answer_is_no_success(database, nova, answer):
    with sending(database, nova) as (inside, deliverer):
        node, _ = instance(inside)
        nova.answer = answer
        inside.change(Node, node, power_state="power on")
        deliver(inside, deliverer)
        assert "Nova did not answer with a list of events" == cursor(inside).last_error


class Death(BaseException):
    """End of a process."""


def test_no_change_is_lost_if_the_process_dies(database, nova, monkeypatch):
    with sending(database, nova) as (inside, deliverer):
        node, uuid = instance(inside)
        inside.change(Node, node, power_state="power on")
        with monkeypatch.context() as patch:
            patch.setattr(kill_points, "reach", dying)
            with pytest.raises(Death):
                deliver(inside, deliverer)
        deliver(inside, deliverer)
        assert [(uuid, "POWER_ON")] * 2 == nova.events


def dying(point, kind="any"):
    assert ("posted", "power_update") == (point, kind)
    raise Death


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_changes_before_it_is_switched_on_are_not_reported(database, nova):
    with sending(database, nova) as (view, _):
        node, _ = instance(view)
        view.change(Node, node, power_state="power on")
        with view.runtime.transaction() as session:
            session.delete(session.get_one(PowerUpdateCursor, 1))
    with sending(database, nova) as (inside, deliverer):
        deliver(inside, deliverer)
        assert [] == nova.events


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"INGOT_NOVA_AUTH_URL": "http://k"}, 2),
        ({"INGOT_NOVA_AUTH_URL": "http://k", "INGOT_NOVA_SEND_POWER_NOTIFICATIONS": "false"}, None),
    ],
)
def test_it_runs_if_the_settings_name_nova(environ, expected):
    (task,) = (task for task in PERIODIC if task.name == "ingot.send_power_updates")
    assert expected == task.period(Inside("sqlite://", **environ).settings)
