"""Parts of streams, shared by those that want the same events."""

from types import SimpleNamespace

import pytest

from app.api.feed.event_frames import Part, Parts
from app.events.event_feed import Event

EVENTS = [
    Event(number, SimpleNamespace(even=not number % 2, odd=number % 2), b"%d " % number, number / 8)
    for number in range(1, 7)
]


class Selects:
    def __init__(self, name):
        self.name, self.reads = name, 0

    def __call__(self, row):
        self.reads += 1
        return vars(row)[self.name]

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


@pytest.mark.parametrize(
    ("begin", "end", "name", "part"),
    [
        (0, 6, "even", Part(b"2 4 6 ", 3, 0.25)),
        (0, 6, "odd", Part(b"1 3 5 ", 3, 0.125)),
        (2, 6, "even", Part(b"4 6 ", 2, 0.5)),
        (0, 4, "even", Part(b"2 4 ", 2, 0.25)),
        (2, 3, "even", Part(b"", 0, 0.0)),
    ],
)
def test_a_part_has_the_selected_events_of_those_given(begin, end, name, part):
    parts = Parts()
    for other in ("even", "odd"):
        for at in range(6):
            for stop in range(at + 1, 7):
                parts.of(EVENTS[at:stop], Selects(other))
    assert part == parts.of(EVENTS[begin:end], Selects(name))


def test_equal_conditions_are_evaluated_once():
    parts, condition, twin = Parts(), Selects("even"), Selects("even")
    assert parts.of(EVENTS, condition) is parts.of(EVENTS, twin)
    assert (6, 0) == (condition.reads, twin.reads)


def test_few_parts_are_kept():
    parts = Parts()
    for number in range(100):
        events = [Event(number, SimpleNamespace(even=True), b"", 0.0)]
        assert 1 == parts.of(events, Selects("even")).events
    assert len(parts._parts) <= Parts.KEPT
