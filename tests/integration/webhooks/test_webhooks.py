"""Webhooks: every event reaches its receiver, in order, and after failures, too."""

import re
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path

import pytest

from app.db.clock import after
from app.errors import Conflict, Invalid
from app.events import webhooks
from app.models import Node, Webhook
from drivers.net.signed import signature
from tests.support.fleet import until
from tests.support.inside import Inside
from tests.support.receiver import SECRET, receiving, verified
from workers.periodic.webhooks import Webhooks

from .conftest import changed, create, drain, due, read, sequences


def test_events_since_the_creation_are_posted_signed_and_in_order(inside, deliverer, receiver):
    node = inside.node(name="n-1", owner="p-1")
    count = len(sequences(inside))
    hook = create(inside, receiver)
    changed(inside, node, 3)
    drain(inside, deliverer, hook)
    ((signed, document),) = receiver.deliveries
    assert [count + 1, count + 2, count + 3] == receiver.numbers
    assert (count, count + 3) == (document["after"], document["last"])
    assert read(inside, hook).uuid == document["webhook"]
    event = document["events"][0]
    assert ("node.maintenance", "n-1", "false", "true") == tuple(
        event[name] for name in ("type", "node_name", "before", "after")
    )
    assert datetime.fromisoformat(event["created_at"]).tzinfo is not None
    seconds = int(signed.partition(",")[0].removeprefix("t="))
    assert abs(datetime.now(UTC).timestamp() - seconds) < 300
    drain(inside, deliverer, hook)
    assert 1 == receiver.requests, "accepted events are not posted again"


def test_the_documented_function_verifies_signatures():
    page = (Path(__file__).parents[3] / "docs/events.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    namespace = {}
    exec(code, namespace)
    moment = int(time.time())
    header = signature(["previous", SECRET], moment, b"{}")
    assert namespace["verified"](SECRET, header, b"{}")
    assert not namespace["verified"]("another secret", header, b"{}")
    assert not namespace["verified"](SECRET, header, b"[]")
    assert not namespace["verified"](SECRET, signature([SECRET], moment - 3600, b"{}"), b"{}")


def test_the_signature_covers_time_and_body():
    assert verified("s", signature(["s"], 17, b"body"), b"body")
    assert verified("s", signature(["other", "s"], 17, b"body"), b"body")
    assert not verified("s", signature(["s"], 17, b"body"), b"another body")
    assert not verified("s", signature(["s"], 17, b"body").replace("17", "18", 1), b"body")


def test_filters_choose_types_node_and_project(inside, deliverer):
    one, two = inside.node(owner="p-1"), inside.node(owner="p-2", lessee="p-1")
    three = inside.node(owner="p-3")
    uuids = [inside.read(node).uuid for node in (one, two, three)]
    with ExitStack() as stack:
        by_type, by_node, by_project = (stack.enter_context(receiving()) for _ in range(3))
        hooks = [
            create(inside, by_type, types=["node.power_state"]),
            create(inside, by_node, node_uuid=uuids[2]),
            create(inside, by_project, owner="p-1"),
        ]
        for node in (one, two, three):
            changed(inside, node)
            inside.change(Node, node, power_state="power on")
        for hook in hooks:
            drain(inside, deliverer, hook)
        assert [(uuid, "node.power_state") for uuid in uuids] == shown(by_type)
        kinds = ["node.maintenance", "node.power_state"]
        assert [(uuids[2], kind) for kind in kinds] == shown(by_node)
        assert [(uuid, kind) for uuid in uuids[:2] for kind in kinds] == shown(by_project)


def shown(receiver):
    return [(event["node_uuid"], event["type"]) for event in receiver.events]


def test_a_failed_attempt_is_repeated_after_a_pause_that_doubles(
    inside, deliverer, receiver, monkeypatch
):
    seconds = []
    monkeypatch.setattr(
        "workers.periodic.delivery.after", lambda delay: (seconds.append(delay), after(delay))[1]
    )
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    receiver.status = 500
    for _ in range(12):
        due(inside, hook)
        drain(inside, deliverer, hook)
    leases, pauses = seconds[::2], seconds[1::2]
    assert {3 * 60 + 5} == set(leases), "longer than the longest attempt"
    for number, pause in enumerate(pauses):
        longest = min(2**number, 300)
        assert longest / 2 <= pause <= longest
    assert 12 == receiver.requests == read(inside, hook).failed_attempts
    inside.change(Webhook, hook, due_at=datetime(2100, 1, 1))
    drain(inside, deliverer, hook)
    assert 12 == receiver.requests, "the pause is kept"
    receiver.status = 200
    due(inside, hook)
    drain(inside, deliverer, hook)
    row = read(inside, hook)
    assert (0, None, None) == (row.failed_attempts, row.failing_since, row.last_error)
    assert sequences(inside)[-1:] == receiver.numbers
    assert row.last_delivery_at is not None


@pytest.mark.parametrize(
    ("retry_after", "minimum", "maximum"),
    [
        ("40", 40, 40),
        ("0", 0.5, 1),
        ("86400", 300, 300),  # [webhooks]max_retry_interval
        ("9" * 400, 300, 300),
        ("-5", 0.5, 1),
        ("soon", 0.5, 1),
        ("١٢", 0.5, 1),
        # a date so many seconds after the test's start; it is compared with that of the answer
        (90, 30, 90),
        (-90, 0.5, 1),
    ],
    ids=["seconds", "none", "a day", "long", "negative", "a word", "other digits", "soon", "past"],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_says_when_to_repeat_an_attempt(
    inside, deliverer, receiver, monkeypatch, status, retry_after, minimum, maximum
):
    if isinstance(retry_after, int):
        retry_after = formatdate(time.time() + retry_after, usegmt=True)
    seconds = []
    monkeypatch.setattr(
        "workers.periodic.delivery.after", lambda delay: (seconds.append(delay), after(delay))[1]
    )
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    receiver.status = status
    receiver.headers = {"Retry-After": retry_after.encode().decode("latin-1")}
    drain(inside, deliverer, hook)
    assert minimum <= seconds[-1] <= maximum
    assert f"the receiver answered {status}" == read(inside, hook).last_error


@pytest.mark.parametrize("status", [301, 307, 404, 503])
def test_no_answer_but_success_accepts_events_and_no_redirect_is_followed(
    inside, deliverer, receiver, status
):
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    receiver.status = status
    drain(inside, deliverer, hook)
    assert 1 == receiver.requests
    row = read(inside, hook)
    assert f"the receiver answered {status}" == row.last_error
    assert row.position < sequences(inside)[-1]


def test_a_silent_receiver_ends_the_attempt_and_delays_no_other(database, receiver):
    quick = Inside(database, INGOT_WEBHOOKS_TIMEOUT="1")
    deliverer = Webhooks(quick.runtime)
    node = quick.node()
    with receiving() as silent:
        silent.gate.clear()
        slow, hook = create(quick, silent), create(quick, receiver)
        changed(quick, node)
        deliverer.start_due()
        until(lambda: receiver.numbers == sequences(quick)[-1:], "the delivery beside a silent one")
        until(lambda: read(quick, slow).last_error, "the end of the attempt")
        assert "within 1 s" in read(quick, slow).last_error
        until(lambda: read(quick, hook).last_delivery_at, "the record")
        silent.gate.set()
    deliverer.close()
    quick.close()


@pytest.mark.parametrize("owner", [None, "p-1"])
def test_a_refused_address_is_not_contacted(database, receiver, owner):
    setting = "project_denied_networks" if owner else "denied_networks"
    strict = Inside(database, **{f"INGOT_WEBHOOKS_{setting.upper()}": "127.0.0.0/8"})
    deliverer = Webhooks(strict.runtime)
    node = strict.node(owner=owner)
    with pytest.raises(Invalid, match=rf"\[webhooks\]{setting} refuses"):
        create(strict, receiver, owner=owner)
    by_name = receiver.url.replace("127.0.0.1", "localhost")
    hook = create(strict, receiver, url=by_name, owner=owner)
    changed(strict, node)
    drain(strict, deliverer, hook)
    assert 0 == receiver.requests
    assert f"[webhooks]{setting}" in read(strict, hook).last_error
    deliverer.close()
    strict.close()


def test_both_secrets_sign_during_a_rotation(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    new = "the next secret of the tests"
    change(inside, hook, secret=new)
    changed(inside, node)
    drain(inside, deliverer, hook)
    receiver.secret = new
    changed(inside, node)
    drain(inside, deliverer, hook)
    assert 2 == len(receiver.deliveries)
    inside.change(Webhook, hook, previous_secret_until=datetime(2000, 1, 1))
    changed(inside, node)
    drain(inside, deliverer, hook)
    assert [2, 2, 1] == [signed.count("v1=") for signed, _ in receiver.deliveries]


def change(inside, hook, **values):
    with inside.runtime.transaction() as session:
        webhooks.change(session, session.get_one(Webhook, hook), values)


def test_a_new_url_or_enabling_ends_the_pause(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    receiver.status = 500
    drain(inside, deliverer, hook)
    inside.change(Webhook, hook, due_at=datetime(2100, 1, 1), failed_attempts=9)
    change(inside, hook, enabled=False)
    drain(inside, deliverer, hook)
    assert 1 == receiver.requests, "a disabled webhook gets nothing"
    receiver.status = 200
    change(inside, hook, enabled=True)
    drain(inside, deliverer, hook)
    assert sequences(inside)[-1:] == receiver.numbers


def test_excluded_events_cost_no_write_until_there_are_many(
    inside, deliverer, receiver, monkeypatch
):
    node = inside.node()
    hook = create(inside, receiver, types=["node.deleted"])
    start = read(inside, hook).position
    changed(inside, node, 3)
    drain(inside, deliverer, hook)
    assert start == read(inside, hook).position
    monkeypatch.setattr("workers.periodic.delivery.UNRECORDED", 3)
    drain(inside, deliverer, hook)
    assert start + 3 == read(inside, hook).position
    assert 0 == receiver.requests


def test_a_project_has_a_limited_number_of_webhooks(database):
    inside = Inside(database, INGOT_WEBHOOKS_MAX_PER_PROJECT="1")
    with receiving() as one, receiving() as two:
        create(inside, one, owner="p-1")
        with pytest.raises(Conflict, match="owner: project p-1 has 1 webhooks"):
            create(inside, two, owner="p-1")
        create(inside, two, owner="p-2")
    inside.close()
