"""Messages and rows of a later release are left to conductors that support them."""

from types import SimpleNamespace

import pytest

from app.broker import queue
from app.engine import rpc
from app.models import Conductor, Operation
from app.process import release
from tests.integration.test_conductor_calls import ScriptedCalls, answer
from workers.conductor import attempts, claims
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

LATER = release.UNDERSTOOD + 1


@pytest.fixture
def later(inside):
    """Operation of a later release, sent to this conductor, and its node."""
    inside.ours = inside.conductor("c-1")
    node = inside.node("manageable")
    name = inside.request(node, "provide")
    inside.change(Operation, name, version=LATER)
    return name


def run(inside, message):
    attempts.run(inside.ours, message)


def test_a_conductor_registers_its_protocol_version_until_it_stops(inside):
    ours = inside.conductor("c-1")

    def version():
        with inside.runtime.reading() as session:
            return session.query(Conductor).one().version

    assert release.UNDERSTOOD == version()
    with inside.runtime.transaction() as session:
        rpc.conductors.mark_offline(session, "c-1", ours.incarnation)
    assert 0 == version()  # the previous release may use the name next, and registers no version


def test_an_unsupported_operation_goes_to_a_conductor_that_supports_it(inside, later):
    theirs = inside.conductor("c-2", version=LATER)
    run(inside, inside.messages.pop())
    operation = inside.operation(later)
    assert ("queued", theirs.incarnation, 0) == (
        operation.state, operation.sent_to, inside.steps(later)[0].attempts
    )  # fmt: skip
    assert ["c-2"] == [message.conductor for message in inside.messages]


def test_an_operation_that_no_conductor_supports_waits(inside, later):
    run(inside, inside.messages.pop())
    assert ("queued", None) == (inside.operation(later).state, inside.operation(later).sent_to)
    assert [] == inside.messages
    inside.conductor("c-2", version=LATER)
    reconciler.reconcile(inside.runtime, Contact(0))
    assert ["c-2"] == [message.conductor for message in inside.messages]


def test_a_supported_operation_of_any_release_is_claimed(inside, later):
    for version in range(LATER):
        inside.change(Operation, later, version=version)
        assert claims.claim(inside.ours, later, 1, 0)
        inside.change(Operation, later, state="queued", claimed=-1)


@pytest.mark.parametrize(("headers", "version"), [(None, 0), ({}, 0), ({"ingot_version": 7}, 7)])
def test_a_message_without_a_version_is_of_the_previous_release(headers, version):
    assert version == queue.version_of(SimpleNamespace(headers=headers))


@pytest.mark.parametrize(
    "call",
    [{"what": "weigh", "arguments": {}},
     {"what": "get_boot_device", "arguments": {}, "version": LATER}],
)  # fmt: skip
def test_an_unsupported_call_is_rejected(inside, call):
    inside.conductor("c-1")
    node = inside.read(inside.node("manageable"))
    assert {"understands": release.UNDERSTOOD} == answer(inside, node, call)


def test_a_rejected_call_goes_to_another_conductor(inside):
    inside.conductor("c-1")
    inside.conductor("c-2")
    node = inside.read(inside.node("manageable"))
    line = ScriptedCalls({"understands": 0}, {"answer": "yes"}, begun=True)
    inside.runtime.calls = line
    assert "yes" == rpc.call(inside.runtime, node.uuid, "inject_nmi")
    assert ["c-1", "c-2"] == sorted(line.posted)


def test_calls_go_only_to_conductors_that_support_them(inside, monkeypatch):
    inside.conductor("c-1")
    inside.conductor("c-2", version=LATER)
    method = rpc.Method("management", "get_boot_device", needs=LATER)
    monkeypatch.setitem(rpc.METHODS, "get_boot_device", method)
    line = ScriptedCalls(*[{"answer": "yes"}] * 8)
    inside.runtime.calls = line
    for _ in range(8):
        node = inside.read(inside.node("manageable"))
        assert "yes" == rpc.call(inside.runtime, node.uuid, "get_boot_device")
    assert {"c-2"} == set(line.posted)
