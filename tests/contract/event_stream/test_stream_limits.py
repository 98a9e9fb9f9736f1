"""GET /v1/events/stream: limits, slow readers, and ends."""

import threading
from contextlib import ExitStack
from dataclasses import replace

from sqlalchemy.exc import OperationalError

from app.api.fleet import event_stream
from app.api.request.context import services_of
from app.events import event_feed
from app.server.application import create_app
from tests.contract.conftest import Api, fault
from tests.support.fleet import until
from tests.support.recorded import recording_into

from .conftest import STREAM, events, streaming, until_number


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
        status, seconds, message = refused("192.0.2.1")
        assert (429, "30") == (status, seconds)
        assert "streams of this caller" in message
        with ExitStack() as other_streams:
            for number in (2, 2, 3):
                address = {"X-Forwarded-For": f"192.0.2.{number}"}
                other_streams.enter_context(streaming(limited, **address))
            status, seconds, message = refused("192.0.2.4")
            assert (503, "5") == (status, seconds)
            assert "Too many streams are open" in message
            second.heartbeat()
    with streaming(limited, **{"X-Forwarded-For": "192.0.2.1"}):
        pass
    assert not services_of(limited.client.application).followers.streams._taken_places


def test_streams_are_measured(api, tmp_path, monkeypatch):
    api.node()
    with recording_into(tmp_path / "metrics") as samples:
        with streaming(api, "?after=0") as reader, streaming(api, "?type=node.deleted") as other:
            assert 2 == samples()["ingot_event_streams"]
            until_number(reader, 1)
            api.node()
            until_number(reader, 2)
            other.heartbeat()
        metrics = samples()
        assert "ingot_event_streams" not in metrics
        assert 2 == metrics["ingot_event_stream_events_total"]
        assert 1 == metrics["ingot_event_stream_lag_seconds_count"], "not of the past"
        assert 0 <= metrics["ingot_event_stream_lag_seconds_sum"] < 60
        assert 2 == metrics['ingot_event_stream_ends_total{cause="left"}']
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
        return [thread for thread in threading.enumerate() if thread.name == "change-tail"]

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
        assert [1] == [event["sequence"] for event in events(reader.take(1))]
