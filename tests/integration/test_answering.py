"""How a question is answered, and what becomes of it when things change under it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from app.engine import rpc
from app.errors import GatewayTimeout
from app.kit import conductors
from app.models import Node, Operation
from drivers.core.errors import LeaseLost, Refused, Unreachable
from tests.support.fleet import until
from tests.support.inside import AlwaysGiven
from workers.conductor.rpc_server import CallHandler, CallReceiver

SET = {"what": "set_boot_device", "arguments": {"device": "pxe", "persistent": True}}


class Leases(AlwaysGiven):
    """Leases that somebody else may hold; `taken` runs when one is taken."""

    def __init__(self, taken=lambda: None, free=True):
        self.taken, self.free = taken, free

    def take(self, node, fence, has_valid_fence):
        self.taken()
        return super().take(node, fence, has_valid_fence) if self.free else None


@pytest.fixture
def node(inside):
    inside.conductor()
    node_id = inside.node("manageable")
    return inside.read(node_id)


def answer(inside, node, question=SET, leases=None, seconds=5.0):
    answerer = CallHandler(inside.runtime, "c-1", leases or Leases())
    return answerer.answer({"node": node.uuid, **question}, seconds)


def remembered(inside, node):
    return inside.read(node.id).driver_internal_info.get("fake")


def test_what_a_machine_was_told_is_written_to_its_node(inside, node):
    assert {"answer": None} == answer(inside, node)
    assert {"persistent": True} == remembered(inside, node)


def test_a_reserved_node_is_locked(inside, node):
    inside.change(Node, node.id, reservation="c-1")
    told = answer(inside, node)
    assert (409, 2) == (told["status"], told["retry_after"])


def test_a_node_whose_lease_is_held_is_locked(inside, node):
    assert 409 == answer(inside, node, leases=Leases(free=False))["status"]


def test_work_that_is_handed_out_in_between_goes_first(inside, node):
    """The operation began after the node was read: no order is given, and its step is sent anew."""
    told = answer(inside, node, leases=Leases(lambda: inside.request(node.id, "provide")))
    assert 409 == told["status"]
    assert None is remembered(inside, node)
    operation = inside.read(node.id).operation_id
    assert 2 == len(inside.sent)
    with inside.runtime.reading() as session:
        assert session.get_one(Operation, operation).uuid == inside.sent[1].operation


def test_nothing_is_ordered_that_nobody_waits_for(inside, node):
    assert 409 == answer(inside, node, seconds=-1)["status"]
    assert None is remembered(inside, node)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unreachable("no answer"), 504),
        (Refused("no"), 502),
        (LeaseLost("gone"), 409),
        (ZeroDivisionError("a bug"), 500),
    ],
)
def test_what_goes_wrong_is_told(inside, node, monkeypatch, error, status):
    management = inside.runtime.drivers.types["fake-hardware"]["management"]["fake"]

    def fail(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(type(management), "set_boot_device", fail)
    told = answer(inside, node)
    assert status == told["status"]
    assert str(error) in told["message"]


class Box:
    """The asks of one process, answered by nobody."""

    def __init__(self, questions=()):
        self.questions = dict.fromkeys(questions, 5.0)
        self.answers = []

    def take(self, key):
        seconds = self.questions.pop(key, None)
        return ({"key": key}, seconds) if seconds else None

    def answer(self, key, answer, seconds):
        self.answers.append((key, answer))


def test_questions_about_one_node_come_one_after_the_other_and_never_twice():
    box = Box(["a", "b", "c"])
    entered, go_on = threading.Event(), threading.Event()
    begun = []

    def work(document, _seconds):
        begun.append(document["key"])
        if document["key"] == "a":
            entered.set()
            go_on.wait(10)
        return {"answer": document["key"]}

    with ThreadPoolExecutor(4) as threads:
        desk = CallReceiver(box, SimpleNamespace(answer=work), threads)
        desk.take("a", "n1")
        entered.wait(10)
        desk.take("b", "n1")
        desk.take("b", "n1")
        desk.take("c", "n2")
        until(lambda: box.answers, between=0.001)
        assert ["a", "c"] == begun
        go_on.set()
    assert ["a", "c", "b"] == begun
    assert {"a", "b", "c"} == {key for key, _ in box.answers}


class Line:
    """`Asks` by a script: what happens at each look for an answer."""

    def __init__(self, *script, begun=False):
        self.script, self.begun = list(script), begun
        self.posted = []

    def post(self, conductor, key, question, seconds):
        self.posted.append(conductor)

    def receive(self, key, seconds):
        step = self.script.pop(0) if self.script else None
        return step() if callable(step) else step

    def withdraw(self, key):
        return not self.begun


def leave(inside, node):
    """The owner of the node is gone, another takes its place."""

    def step():
        with inside.runtime.transaction() as session:
            for member in conductors.alive(session):
                conductors.mark_offline(session, member.name, member.incarnation)
        inside.conductor("c-2")

    return step


@pytest.mark.parametrize(("what", "begun"), [("get_boot_device", True), ("inject_nmi", False)])
def test_the_new_owner_is_asked_when_the_old_one_is_gone(inside, node, what, begun):
    line = Line(leave(inside, node), {"answer": "yes"}, begun=begun)
    inside.runtime.asks = line
    assert "yes" == rpc.call(inside.runtime, node.uuid, what)
    assert ["c-1", "c-2"] == line.posted


def test_an_order_that_was_begun_and_must_not_be_repeated_is_not(inside, node):
    line = Line(leave(inside, node), begun=True)
    inside.runtime.asks = line
    with pytest.raises(GatewayTimeout, match="c-1 died while executing inject_nmi"):
        rpc.call(inside.runtime, node.uuid, "inject_nmi")
    assert ["c-1"] == line.posted


def test_a_new_owner_is_not_asked_while_the_old_one_still_works_on_it(inside, node):
    def join():
        for number in range(20):  # one of them is the new owner
            inside.conductor(f"d-{number}")

    line = Line(join, None, {"answer": "yes"}, begun=True)
    inside.runtime.asks = line
    assert "yes" == rpc.call(inside.runtime, node.uuid, "inject_nmi")
    assert ["c-1"] == line.posted
