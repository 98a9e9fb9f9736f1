"""Refreshes, with a death at each point."""

from itertools import product

import pytest
from sqlalchemy import func, select

from app.models import (
    Node,
    NodeHistory,
    Operation,
    OperationState,
)
from tests.integration.crash_harness import API, CONDUCTOR, NOW, Interruption, opened
from tests.integration.refreshes.conftest import (
    MACHINE,
    SMALLER,
    SQLITE,
    ask,
    changes,
    events,
    result,
)
from tests.unit.drivers.machines import scripted_agent


@pytest.fixture
def crashing(inside, monkeypatch):
    with scripted_agent() as agent, opened(inside, agent, monkeypatch) as harness:
        yield harness


def record(harness, node):
    """Return changes, parts, history entries, events and operations of a refresh."""
    with harness.inside.runtime.reading() as session:
        entries = session.scalar(
            select(func.count()).select_from(NodeHistory).where(
                NodeHistory.node_id == node, NodeHistory.severity == "WARNING"
            )
        )  # fmt: skip
        finished = session.scalar(
            select(func.count()).select_from(Operation).where(
                Operation.node_id == node, Operation.state == OperationState.SUCCEEDED
            )
        )  # fmt: skip
    row = result(harness, node)
    counts = [count for _, count in events(harness, node)]
    return row.changed, changes(harness, node), row.parts.keys(), entries, counts, finished


@SQLITE
@pytest.mark.parametrize(
    ("role", "point", "nth", "pause"),
    [
        *product([CONDUCTOR], ["received", "leased", "claimed", "acted", "freed", "recorded"],
                 [1, 2, 3], [False, True]),
        *product([CONDUCTOR], ["followed"], [1, 2], [False, True]),
        (API, "committed", 1, False), (NOW, "decided", 1, False),
    ],
)  # fmt: skip
def test_a_process_that_dies_or_stops_anywhere_doubles_and_loses_nothing(
    crashing, shows, role, point, nth, pause
):
    shows(MACHINE)
    node = crashing.node("active", driver_internal_info={"fake": {"bios": {"a": "1"}}})
    start(crashing, node, None)
    info = {"fake": {"bios": {"a": "2"}, "firmware": {"bmc": "2.0"}}}
    crashing.inside.change(Node, node, driver_internal_info=info)
    shows(SMALLER)
    start(crashing, node, Interruption(role, point, nth, pause=pause))
    assert crashing.interrupted or role == NOW
    count, facts, parts, entries, counts, finished = record(crashing, node)
    assert (6, 6, 3) == (count, len(facts), len(parts))
    assert (3, ["1", "3", "6"], 2) == (entries, counts, finished)
    assert ("active", None) == (
        crashing.inside.read(node).provision_state, crashing.inside.read(node).reservation,
    )  # fmt: skip


def start(harness, node, interruption):
    """Request a refresh, until the API has accepted it, and run all processes."""
    harness.begin(interruption)
    fence = harness.inside.read(node).fence
    while harness.inside.read(node).fence == fence:
        with harness.acting_as(harness.api):
            ask(harness, node)
        harness.api.up = True
    harness.drive()
