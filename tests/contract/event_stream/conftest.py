"""Readers of GET /v1/events/stream."""

from contextlib import contextmanager
from contextvars import copy_context

import orjson
import pytest

from app.api.fleet import event_stream
from app.events import event_feed

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
        self.last_sequence = None  # number of the last `id`
        self.parts = 0

    def message(self):
        """The next message as (event, data), or None after the end; comments are skipped."""
        while True:
            whole, end, remainder = self._text.partition(b"\n\n")
            if not end:
                try:
                    self._text += next(self._parts)
                    self.parts += 1
                except StopIteration:
                    return None
                continue
            self._text, fields = remainder, {}
            for line in whole.split(b"\n"):
                name, _, value = line.decode().partition(": ")
                fields[name] = value
            if "id" in fields:
                self.last_sequence = int(fields["id"])
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


def until_number(reader, number):
    """Read until the event of a number; return it."""
    while reader.last_sequence != number:
        assert reader.message()
    return reader.last_sequence
