"""Attacks on calls to conductors by a client that may write to Redis: forged, changed, copied."""

import threading
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest
from sqlalchemy import select

from app.broker import calls, queue
from app.broker.calls import Forged, RedisCalls
from app.config.settings import Broker, Settings
from app.db.clock import now
from app.db.master_keys import masters_of
from app.db.sealing import Keyring
from app.engine import rpc
from app.errors import GatewayTimeout
from drivers.fake.hardware import FakeManagement
from tests.integration import conftest as integration
from tests.support.fleet import until
from tests.support.inside import AlwaysGiven
from workers.conductor.fresh_calls import FreshCalls
from workers.conductor.rpc_server import CallHandler, CallReceiver

inside, redis_url, redis_client = (
    integration.inside,
    integration.redis_url,
    integration.redis_client,
)
INCARNATION = "0b53b9c6-3c4f-4a39-8d0b-7d3fdfb5c0a1"
NMI = {"what": "inject_nmi", "arguments": {}, "version": 0}


def keyring(seed=b"k"):
    """A keyring with one data key."""
    masters = masters_of(b64encode(seed * 32).decode())
    row = masters[0].new_data_key()
    new_keyring = Keyring(masters, lambda: [row])
    new_keyring.refresh()
    return new_keyring


class Desk:
    """The calls of one conductor, over real Redis, and the calls that it has executed."""

    def __init__(self, url, runtime, ring, incarnation=INCARNATION):
        settings = replace(Settings(), broker=replace(Broker(), url=url))
        self.calls = RedisCalls(queue.celery(settings), settings, ring)
        self.executed, self.runtime, self.incarnation = [], runtime, incarnation
        self.threads = ThreadPoolExecutor(2)
        self.receiver = CallReceiver(
            self.calls,
            SimpleNamespace(answer=self.execute),
            FreshCalls(runtime, incarnation),
            self.threads,
        )

    def execute(self, call, seconds):
        self.executed.append((call["what"], seconds))
        return {"answer": None}

    def key(self):
        return f"{self.incarnation}:{uuid4()}"

    def call(self, node="n", seconds=5.0, **other):
        with self.runtime.reading() as session:
            end = session.scalars(select(now())).one() + timedelta(seconds=seconds)
        return {"node": node, **NMI, "until": end.isoformat(), **other}

    def post(self, key=None, **other):
        """Post a call as the API does, except for its message; return its key."""
        key = key or self.key()
        call = self.call(**other)
        name = self.calls._call(key)
        self.calls._client.set(name, self.calls._seals.seal(call, name), px=60_000)
        return key

    def deliver(self, key, node="n"):
        """Deliver the message of a call, and wait until the conductor has nothing to do."""
        self.receiver.take(key, node)
        until(lambda: not self.receiver._waiting, "the end of the call", between=0.002)


@pytest.fixture
def ring():
    return keyring()


@pytest.fixture
def desk(redis_url, inside, ring):
    started_desk = Desk(redis_url, inside.runtime, ring)
    yield started_desk
    started_desk.threads.shutdown()


@pytest.fixture
def logged(monkeypatch):
    """Lines that were logged, by event."""
    lines = []
    monkeypatch.setattr(
        "workers.conductor.rpc_server.seldom",
        SimpleNamespace(warning=lambda event, **facts: lines.append((event, facts["detail"]))),
    )
    return lines


def forgeries(desk, good):
    """Keys and contents of forged calls, each with words of its line in the log."""
    stranger, name = keyring(b"s"), desk.calls._call
    plain = b'{"node": "n", "what": "inject_nmi", "arguments": {}}'
    here = desk.key()
    sealed = desk.calls._client.get(name(good))
    changed = sealed[:-8] + (b"AAAAAAAA" if sealed[-8:] != b"AAAAAAAA" else b"BBBBBBBB")
    answer = desk.calls._seals._keyring.seal(plain, desk.calls._answer(here)).encode()
    return [
        (desk.key(), plain, "not sealed"),
        (desk.key(), stranger.seal(plain, name(here)).encode(), "not sealed"),
        (desk.key(), sealed, "not sealed"),  # a call with another key
        (here, answer, "not sealed"),  # an answer as a call
        # secrets of the database: of rows that are not bound to their place yet, and of others
        (here, desk.calls._seals._keyring.seal(plain, "").encode(), "not sealed"),
        (here, desk.calls._seals._keyring.seal_at(plain, name(here)).encode(), "not sealed"),
        (good, sealed[:-20], "not sealed"),
        (good, changed, "not sealed"),
        (desk.key(), b"\xff\xfe", "cannot be read"),
        (desk.key(), b"x" * (calls.LARGEST + 1), "more than"),
    ]


def test_a_call_that_the_api_has_not_sealed_for_this_key_is_dropped(desk, logged):
    good = desk.post()
    cases = forgeries(desk, good)
    stored_call = desk.calls._client.get(desk.calls._call(good))
    for key, content, reason in cases:
        desk.calls._client.set(desk.calls._call(key), content, px=60_000)
        desk.deliver(key)
        event, detail = logged.pop()
        assert "call.forged" == event
        assert reason in detail
        assert [] == desk.executed
    desk.calls._client.set(desk.calls._call(good), stored_call, px=60_000)
    desk.deliver(good)
    assert ["inject_nmi"] == [name for name, _ in desk.executed]
    assert [] == logged


def test_a_copy_of_a_call_is_executed_neither_again_nor_later_nor_elsewhere(
    desk, logged, redis_url, inside, ring
):
    client, name = desk.calls._client, desk.calls._call
    key = desk.post()
    copy = client.get(name(key))
    desk.deliver(key)
    desk.deliver(key)  # its message again
    assert 1 == len(desk.executed)
    client.set(name(key), copy)  # without a time to live, as the attacker likes
    desk.deliver(key)
    assert 1 == len(desk.executed)
    assert [("call.forged", "it was executed before")] == logged

    late = desk.post(seconds=0.3)
    time.sleep(0.35)
    desk.deliver(late)
    assert ("call.forged", "its time is over") == logged[-1]

    # a conductor that was started again leaves it to its caller, who withdraws it
    born_again = Desk(redis_url, inside.runtime, ring, incarnation=str(uuid4()))
    client.set(name(key), copy, px=60_000)
    born_again.deliver(key)
    renamed = key.replace(INCARNATION, born_again.incarnation)
    client.set(name(renamed), copy, px=60_000)
    born_again.deliver(renamed)
    assert [] == born_again.executed
    assert desk.calls.withdraw(key)
    assert 1 == len(desk.executed)
    born_again.threads.shutdown()


def test_the_time_of_a_call_is_that_of_the_api_and_not_of_redis(desk):
    desk.deliver(desk.post(seconds=2))  # `post` lets Redis keep it for a minute
    assert desk.executed[0][1] <= 2


def test_an_answer_that_the_conductor_has_not_sealed_for_this_call_is_ignored(desk):
    key, other = desk.key(), desk.key()
    client, name = desk.calls._client, desk.calls._answer
    desk.calls.answer(other, {"answer": "other"}, 5)
    client.rpush(name(key), b'{"answer": "forged"}', client.lpop(name(other)), b"\xff", b"[]")
    assert [None] * 4 == [desk.calls.receive(key, 0.1) for _ in range(4)]
    desk.calls.answer(key, {"answer": "real"}, 5)
    assert {"answer": "real"} == desk.calls.receive(key, 1)


def test_a_new_data_key_and_the_first_one_count_at_once(desk, redis_url, inside):
    rows = []
    masters = masters_of(b64encode(b"k" * 32).decode())
    ring = Keyring(masters, lambda: rows)
    earlier_desk = Desk(redis_url, inside.runtime, ring)
    key = earlier_desk.post()
    assert earlier_desk.calls._client.get(earlier_desk.calls._call(key)).startswith(b"{")
    earlier_desk.deliver(key)
    rows.append(masters[0].new_data_key())
    plain = b'{"node": "n", "what": "inject_nmi", "arguments": {}}'
    earlier_desk.calls._client.set(earlier_desk.calls._call("k"), plain, px=60_000)
    with pytest.raises(Forged):
        earlier_desk.calls.take("k")
    earlier_desk.deliver(earlier_desk.post())
    assert 2 == len(earlier_desk.executed)
    earlier_desk.threads.shutdown()


GARBAGE = [
    b"", b"\xff", b"{", b"[]", b"null", b'"x"', b"1e999", b"[" * 100_000, b"{}", b'{"node": "n"}',
    b'{"node": 1, "what": "inject_nmi", "arguments": {}}',
    b'{"node": "n", "what": {}, "arguments": {}}',
    b'{"node": "n", "what": "inject_nmi", "arguments": []}',
    b'{"node": "n", "what": "inject_nmi", "arguments": {}, "until": {}}',
    b'{"node": "n", "what": "inject_nmi", "arguments": {}, "until": "soon"}',
    b"sealed:v1:0123456789abcdef:AAAA",
]  # fmt: skip


def test_garbage_never_stops_the_calls_of_a_node_even_without_a_key(redis_url, inside, logged):
    desk = Desk(redis_url, inside.runtime, Keyring())
    for content in GARBAGE:
        key = desk.key()
        desk.calls._client.set(desk.calls._call(key), content, px=60_000)
        desk.deliver(key)
    key = desk.key()
    desk.calls._client.lpush(desk.calls._call(key), "a list")
    desk.deliver(key)
    assert [] == desk.executed
    assert {"call.forged", "answer.lost"} == {event for event, _ in logged}
    desk.deliver(desk.post())
    assert 1 == len(desk.executed)
    desk.threads.shutdown()


def test_a_defect_in_a_call_leaves_the_conductor_able_to_answer_the_next(desk, monkeypatch):
    monkeypatch.setattr(desk.receiver.handler, "answer", lambda *_: 1 / 0)
    desk.deliver(desk.post())
    monkeypatch.setattr(desk.receiver.handler, "answer", desk.execute)
    desk.deliver(desk.post())
    assert 1 == len(desk.executed)


def test_real_calls_of_the_api_are_accepted(redis_url, inside, ring, monkeypatch):
    """From `rpc.call` to the driver, sealed; a call to an earlier incarnation times out."""
    targets = []
    monkeypatch.setattr(FakeManagement, "inject_nmi", lambda _self, target: targets.append(target))
    claimant = inside.conductor()
    node = inside.read(inside.node("manageable"))
    desk = Desk(redis_url, inside.runtime, ring, incarnation=claimant.incarnation)
    desk.receiver.handler = CallHandler(inside.runtime, "c-1", AlwaysGiven())
    hints = []
    monkeypatch.setattr(
        calls, "send_task", lambda _app, _task, hint, _queue, **_: hints.append(hint)
    )
    ended = threading.Event()

    def deliver():
        while not ended.wait(0.01):
            while hints:
                desk.receiver.take(*hints.pop())

    thread = threading.Thread(target=deliver)
    thread.start()
    inside.runtime.calls = desk.calls
    try:
        assert None is rpc.call(inside.runtime, node.uuid, "inject_nmi")
        assert 1 == len(targets)
        desk.receiver.fresh.incarnation = str(uuid4())
        inside.runtime.settings = replace(
            inside.settings, api=replace(inside.settings.api, call_timeout=0.7)
        )
        with pytest.raises(GatewayTimeout):
            rpc.call(inside.runtime, node.uuid, "inject_nmi")
        assert 1 == len(targets)
    finally:
        ended.set()
        thread.join()
        desk.threads.shutdown()
