"""Webhooks: every event reaches its receiver, in order, and after failures, too."""

import re
import threading
import time
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path

import pytest
from sqlalchemy import select, update

from app.db.clock import after
from app.errors import Conflict, Invalid
from app.events import change_events, webhooks
from app.models import ChangeEvent, Node, Webhook, WebhookFailure
from drivers.net.signed import signature, standard_headers
from tests.support.fleet import until
from tests.support.inside import Inside
from tests.support.receiver import SECRET, receiving, standard_verified, verified
from workers.periodic import delivery, pruning
from workers.periodic.webhooks import Webhooks


@pytest.fixture
def deliverer(inside):
    """A deliverer whose attempts do not end by the slowness of this machine."""
    configure(inside, timeout=60.0)
    made = Webhooks(inside.runtime)
    yield made
    made.close()


def configure(inside, **values):
    settings = inside.runtime.settings
    inside.runtime.settings = replace(settings, webhooks=replace(settings.webhooks, **values))


@pytest.fixture
def receiver():
    with receiving() as made:
        yield made


def create(inside, receiver, **fields):
    """Create a webhook, and return its id."""
    change_events.number(inside.runtime)
    given = {"name": receiver.url.rpartition(":")[2], "url": receiver.url, "secret": SECRET}
    with inside.runtime.transaction() as session:
        made = webhooks.create(session, given | fields)
        session.flush()
        return made.id


def read(inside, hook):
    with inside.runtime.reading() as session:
        return session.get_one(Webhook, hook)


def failures(inside):
    with inside.runtime.reading() as session:
        rows = session.scalars(select(WebhookFailure).order_by(WebhookFailure.id)).all()
    return [(row.after, row.last) for row in rows]


def due(inside, hook):
    """End the pause before the next attempt, or the lease of an attempt."""
    inside.change(Webhook, hook, due_at=datetime(2000, 1, 1))


def drain(inside, deliverer, hook):
    """Deliver until there is nothing left or an attempt fails."""
    change_events.number(inside.runtime)
    while deliverer.deliver(hook):
        pass


def changed(inside, node, times=1):
    """Change a node: each time is one event."""
    for number in range(times):
        before = inside.read(node).maintenance
        inside.change(Node, node, maintenance=not before, description=str(number))


def sequences(inside):
    change_events.number(inside.runtime)
    with inside.runtime.read_connection() as connection:
        return connection.scalars(select(ChangeEvent.sequence).order_by(ChangeEvent.sequence)).all()


def test_events_since_the_creation_are_posted_signed_and_in_order(inside, deliverer, receiver):
    node = inside.node(name="n-1", owner="p-1")
    first = len(sequences(inside))
    hook = create(inside, receiver)
    changed(inside, node, 3)
    drain(inside, deliverer, hook)
    ((signed, document),) = receiver.deliveries
    assert [first + 1, first + 2, first + 3] == receiver.numbers
    assert (first, first + 3) == (document["after"], document["last"])
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
    page = (Path(__file__).parents[2] / "docs/events.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found = {}
    exec(code, found)
    sent = int(time.time())
    header = signature(["previous", SECRET], sent, b"{}")
    assert found["verified"](SECRET, header, b"{}")
    assert not found["verified"]("another secret", header, b"{}")
    assert not found["verified"](SECRET, header, b"[]")
    assert not found["verified"](SECRET, signature([SECRET], sent - 3600, b"{}"), b"{}")


def test_the_signature_covers_time_and_body():
    assert verified("s", signature(["s"], 17, b"body"), b"body")
    assert verified("s", signature(["other", "s"], 17, b"body"), b"body")
    assert not verified("s", signature(["s"], 17, b"body"), b"another body")
    assert not verified("s", signature(["s"], 17, b"body").replace("17", "18", 1), b"body")


WHSEC = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_standard_signature_is_that_of_the_published_example():
    # of the specification's reference libraries: this secret, id, time and body
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert standard_verified(WHSEC, headers, b'{"test": 2432232314}')
    assert not standard_verified(SECRET, headers, b'{"test": 2432232314}')


@pytest.mark.parametrize("secret", [WHSEC, SECRET, "whsec_no base64 at all"])
def test_the_standard_signature_covers_id_time_and_body(secret):
    headers = standard_headers(["previous", secret], 17, b"body")
    is_standard = (
        secret != "whsec_no base64 at all"
    )  # one of earlier releases: its bytes are the key
    verifier = secret if is_standard else f"whsec_{b64encode(secret.encode()).decode()}"
    assert standard_verified(verifier, headers, b"body")
    assert standard_verified("previous", headers, b"body")
    assert not standard_verified("another", headers, b"body")
    assert not standard_verified(verifier, headers, b"bodY")
    for name, value in (("webhook-id", "msg_1"), ("webhook-timestamp", "18")):
        assert not standard_verified(verifier, {**headers, name: value}, b"body")
    assert "." not in headers["webhook-id"]
    assert headers["webhook-id"] == standard_headers([secret], 18, b"body")["webhook-id"]
    assert headers["webhook-id"] != standard_headers([secret], 17, b"bodY")["webhook-id"]


def test_a_repeated_delivery_has_the_id_of_the_first(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    receiver.status = 503
    drain(inside, deliverer, hook)
    receiver.status = 200
    due(inside, hook)
    drain(inside, deliverer, hook)
    changed(inside, node)
    drain(inside, deliverer, hook)
    first, second, third = receiver.idents
    assert first == second != third


def test_filters_choose_types_node_and_project(inside, deliverer):
    one, two = inside.node(owner="p-1"), inside.node(owner="p-2", lessee="p-1")
    three = inside.node(owner="p-3")
    uuids = [inside.read(each).uuid for each in (one, two, three)]
    with ExitStack() as stack:
        by_type, by_node, by_project = (stack.enter_context(receiving()) for _ in range(3))
        hooks = [
            create(inside, by_type, types=["node.power_state"]),
            create(inside, by_node, node_uuid=uuids[2]),
            create(inside, by_project, owner="p-1"),
        ]
        for each in (one, two, three):
            changed(inside, each)
            inside.change(Node, each, power_state="power on")
        for hook in hooks:
            drain(inside, deliverer, hook)
        assert [(each, "node.power_state") for each in uuids] == shown(by_type)
        kinds = ["node.maintenance", "node.power_state"]
        assert [(uuids[2], kind) for kind in kinds] == shown(by_node)
        assert [(each, kind) for each in uuids[:2] for kind in kinds] == shown(by_project)


def shown(receiver):
    return [(each["node_uuid"], each["type"]) for each in receiver.events]


def test_a_failed_attempt_is_repeated_after_a_pause_that_doubles(
    inside, deliverer, receiver, monkeypatch
):
    seconds = []
    monkeypatch.setattr(
        "workers.periodic.delivery.after", lambda each: (seconds.append(each), after(each))[1]
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
    ("retry_after", "least", "most"),
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
    inside, deliverer, receiver, monkeypatch, status, retry_after, least, most
):
    if isinstance(retry_after, int):
        retry_after = formatdate(time.time() + retry_after, usegmt=True)
    seconds = []
    monkeypatch.setattr(
        "workers.periodic.delivery.after", lambda each: (seconds.append(each), after(each))[1]
    )
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    receiver.status = status
    receiver.headers = {"Retry-After": retry_after.encode().decode("latin-1")}
    drain(inside, deliverer, hook)
    assert least <= seconds[-1] <= most
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


def test_a_lease_keeps_a_second_deliverer_away_and_expires(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    change_events.number(inside.runtime)
    receiver.gate.clear()
    first = threading.Thread(target=deliverer.deliver, args=(hook,))
    first.start()
    assert receiver.arrived.wait(60)
    assert not deliverer.deliver(hook)
    assert 1 == receiver.requests, "the first attempt holds the webhook"
    due(inside, hook)  # as if its process were dead
    second = threading.Thread(target=deliverer.deliver, args=(hook,))
    second.start()
    until(lambda: receiver.requests == 2, "the second attempt")
    receiver.gate.set()
    first.join()
    second.join()
    assert [1] * 2 == [len(each["events"]) for each in receiver.documents]
    assert sequences(inside)[-1:] == receiver.numbers
    assert sequences(inside)[-1] == read(inside, hook).position


def test_an_attempt_without_its_lease_records_nothing(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node)
    change_events.number(inside.runtime)
    for status in (200, 500):
        receiver.status = status
        receiver.gate.clear()
        receiver.arrived.clear()
        due(inside, hook)
        late = threading.Thread(target=deliverer.deliver, args=(hook,))
        late.start()
        assert receiver.arrived.wait(60)
        inside.change(Webhook, hook, holder="another attempt")
        receiver.gate.set()
        late.join()
        row = read(inside, hook)
        assert (start, "another attempt", None) == (row.position, row.holder, row.last_error)


def test_webhooks_beyond_the_free_threads_are_left_to_others(inside, receiver, monkeypatch):
    monkeypatch.setattr("workers.periodic.delivery.AT_ONCE", 1)
    configure(inside, timeout=60.0)
    deliverer = Webhooks(inside.runtime)
    node = inside.node()
    with receiving() as slow:
        slow.gate.clear()
        first, _ = create(inside, slow), create(inside, receiver)
        due(inside, first)
        changed(inside, node)
        for _ in range(3):
            deliverer.start_due()
            assert slow.arrived.wait(60)
        assert 1 == slow.requests
        slow.gate.set()
        deliverer.close()
        assert 0 == receiver.requests


def test_slow_receivers_of_some_projects_leave_threads_to_the_others(inside, deliverer, receiver):
    with receiving() as slow:
        slow.gate.clear()
        nodes = []
        for project in range(4):
            nodes.append(inside.node(owner=f"p-{project}"))
            for number in range(delivery.AT_ONCE // 4):
                name = f"slow-{project}-{number}"
                due(inside, create(inside, slow, name=name, owner=f"p-{project}"))
        for node in nodes:
            changed(inside, node)
        deliverer.start_due()
        create(inside, receiver, owner="honest")
        changed(inside, inside.node(owner="honest"))
        deliverer.start_due()
        try:
            until(lambda: receiver.numbers, "the delivery beside slow ones")
            until(lambda: slow.requests > delivery.AT_ONCE // 2, "the slow ones")
            assert slow.requests < delivery.AT_ONCE
        finally:
            slow.gate.set()
            deliverer.close()


def test_a_slow_receiver_has_a_turn_by_time_and_then_the_next_one(inside, receiver, monkeypatch):
    """One thread; the slow one has events for many attempts, and was due first."""
    monkeypatch.setattr("workers.periodic.delivery.AT_ONCE", 1)
    monkeypatch.setattr("workers.periodic.delivery.BATCH", 1)
    monkeypatch.setattr("workers.periodic.delivery.TURN", 0)
    configure(inside, timeout=60.0)
    deliverer = Webhooks(inside.runtime)
    # before the webhooks: their creation would be one more event for each, and one more turn
    nodes = [inside.node(owner=owner) for owner in ("p-slow", "honest")]
    with receiving() as slow:
        slow.gate.clear()
        due(inside, create(inside, slow, owner="p-slow"))
        create(inside, receiver, owner="honest")
        changed(inside, nodes[0], 5)
        changed(inside, nodes[1])
        deliverer.start_due()
        assert slow.arrived.wait(60)
        deliverer.start_due()  # the other one finds no thread
        assert not receiver.numbers
        take, before = receiver.take, []

        def taken(*delivery):
            before.append(slow.requests)
            return take(*delivery)

        receiver.take = taken
        slow.gate.set()
        until(lambda: receiver.numbers, "the turn of the other one")
        deliverer.close()
        assert [1] == before, "after one attempt of the slow one, not after all of them"


def test_of_many_due_webhooks_each_project_has_the_first(inside, deliverer, receiver, monkeypatch):
    monkeypatch.setattr("workers.periodic.delivery.FOUND", 4)
    hooks = {}
    for number in range(9):
        owner = "p-many" if number < 7 else f"p-{number}"
        hook = create(inside, receiver, name=f"h-{number}", owner=owner)
        hooks[hook] = owner
        inside.change(Webhook, hook, due_at=datetime(2000, 1, 1 + number))
    changed(inside, inside.node())
    found = deliverer._due()
    assert ["p-many", "p-7", "p-8", "p-many"] == [project for _, project in found]
    assert [(hook, hooks[hook]) for hook, _ in found] == found


def test_a_late_answer_does_not_undo_a_replay(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node, 2)
    drain(inside, deliverer, hook)
    changed(inside, node)
    change_events.number(inside.runtime)
    receiver.gate.clear()
    receiver.arrived.clear()
    late = threading.Thread(target=deliverer.deliver, args=(hook,))
    late.start()
    assert receiver.arrived.wait(60)
    replay(inside, hook, start)
    receiver.gate.set()
    late.join()
    assert start == read(inside, hook).position
    drain(inside, deliverer, hook)
    assert [start, sequences(inside)[-1]] == [
        receiver.documents[-1][name] for name in ("after", "last")
    ]


def replay(inside, hook, after=None):
    with inside.runtime.transaction() as session:
        row = session.scalars(select(Webhook).where(Webhook.id == hook).with_for_update()).one()
        webhooks.replay(session, row, after)


@pytest.fixture
def impatient(inside):
    """Settings with which the second failed attempt gives up."""
    configure(inside, give_up_after=0.0)
    return inside


def test_events_of_a_long_outage_are_a_failure_and_can_be_replayed(impatient, deliverer, receiver):
    inside = impatient
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node, 3)
    receiver.status = 503
    drain(inside, deliverer, hook)
    assert [] == failures(inside), "the first failures are only repeated"
    due(inside, hook)
    drain(inside, deliverer, hook)
    given_up = sequences(inside)[-1]
    assert [(start, given_up)] == failures(inside)
    assert given_up == read(inside, hook).position
    changed(inside, node, 2)
    due(inside, hook)
    drain(inside, deliverer, hook)
    assert [(start, given_up + 2)] == failures(inside), "one failure for one outage"
    receiver.status = 200
    changed(inside, node)
    due(inside, hook)
    drain(inside, deliverer, hook)
    assert [given_up + 3] == receiver.numbers
    assert given_up + 2 == receiver.documents[0]["after"], "the receiver sees the gap"
    replay(inside, hook)
    assert [] == failures(inside)
    drain(inside, deliverer, hook)
    assert [*range(start + 1, given_up + 4)] == sorted(receiver.numbers)
    repeated = receiver.documents[1]
    assert [*range(start + 1, given_up + 4)] == [each["sequence"] for each in repeated["events"]]


def test_a_second_outage_is_a_second_failure_and_a_replay_may_begin_inside_one(
    impatient, deliverer, receiver
):
    inside = impatient
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    ends = []
    for _ in range(2):
        changed(inside, node, 4)
        receiver.status = 500
        due(inside, hook)
        drain(inside, deliverer, hook)
        due(inside, hook)
        drain(inside, deliverer, hook)
        ends.append(sequences(inside)[-1])
        receiver.status = 200
        changed(inside, node)
        due(inside, hook)
        drain(inside, deliverer, hook)
    assert [(start, ends[0]), (ends[0] + 1, ends[1])] == failures(inside)
    replay(inside, hook, start + 2)
    assert [(start, start + 2)] == failures(inside)
    replay(inside, hook)
    drain(inside, deliverer, hook)
    assert [*range(start + 1, ends[1] + 2)] == sorted(receiver.numbers)


def test_a_replay_of_events_that_are_not_kept_is_refused(inside, deliverer, receiver):
    node = inside.node()
    changed(inside, node, 3)
    hook = create(inside, receiver)
    with pytest.raises(Invalid, match="after: required, because the webhook has no failures"):
        replay(inside, hook)
    newest = sequences(inside)[-1]
    with pytest.raises(Invalid, match=rf"after: {newest + 1} must be .* at most {newest}"):
        replay(inside, hook, newest + 1)
    forget(inside, newest - 1)
    with pytest.raises(Invalid, match=rf"after: 0 must be at least {newest - 1}"):
        replay(inside, hook, 0)
    replay(inside, hook, newest - 1)
    drain(inside, deliverer, hook)
    assert [newest] == receiver.numbers


def forget(inside, last):
    """Let the events up to a number be past their lifetime, and prune."""
    with inside.runtime.transaction() as session:
        old = update(ChangeEvent).where(ChangeEvent.sequence <= last)
        session.execute(old.values(created_at=datetime(2000, 1, 1)))
    pruning.prune_change_events(inside.runtime)


def test_events_deleted_meanwhile_are_a_visible_gap(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node, 5)
    with inside.runtime.transaction() as session:
        for begin in (start, start + 2):
            session.add(WebhookFailure(webhook_id=hook, after=begin, last=begin + 2, error="e"))
    sequences(inside)
    forget(inside, start + 3)
    assert [(start + 2, start + 4)] == failures(inside), "failures without events are deleted"
    drain(inside, deliverer, hook)
    assert start + 3 == receiver.documents[0]["after"]
    assert [start + 4, start + 5] == receiver.numbers


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


def test_many_events_are_posted_in_batches_and_turns(inside, deliverer, receiver, monkeypatch):
    monkeypatch.setattr("workers.periodic.delivery.BATCH", 3)
    monkeypatch.setattr("workers.periodic.delivery.TURN", 0)
    node = inside.node()
    hook = create(inside, receiver)
    start = read(inside, hook).position
    changed(inside, node, 8)
    for end in (3, 6):
        deliverer.start_due()
        until(lambda end=end: read(inside, hook).position == start + end, "a turn of a batch")
        until(lambda: not deliverer._served, "its end")
    deliverer.close()
    again = Webhooks(inside.runtime)
    again.start_due()
    again.close()
    assert [3, 3, 2] == [len(each["events"]) for each in receiver.documents]
    assert [*range(start + 1, start + 9)] == receiver.numbers
    assert [(start, start + 3), (start + 3, start + 6), (start + 6, start + 8)] == [
        (each["after"], each["last"]) for each in receiver.documents
    ]


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
