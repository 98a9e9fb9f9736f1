"""GET /v1/events/stream: changes as Server-Sent Events."""

import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import orjson
import pytest
from sqlalchemy import delete, update
from sqlalchemy.exc import OperationalError

from app.api.fleet import event_stream
from app.api.request.context import services_of
from app.events import event_feed
from app.events.event_feed import EventFeed
from app.identity.caller import Role
from app.models import ApiToken, ChangeEvent, Node
from app.server.application import create_app
from tests.support.fleet import until
from tests.support.local_users import Directory, with_local_users
from tests.support.recorded import recording_into

from .conftest import Api, fault

STREAM = "/v1/events/stream"
on_both = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Short times, so that a stream says something soon and authenticates each time."""
    monkeypatch.setattr(event_stream, "PACE", 0.01)
    monkeypatch.setattr(event_stream, "HEARTBEAT", 0.3)
    monkeypatch.setattr(event_stream, "RECHECK", 0.0)
    monkeypatch.setattr(event_stream, "IDLE_RECHECK", 0.0)
    monkeypatch.setattr(event_feed, "FIRST", 0.02)


class Reader:
    """
    An open stream: its messages one by one.

    context: of the request, as readers take turns in a thread here; a server has one for each.
    """

    def __init__(self, answer, context=None):
        assert 200 == answer.status_code, answer.text
        parts, run = iter(answer.response), context.run if context else lambda call: call()
        self._parts = iter(lambda: run(lambda: next(parts, None)), None)
        self.headers, self._text = answer.headers, b""
        self.last = None  # number of the last `id`
        self.parts = 0

    def message(self):
        """The next message as (event, data), or None after the end; comments are skipped."""
        while True:
            whole, end, rest = self._text.partition(b"\n\n")
            if not end:
                try:
                    self._text += next(self._parts)
                    self.parts += 1
                except StopIteration:
                    return None
                continue
            self._text, fields = rest, {}
            for line in whole.split(b"\n"):
                name, _, value = line.decode().partition(": ")
                fields[name] = value
            if "id" in fields:
                self.last = int(fields["id"])
            if "data" in fields:
                return fields["event"], orjson.loads(fields["data"])

    def take(self, count):
        return [self.message() for _ in range(count)]

    def heartbeat(self):
        """Read the next part, which must not have an event."""
        part = next(self._parts)
        assert b"data:" not in part, part
        return part


@contextmanager
def streaming(api, query="", **headers):
    context = copy_context()
    answer = context.run(lambda: api("GET", f"{STREAM}{query}", **headers))
    try:
        yield Reader(answer, context)
    finally:
        context.run(answer.close)


def listed(api, query="?after=0", **headers):
    return api("GET", f"/v1/events{query}", **headers).json["events"]


def events(messages):
    """The events of messages, whose name must be that of the event."""
    for name, data in messages:
        assert name == data["type"]
    return [data for _, data in messages]


@on_both
def test_a_stream_has_the_events_of_the_list(api):
    api.node(name="n1")
    with streaming(api, "?after=0") as reader:
        assert "text/event-stream; charset=utf-8" == reader.headers["Content-Type"]
        assert "no-store" == reader.headers["Cache-Control"]
        first = reader.take(1)
        api.node(name="n2")
        api("PATCH", "/v1/nodes/n2", [{"op": "add", "path": "/extra/a", "value": 1}])
        found = listed(api)
        assert found == events(first + reader.take(len(found) - 1))
        assert found[-1]["sequence"] == reader.last


@on_both
def test_a_stream_without_a_number_begins_with_the_next_event(api):
    api.node()
    with streaming(api) as reader:
        assert b"retry: 2000\n\n:\nid: 1\n\n" == reader.heartbeat()
        api.node(name="n2")
        assert [2] == [each["sequence"] for each in events(reader.take(1))]


def test_the_number_of_the_header_has_precedence(api):
    for _ in range(3):
        api.node()
    with streaming(api, "?after=0", **{"Last-Event-ID": "2"}) as reader:
        assert [3] == [each["sequence"] for each in events(reader.take(1))]
    with streaming(api, "?after=1", **{"Last-Event-ID": ""}) as reader:
        assert [2, 3] == [each["sequence"] for each in events(reader.take(2))]


@pytest.mark.parametrize(
    ("query", "header", "message"),
    [
        ("?after=7", "", "after: there is no event 7 yet"),
        ("?after=x", "", "after"), ("?after=-1", "", "after"), ("?wait=1", "", "wait"), ("?limit=1", "", "limit"),
        ("?type=node", "", "'node' is not one of"), ("?node=a/b", "", "node"),
        ("", "7", "there is no event 7 yet"), ("", "x", "Last-Event-ID: must be the number"),
        ("", "-1", "Last-Event-ID: must be"), ("", "²", "Last-Event-ID: must be"),
        ("", "9" * 5000, "Last-Event-ID: must be"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused(api, query, header, message):
    answer = api("GET", f"{STREAM}{query}", **{"Last-Event-ID": header})
    assert 400 == answer.status_code
    assert message in fault(answer)["faultstring"]
    assert 404 == api("GET", f"{STREAM}?node=nonesuch").status_code
    assert not services_of(api.client.application).followers.streams._taken, "places are released"


@pytest.mark.parametrize(("crowd", "pause"), [(1, 7.0), (0, 17.0)])
def test_all_streams_send_at_the_same_times(api, crowd, pause, monkeypatch):
    """At 1,010 by this clock, not a whole pace after each one's last part; a crowd at 1,020."""
    pauses, tail = [], services_of(api.client.application).followers.tail
    monkeypatch.setattr(event_stream, "PACE", 10.0)
    monkeypatch.setattr(event_stream, "CROWD", crowd)
    monkeypatch.setattr(event_stream, "SPREAD", 0.0)
    monkeypatch.setattr(event_stream, "time", SimpleNamespace(monotonic=lambda: 1003.0))
    monkeypatch.setattr(tail, "pause", pauses.append)
    monkeypatch.setattr(EventFeed, "is_closed", property(lambda _: bool(pauses)))
    api.node()
    with streaming(api, "?after=0") as reader:
        reader.take(1)
        assert reader.message() is None
    assert [pause] == pauses


def test_a_stream_is_filtered_by_node_and_type(api):
    node = api.node(name="n1")["uuid"]
    with streaming(api, "?after=0&node=n1&type=node.updated") as reader:
        api.node(name="n2")
        for name in ("n2", "n1"):
            api("PATCH", f"/v1/nodes/{name}", [{"op": "add", "path": "/extra/a", "value": 1}])
        (found,) = events(reader.take(1))
        assert ("node.updated", node) == (found["type"], found["node_uuid"])
        assert found["sequence"] == len(listed(api))


def test_a_stream_without_events_shows_that_it_is_open_and_where_to_continue(api):
    api.node(name="n1")
    with streaming(api, "?after=0&type=node.deleted") as reader:
        reader.heartbeat()
        api.node(name="n2")
        until(lambda: reader.heartbeat() == b":\nid: 2\n\n", "the newest number")


@on_both
@pytest.mark.parametrize("kept", [3, 4000])
def test_a_reader_who_was_away_gets_each_event_once_and_in_order(api, kind, kept, monkeypatch):
    """With a short memory of the tail, the reader is served from the database meanwhile."""
    monkeypatch.setattr(event_feed, "KEPT", kept)
    monkeypatch.setattr(event_feed, "AT_ONCE", 2)
    monkeypatch.setattr(event_stream, "PAGE", 5)
    for _ in range(12):
        api.node()
    with streaming(api, "?after=2") as reader:
        found = events(reader.take(4))
        for _ in range(15):
            api.node()
        found += events(reader.take(12 - 2 - 4 + 15))
    assert [*range(3, 28)] == [each["sequence"] for each in found]


def test_a_gap_is_announced(api):
    for _ in range(5):
        api.node()
    with api.runtime.transaction() as session:
        session.execute(delete(ChangeEvent).where(ChangeEvent.sequence <= 3))
    with streaming(api, "?after=2") as reader:
        assert ("gap", {"after": 2, "first": 4}) == reader.message()
        assert 3 == reader.last
        assert [4, 5] == [each["sequence"] for each in events(reader.take(2))]
    with streaming(api, "?after=3") as reader:
        assert [4, 5] == [each["sequence"] for each in events(reader.take(2))]


def test_a_restored_database_ends_the_streams(api):
    for _ in range(3):
        api.node()
    with streaming(api) as reader:
        reader.heartbeat()
        with api.runtime.transaction() as session:
            session.execute(delete(ChangeEvent).where(ChangeEvent.sequence > 1))
        assert None is reader.message()
    assert 400 == api("GET", STREAM, **{"Last-Event-ID": "3"}).status_code


@pytest.mark.parametrize("followed", [True, False])
def test_events_with_the_numbers_of_a_restored_database_are_not_taken_for_those_before(
    api, followed
):
    api.node()
    with ExitStack() as opened:
        if followed:  # the tail reads on
            opened.enter_context(streaming(api)).heartbeat()
        with streaming(api) as reader:
            reader.heartbeat()
            lost = api.node()["uuid"]
            assert [lost] == [each["node_uuid"] for each in events(reader.take(1))]
        with api.runtime.transaction() as session:
            session.execute(delete(ChangeEvent).where(ChangeEvent.sequence > 1))
        tail = services_of(api.client.application).followers.tail
        noticed = (lambda: tail._last == 1) if followed else (lambda: tail._thread is None)
        until(noticed, "the tail has noticed, or ended")
        with streaming(api) as reader:
            reader.heartbeat()
            other = api.node()["uuid"]
            assert [other] == [each["node_uuid"] for each in events(reader.take(1))]
            assert 2 == reader.last


# limits


def test_streams_are_limited_per_caller_and_in_all(api):
    settings = api.runtime.settings
    few = replace(settings, api=replace(settings.api, event_streams=5))
    changed = replace(api.runtime, settings=few)
    limited = Api(create_app(changed).test_client(), changed, [])

    def refused(address):
        answer = limited("GET", STREAM, **{"X-Forwarded-For": address})
        return answer.status_code, answer.headers["Retry-After"], fault(answer)["faultstring"]

    with (
        streaming(limited, **{"X-Forwarded-For": "192.0.2.1"}),
        streaming(limited, **{"X-Forwarded-For": "192.0.2.1"}) as second,
    ):
        status, seconds, said = refused("192.0.2.1")
        assert (429, "30") == (status, seconds)
        assert "streams of this caller" in said
        with ExitStack() as others:
            for number in (2, 2, 3):
                address = {"X-Forwarded-For": f"192.0.2.{number}"}
                others.enter_context(streaming(limited, **address))
            status, seconds, said = refused("192.0.2.4")
            assert (503, "5") == (status, seconds)
            assert "Too many streams are open" in said
            second.heartbeat()
    with streaming(limited, **{"X-Forwarded-For": "192.0.2.1"}):
        pass
    assert not services_of(limited.client.application).followers.streams._taken


def test_streams_are_measured(api, tmp_path, monkeypatch):
    api.node()
    with recording_into(tmp_path / "metrics") as samples:
        with streaming(api, "?after=0") as reader, streaming(api, "?type=node.deleted") as other:
            assert 2 == samples()["ingot_event_streams"]
            until_number(reader, 1)
            api.node()
            until_number(reader, 2)
            other.heartbeat()
        found = samples()
        assert "ingot_event_streams" not in found
        assert 2 == found["ingot_event_stream_events_total"]
        assert 1 == found["ingot_event_stream_lag_seconds_count"], "not of the past"
        assert 0 <= found["ingot_event_stream_lag_seconds_sum"] < 60
        assert 2 == found['ingot_event_stream_ends_total{cause="left"}']
        with streaming(api, "?after=0") as reader:
            reader.heartbeat()
            monkeypatch.setattr(event_stream, "PATIENCE", -1.0)
            until(lambda: reader.message() is None, "the end")
        assert 1 == samples()['ingot_event_stream_ends_total{cause="slow"}']


def test_an_idle_stream_reads_no_events(api, monkeypatch):
    read = []
    reading = event_feed.change_events.read
    monkeypatch.setattr(
        event_feed.change_events, "read", lambda *a, **k: read.append(a) or reading(*a, **k)
    )
    api.node()
    with streaming(api) as reader:
        for _ in range(3):
            reader.heartbeat()
        assert [] == read
        api.node()
        assert 2 == until_number(reader, 2)


def test_head_opens_no_stream(api):
    for _ in range(20):  # more than the places of a caller
        answer = api("HEAD", STREAM)
        assert (200, b"") == (answer.status_code, answer.data)


def test_a_reader_who_receives_too_slowly_is_disconnected(api, monkeypatch):
    with streaming(api, "?after=0") as reader:
        reader.heartbeat()
        monkeypatch.setattr(event_stream, "PATIENCE", -1.0)  # each message takes longer
        api.node()
        reader.take(1)
        assert None is reader.message()


def test_no_thread_reads_when_no_request_follows(api):
    def readers():
        return [each for each in threading.enumerate() if each.name == "change-tail"]

    with streaming(api), streaming(api):
        assert 1 == len(readers())
    until(lambda: not readers(), "the end of the thread")


def test_the_end_of_the_process_ends_streams_and_long_polls(api):
    runtime = replace(api.runtime)
    ending = Api(create_app(runtime).test_client(), runtime, [])
    with streaming(ending) as reader:
        reader.heartbeat()
        services_of(ending.client.application).followers.tail.close()
        assert None is reader.message()
    assert 503 == ending("GET", STREAM).status_code
    assert [] == ending("GET", "/v1/events?after=0&wait=600").json["events"]


def test_a_stream_outlasts_an_outage_of_the_database(api, monkeypatch):
    def fail(*_, **__):
        raise OperationalError("SELECT", {}, Exception("away"))

    with streaming(api) as reader:
        reader.heartbeat()
        with monkeypatch.context() as patch:
            patch.setattr(event_feed.change_events, "read", fail)
            api.node()
            reader.heartbeat()
        assert [1] == [each["sequence"] for each in events(reader.take(1))]


# policy

RED, BLUE = "1" * 32, "2" * 32


@pytest.fixture
def users(api):
    users = Directory(api.runtime.transaction)
    users.project("red", RED)
    users.project("blue", BLUE)
    users.user("ann", ("reader", "red"))
    users.user("root", ("reader", None))
    return users


@pytest.fixture
def local(api):
    runtime, app = with_local_users(api.runtime)
    return Api(app.test_client(), runtime, [])


def token(users, user, project):
    return {"X-Auth-Token": users.token(user, project)}


@on_both
def test_a_stream_is_narrowed_as_the_list(api, local, users):
    nodes = [api.node(name=f"n{at}", owner=owner) for at, owner in enumerate((RED, BLUE, None))]
    api.node(name="leased", owner=BLUE, lessee=RED)

    def flip(*values):
        for value in values:
            for node in [each["uuid"] for each in nodes]:
                api.set(node, maintenance=value)

    flip(True)
    mine, everything = token(users, "ann", "red"), token(users, "root", None)
    with streaming(local, "?after=0", **mine) as reader:
        found = events(reader.take(len(listed(local, **mine))))
        flip(False, True)
        api.set(nodes[1]["uuid"], owner=RED)  # from now on
        flip(False)
        api.set(nodes[0]["uuid"], owner=BLUE)
        flip(True)
        expected = listed(local, **mine)
        assert expected == found + events(reader.take(len(expected) - len(found)))
    assert {"n0", "n1"} == {each["node_name"] for each in expected}
    with streaming(local, "?after=0", **everything) as reader:
        expected = listed(local, **everything)
        assert expected == events(reader.take(len(expected)))


def test_streams_at_the_same_position_get_what_they_may_see_and_ask_for(api, local, users):
    for name, owner in ("red", RED), ("blue", BLUE), ("none", None):
        api.node(name=name, owner=owner)
    users.user("bob", ("reader", "blue"))
    asked = [
        ("", token(users, "ann", "red"), ["red"]),
        ("", token(users, "bob", "blue"), ["blue"]),
        ("", token(users, "root", None), ["red", "blue", "none"]),
        ("?type=node.power_state", token(users, "root", None), []),
        ("?node=none", token(users, "root", None), ["none"]),
        ("", token(users, "ann", "red"), ["red"]),
    ]
    with ExitStack() as opened:
        readers = [
            opened.enter_context(streaming(local, query, **who)) for query, who, _names in asked
        ]
        for reader in readers:
            reader.heartbeat()
        with api.runtime.transaction() as session:
            session.execute(update(Node).values(maintenance=True))
        last = listed(api)[-1]["sequence"]
        for reader, (_query, _who, names) in zip(readers, asked, strict=True):
            found = events(reader.take(len(names)))
            assert Counter(names) == Counter(each["node_name"] for each in found)
            while reader.last != last:
                reader.last = int(reader.heartbeat().rsplit(b"id: ")[-1])


def until_number(reader, number):
    """Read until the event of a number; return it."""
    while reader.last != number:
        assert reader.message()
    return reader.last


def lose_role(users, _api, _ident):
    users.revoke(Role.READER, "red", user="ann")


def lose_token(users, _api, ident):
    users.revoke_token(ident)


def expire(_users, api, _ident):
    with api.runtime.transaction() as session:
        session.execute(update(ApiToken).values(expires_at=datetime(2020, 1, 1)))


def lose_account(users, _api, _ident):
    users.enable("ann", False)


@pytest.mark.parametrize("lose", [lose_role, lose_token, expire, lose_account])
@pytest.mark.parametrize("idle", [True, False], ids=["idle", "events"])
def test_a_caller_who_loses_access_gets_no_further_event(api, local, users, lose, idle):
    node = api.node(owner=RED)["uuid"]
    ident, secret = users.token_with_uuid("ann", "red")
    with streaming(local, "?after=0", **{"X-Auth-Token": secret}) as reader:
        api.set(node, maintenance=True)
        until_number(reader, listed(api)[-1]["sequence"])
        lose(users, api, ident)
        if not idle:
            api.set(node, maintenance=False)
        assert None is reader.message()


def test_a_caller_with_more_rights_sees_more(api, local, users):
    node = api.node()["uuid"]
    users.user("eve", ("reader", "blue"), ("reader", "red"))
    with streaming(local, "?after=1", **token(users, "eve", "red")) as reader:
        reader.heartbeat()
        api.set(node, maintenance=True)
        reader.heartbeat()
        api.set(node, owner=RED)
        api.set(node, maintenance=False)
        assert ["node.maintenance"] == [each["type"] for each in events(reader.take(1))]
