"""GET /v1/events/stream: changes as Server-Sent Events."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from sqlalchemy import delete

from app.api.fleet import event_stream
from app.api.request.context import services_of
from app.events import event_feed
from app.events.event_feed import EventFeed
from app.models import ChangeEvent
from tests.contract.conftest import fault
from tests.support.fleet import until

from .conftest import STREAM, events, listed, on_both, streaming


@on_both
def test_a_stream_has_the_events_of_the_list(api):
    api.node(name="n1")
    with streaming(api, "?after=0") as reader:
        assert "text/event-stream; charset=utf-8" == reader.headers["Content-Type"]
        assert "no-store" == reader.headers["Cache-Control"]
        first_messages = reader.take(1)
        api.node(name="n2")
        api("PATCH", "/v1/nodes/n2", [{"op": "add", "path": "/extra/a", "value": 1}])
        listed_events = listed(api)
        assert listed_events == events(first_messages + reader.take(len(listed_events) - 1))
        assert listed_events[-1]["sequence"] == reader.last_sequence


@on_both
def test_a_stream_without_a_number_begins_with_the_next_event(api):
    api.node()
    with streaming(api) as reader:
        assert b"retry: 2000\n\n:\nid: 1\n\n" == reader.heartbeat()
        api.node(name="n2")
        assert [2] == [event["sequence"] for event in events(reader.take(1))]


def test_the_number_of_the_header_has_precedence(api):
    for _ in range(3):
        api.node()
    with streaming(api, "?after=0", **{"Last-Event-ID": "2"}) as reader:
        assert [3] == [event["sequence"] for event in events(reader.take(1))]
    with streaming(api, "?after=1", **{"Last-Event-ID": ""}) as reader:
        assert [2, 3] == [event["sequence"] for event in events(reader.take(2))]


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
    assert not services_of(api.client.application).followers.streams._taken_places, (
        "places are released"
    )


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
        (event,) = events(reader.take(1))
        assert ("node.updated", node) == (event["type"], event["node_uuid"])
        assert event["sequence"] == len(listed(api))


def test_a_stream_without_events_shows_that_it_is_open_and_where_to_continue(api):
    api.node(name="n1")
    with streaming(api, "?after=0&type=node.deleted") as reader:
        reader.heartbeat()
        api.node(name="n2")
        until(lambda: reader.heartbeat() == b":\nid: 2\n\n", "the newest number")


@on_both
@pytest.mark.parametrize("kept_events", [3, 4000])
def test_a_reader_who_was_away_gets_each_event_once_and_in_order(
    api, kind, kept_events, monkeypatch
):
    """With a short memory of the tail, the reader is served from the database meanwhile."""
    monkeypatch.setattr(event_feed, "KEPT", kept_events)
    monkeypatch.setattr(event_feed, "AT_ONCE", 2)
    monkeypatch.setattr(event_stream, "PAGE", 5)
    for _ in range(12):
        api.node()
    with streaming(api, "?after=2") as reader:
        received_events = events(reader.take(4))
        for _ in range(15):
            api.node()
        received_events += events(reader.take(12 - 2 - 4 + 15))
    assert [*range(3, 28)] == [event["sequence"] for event in received_events]


def test_a_gap_is_announced(api):
    for _ in range(5):
        api.node()
    with api.runtime.transaction() as session:
        session.execute(delete(ChangeEvent).where(ChangeEvent.sequence <= 3))
    with streaming(api, "?after=2") as reader:
        assert ("gap", {"after": 2, "first": 4}) == reader.message()
        assert 3 == reader.last_sequence
        assert [4, 5] == [event["sequence"] for event in events(reader.take(2))]
    with streaming(api, "?after=3") as reader:
        assert [4, 5] == [event["sequence"] for event in events(reader.take(2))]


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
            assert [lost] == [event["node_uuid"] for event in events(reader.take(1))]
        with api.runtime.transaction() as session:
            session.execute(delete(ChangeEvent).where(ChangeEvent.sequence > 1))
        tail = services_of(api.client.application).followers.tail
        noticed = (lambda: tail._last_sequence == 1) if followed else (lambda: tail._thread is None)
        until(noticed, "the tail has noticed, or ended")
        with streaming(api) as reader:
            reader.heartbeat()
            other = api.node()["uuid"]
            assert [other] == [event["node_uuid"] for event in events(reader.take(1))]
            assert 2 == reader.last_sequence
