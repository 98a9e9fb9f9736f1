"""
Readers of change events that come and go during a storm: of the stream, and a webhook's receiver.

At rest, their events are compared with the rows: `judge`.
"""

import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from itertools import pairwise
from random import Random

import requests

from tests.chaos.site import VERSION, wait
from tests.support.receiver import SECRET, receiving
from tests.support.stream_reader import Reader

STREAMS = 2
#: Most messages of a visit to the stream.
VISIT = 300
#: Fields by which an event is compared with its row.
FIELDS = (
    "sequence", "node_uuid", "resource_uuid", "type", "operation_uuid", "before", "after",
)  # fmt: skip


class Readers:
    """Readers of a site's events: streams from the first event on, a webhook from its creation."""

    def __init__(self, site, receiver):
        self._site, self._receiver = site, receiver
        self._random = Random(f"{site.seed}/readers")
        self.streams = [Reader(site.url, f"{site.seed}/{n}", VISIT) for n in range(STREAMS)]
        self.start = self._create_webhook()  # number after which the webhook's events begin
        self.absences = 0  # of the receiver

    def _create_webhook(self):
        body = {"name": "storm", "url": self._receiver.url, "secret": SECRET}
        answer = requests.post(
            f"{self._site.url}/v1/webhooks", json=body, headers=VERSION, timeout=60
        )
        assert 201 == answer.status_code, answer.text
        return answer.json()["position"]

    def come_and_go(self, stop):
        """Let the receiver refuse deliveries or stay silent at times, until `stop` is set."""
        while not wait(self._random.uniform(0, 6), stop):
            self.absences += 1
            if self._random.random() < 0.5:
                self._receiver.status = self._random.choice([500, 503, 404, 301])
            else:
                self._receiver.gate.clear()
            wait(self._random.uniform(0, 8), stop)
            self._receiver.status = 200
            self._receiver.gate.set()

    def await_newest(self, seconds):
        """Wait until all readers have the newest event."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._have_all():
            time.sleep(0.5)
        for stream in self.streams:
            stream.ended.set()

    def _have_all(self):
        ((newest, unnumbered),) = self._site.query(
            "SELECT max(sequence), count(*) FILTER (WHERE sequence IS NULL) FROM change_events"
        )
        return (
            not unnumbered
            and all(stream.position >= newest for stream in self.streams)
            and newest in self._receiver.numbers
        )

    def judge(self, verdict):
        """Record violations: events that were missed, came twice, or came out of order."""
        names = ", ".join(FIELDS)
        rows = self._site.query(f"SELECT id, {names} FROM change_events ORDER BY id")
        ids = {row[1]: row[0] for row in rows}
        expected = [row[1:] for row in rows]
        for reader in self.streams:
            events = [_facts(event) for _, event in reader.events]
            _blame_missing(verdict, "stream missed", expected, events)
            for event, times in Counter(events).items():
                if times > 1:
                    verdict.blame("stream twice", f"{times} times: {event}")
            _blame_disorder(verdict, "stream order", ids, events)
        events = [_facts(event) for event in self._receiver.events]
        posted = [event for event in expected if event[0] is None or event[0] > self.start]
        _blame_missing(verdict, "webhook missed", posted, events)
        _blame_disorder(verdict, "webhook order", ids, events)
        delivered = sum(len(document["events"]) for document in self._receiver.documents)
        verdict.counts |= {
            "change events": len(rows),
            "visits of stream readers": sum(stream.visits for stream in self.streams),
            "absences of the webhook's receiver": self.absences,
            "events that the webhook's receiver got again": delivered - len(events),
        }


@contextmanager
def reading(site, stop):
    """Run readers of a site until the end of the block; they come and go until `stop` is set."""
    with receiving() as receiver:
        readers = Readers(site, receiver)
        moving = threading.Thread(target=readers.come_and_go, args=(stop,), daemon=True)
        for thread in (*readers.streams, moving):
            thread.start()
        try:
            yield readers
        finally:
            stop.set()
            moving.join()
            for stream in readers.streams:
                stream.ended.set()


def _facts(event):
    return tuple(event[name] for name in FIELDS)


def _blame_missing(verdict, row, expected, events):
    unique_events = set(events)
    for event in expected:
        if event not in unique_events:
            verdict.blame(row, f"{event}")


def _blame_disorder(verdict, row, ids, events):
    """The ids of rows are in the order of changes of a node or resource; numbers are given later."""
    histories = defaultdict(list)
    for event in events:
        histories[event[1:3]].append(event)
    for history in histories.values():
        for previous_event, event in pairwise(history):
            if ids.get(event[0], 0) < ids.get(previous_event[0], 0):
                verdict.blame(row, f"{event} after {previous_event}")
