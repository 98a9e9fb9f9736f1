"""Calls to conductors, also with concurrent changes of the node and its owner."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from app.cluster import conductors
from app.engine import rpc
from app.errors import Conflict, GatewayTimeout
from app.models import Node, Operation
from drivers.core.errors import AgentBusy, Busy, LeaseLost, Refused, Unreachable
from tests.support.fleet import until
from tests.support.inside import AlwaysGiven
from workers.conductor import rpc_server
from workers.conductor.rpc_server import CallHandler, CallReceiver

SET = {"what": "set_boot_device", "arguments": {"device": "pxe", "persistent": True}}


class Leases(AlwaysGiven):
    """Leases that another process may hold; `callback` runs when one is taken."""

    def __init__(self, callback=lambda: None, free=True):
        self.callback, self.free = callback, free

    def take(self, node, fence, has_valid_fence):
        self.callback()
        return super().take(node, fence, has_valid_fence) if self.free else None


@pytest.fixture
def node(inside):
    inside.conductor()
    node_id = inside.node("manageable")
    return inside.read(node_id)


def answer(inside, node, call=SET, leases=None, seconds=5.0):
    handler = CallHandler(inside.runtime, "c-1", leases or Leases())
    return handler.answer({"node": node.uuid, **call}, seconds)


def remembered(inside, node):
    return inside.read(node.id).driver_internal_info.get("fake")


def test_the_effect_of_a_call_is_recorded_in_the_node(inside, node):
    assert {"answer": None} == answer(inside, node)
    assert {"persistent": True} == remembered(inside, node)


def test_a_reserved_node_is_locked(inside, node):
    inside.change(Node, node.id, reservation="c-1")
    reply = answer(inside, node)
    assert (409, 2, True) == (reply["status"], reply["retry_after"], reply["transient"])


def test_a_node_whose_lease_is_held_is_locked(inside, node):
    assert 409 == answer(inside, node, leases=Leases(free=False))["status"]


def test_an_operation_dispatched_meanwhile_goes_first(inside, node):
    """The operation starts after the node was read: no command is sent; its step is sent again."""
    reply = answer(inside, node, leases=Leases(lambda: inside.request(node.id, "provide")))
    assert 409 == reply["status"]
    assert None is remembered(inside, node)
    operation = inside.read(node.id).operation_id
    assert 2 == len(inside.messages)
    with inside.runtime.reading() as session:
        assert session.get_one(Operation, operation).uuid == inside.messages[1].operation


def test_an_expired_call_sends_no_command(inside, node):
    assert 409 == answer(inside, node, seconds=-1)["status"]
    assert None is remembered(inside, node)


@pytest.mark.parametrize(
    ("error", "status", "transient"),
    [
        (Unreachable("no answer"), 504, False),
        (Refused("no"), 502, False),
        (LeaseLost("gone"), 409, True),
        (AgentBusy("it cleans"), 409, True),
        (Conflict("another medium is inserted"), 409, False),
    ],
)
def test_an_error_is_reported_to_the_caller(inside, node, monkeypatch, error, status, transient):
    management = inside.runtime.drivers.types["fake-hardware"]["management"]["fake"]

    def fail(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(type(management), "set_boot_device", fail)
    reply = answer(inside, node)
    assert (status, transient) == (reply["status"], reply["transient"])
    assert str(error) in reply["message"]


@pytest.mark.parametrize(("refusals", "seconds", "status"), [(2, 5.0, None), (2, 0.15, 502)])
def test_an_order_to_a_busy_machine_is_tried_again_within_the_time_of_the_call(
    inside, node, monkeypatch, refusals, seconds, status
):
    management = inside.runtime.drivers.types["fake-hardware"]["management"]["fake"]
    tries = []

    def be_busy_first(_management, _target, **_arguments):
        tries.append(1)
        if len(tries) <= refusals:
            raise Busy("the machine is in POST")

    monkeypatch.setattr(rpc_server, "BUSY_PAUSE", 0.1)
    monkeypatch.setattr(type(management), "set_boot_device", be_busy_first)
    reply = answer(inside, node, seconds=seconds)
    if status is None:
        assert ({"answer": None}, refusals + 1) == (reply, len(tries))
    else:
        assert (status, "POST" in reply["message"]) == (reply["status"], True)


def test_a_call_that_may_have_had_effects_is_not_repeated(inside, node, monkeypatch):
    management = inside.runtime.drivers.types["fake-hardware"]["management"]["fake"]

    def fail(*_args, **_kwargs):
        raise LeaseLost("gone")

    monkeypatch.setattr(type(management), "inject_nmi", fail)
    reply = answer(inside, node, {"what": "inject_nmi", "arguments": {}})
    assert (409, False) == (reply["status"], reply["transient"])


def test_the_text_of_a_defect_stays_in_the_log(inside, node, monkeypatch):
    management = inside.runtime.drivers.types["fake-hardware"]["management"]["fake"]

    def fail(*_args, **_kwargs):
        raise ZeroDivisionError("password calvin")

    monkeypatch.setattr(type(management), "set_boot_device", fail)
    reply = answer(inside, node)
    assert 500 == reply["status"]
    assert "the log of conductor" in reply["message"]
    assert "calvin" not in str(reply)
    assert "ZeroDivisionError" not in str(reply)


class CallQueue:
    """Queue of the calls of one process, without answers."""

    def __init__(self, calls=()):
        self.calls = dict.fromkeys(calls, 5.0)
        self.answers = []

    def take(self, key):
        seconds = self.calls.pop(key, None)
        return ({"key": key}, seconds) if seconds else None

    def answer(self, key, answer, seconds):
        self.answers.append((key, answer))


def test_calls_about_a_node_run_one_after_the_other_and_never_twice():
    box = CallQueue(["a", "b", "c"])
    entered, go_on = threading.Event(), threading.Event()
    begun = []

    def work(document, _seconds):
        begun.append(document["key"])
        if document["key"] == "a":
            entered.set()
            go_on.wait(60)
        return {"answer": document["key"]}

    with ThreadPoolExecutor(4) as threads:
        fresh = SimpleNamespace(is_for_us=lambda _: True, accept=lambda *call: call[2])
        desk = CallReceiver(box, SimpleNamespace(answer=work), fresh, threads)
        desk.take("a", "n1")
        entered.wait(60)
        desk.take("b", "n1")
        desk.take("b", "n1")
        desk.take("c", "n2")
        until(lambda: box.answers, between=0.001)
        assert ["a", "c"] == begun
        go_on.set()
    assert ["a", "c", "b"] == begun
    assert {"a", "b", "c"} == {key for key, _ in box.answers}


class ScriptedCalls:
    """Implement `Calls` by a script with one action for each poll of the answer."""

    def __init__(self, *script, begun=False):
        self.script, self.begun = list(script), begun
        self.posted = []

    def post(self, conductor, key, call, seconds):
        self.posted.append(conductor)

    def receive(self, key, seconds):
        step = self.script.pop(0) if self.script else None
        return step() if callable(step) else step

    def withdraw(self, key):
        return not self.begun


def leave(inside, node):
    """Return an action: the node's owner stops, and another takes its place."""

    def step():
        with inside.runtime.transaction() as session:
            for member in conductors.alive(session, timeout=60):
                conductors.mark_offline(session, member.name, member.incarnation)
        inside.conductor("c-2")

    return step


@pytest.mark.parametrize(("method", "begun"), [("get_boot_device", True), ("inject_nmi", False)])
def test_the_call_goes_to_the_new_owner_when_the_old_one_has_stopped(inside, node, method, begun):
    line = ScriptedCalls(leave(inside, node), {"answer": "yes"}, begun=begun)
    inside.runtime.calls = line
    assert "yes" == rpc.call(inside.runtime, node.uuid, method)
    assert ["c-1", "c-2"] == line.posted


def test_a_started_call_that_must_not_be_repeated_is_not_sent_again(inside, node):
    line = ScriptedCalls(leave(inside, node), begun=True)
    inside.runtime.calls = line
    with pytest.raises(GatewayTimeout, match="c-1 died while executing inject_nmi"):
        rpc.call(inside.runtime, node.uuid, "inject_nmi")
    assert ["c-1"] == line.posted


def test_the_call_stays_with_the_old_owner_while_it_is_alive(inside, node):
    def join():
        for number in range(20):  # one of them is the new owner
            inside.conductor(f"d-{number}")

    line = ScriptedCalls(join, None, {"answer": "yes"}, begun=True)
    inside.runtime.calls = line
    assert "yes" == rpc.call(inside.runtime, node.uuid, "inject_nmi")
    assert ["c-1"] == line.posted
