"""Agents that a conductor polls: their heartbeats resume no operation while it does."""

import asyncio
import os
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import aiohttp
import pytest
from sqlalchemy.exc import OperationalError

from app.db.clock import after
from app.engine import operations, wake
from app.inventory import nodes
from app.models import AgentRecord, Conductor, Node, Operation
from app.reports import why
from app.runtime import Runtime
from drivers.core.errors import Unexpected
from tests.integration.manual_cleaning.conftest import BURN, band  # noqa: F401 - a fixture
from tests.integration.reconciler.conftest import TRUSTED
from tests.support.fleet import until
from tests.unit.drivers.machines import TOKEN
from workers.conductor import poller
from workers.periodic import reconciler

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def watched(band):  # noqa: F811
    """A node whose agent runs a step, and is polled: (harness, node, operation's UUID)"""
    band.conductor.wait_monitor.running = True
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[BURN])
    band.call(node)
    assert ["burnin_cpu"] == band.ran()
    return band, node, band.last(node).uuid


def test_heartbeats_of_a_polled_agent_are_recorded_and_resume_nothing(watched):
    harness, node, name = watched
    operation = harness.inside.operation(name)
    assert "clean wait" == harness.call(node) == harness.call(node)
    harness.inside.change(Operation, name, heartbeats=0)
    assert 0 == reconciler.reconcile(harness.inside.runtime, TRUSTED)["called"]
    assert operation.fence == harness.inside.operation(name).fence


@pytest.mark.parametrize(
    "cause", ["the conductor dies", "it is drained", "the agent is silent", "time"]
)
def test_the_next_heartbeat_resumes_the_operation_when_the_polling_has_ended(watched, cause):
    harness, node, name = watched
    operation = harness.inside.operation(name)
    match cause:
        case "the conductor dies":
            harness.inside.conductor("c-2")
            harness.inside.change(Conductor, "c-1", heartbeat_at=after(-60))
        case "it is drained":
            harness.inside.conductor("c-2")
            harness.inside.change(Conductor, "c-1", online=False)
        case "the agent is silent":
            wake.leave_to_agent(harness.inside.runtime, operation.id, operation.fence)
        case "time":
            harness.inside.change(Operation, name, watched_until=after(-1))
    harness.call(node)
    assert operation.fence < harness.inside.operation(name).fence


@pytest.fixture
def polled(band):  # noqa: F811
    """A node whose agent a real wait monitor polls: (harness, node, operation's UUID)"""
    runtime = band.inside.runtime
    agent = replace(runtime.settings.agent, poll_interval=0.05)
    runtime.settings = replace(runtime.settings, agent=agent)
    watching = band.conductor.wait_monitor = poller.WaitMonitor(runtime)
    watching.start()
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[BURN])
    band.call(node)
    assert ["burnin_cpu"] == band.ran()
    yield band, node, band.last(node).uuid
    watching._watched.clear()
    until(lambda: not watching._tasks)
    watching._loop.call_soon_threadsafe(watching._loop.stop)


@contextmanager
def no_database(monkeypatch):
    """Let all writes fail; yield the attempted ones."""
    tries = []

    def refuse(_runtime, _actor=None):
        tries.append(time.monotonic())
        raise OperationalError("BEGIN", None, Exception("the database is away"))

    with monkeypatch.context() as patch:
        patch.setattr(Runtime, "transaction", refuse)
        yield tries


def test_a_command_that_ends_during_an_outage_of_the_database_is_continued_later(
    polled, monkeypatch
):
    harness, node, name = polled
    operation = harness.inside.operation(name)
    with no_database(monkeypatch) as tries:
        harness.agent.finish_step()
        until(lambda: tries)
    until(lambda: operation.fence < harness.inside.operation(name).fence)
    harness.run()
    assert "manageable" == harness.state(node)


@pytest.mark.parametrize("answer", ["refuses connections", "sends no JSON", "answers 401"])
def test_an_agent_that_does_not_answer_its_polls_leaves_the_reason(polled, answer, monkeypatch):
    harness, node, name = polled
    row = harness.inside.operation(name)

    async def broken(_self, url, token, _trusted):
        if answer == "refuses connections":
            raise aiohttp.ClientConnectionError from ConnectionRefusedError(
                111, "Connection refused"
            )
        if answer == "sends no JSON":
            raise Unexpected("the answer of the agent is no JSON")
        request = SimpleNamespace(real_url=f"{url}?agent_token={token}")
        raise aiohttp.ClientResponseError(request, (), status=401, message=f"no {token}")

    monkeypatch.setattr(poller.WaitMonitor, "_commands", broken)
    words = {
        "refuses connections": "(Connection refused)",
        "sends no JSON": "(the answer of the agent is no JSON)",
        "answers 401": "(status 401)",
    }[answer]
    step = lambda: harness.steps(node)[row.cursor]  # noqa: E731
    until(lambda: step().error)
    assert step().error.endswith(f"did not answer {poller.ERRORS} polls {words}")
    with harness.inside.runtime.reading() as session:
        explained = why.explain(session, session.get_one(Node, node)).summary
    assert words in explained
    assert TOKEN not in explained
    harness.inside.change(Operation, name, deadline_at=after(-1))
    with harness.inside.runtime.transaction() as session:
        session.get_one(AgentRecord, node).last_heartbeat_at = after(-9999)
    reconciler.reconcile(harness.inside.runtime, TRUSTED)
    harness.run()
    assert words in harness.inside.read(node).last_error


def test_each_poll_prolongs_the_watch(watched):
    harness, _, name = watched
    runtime, operation = harness.inside.runtime, harness.inside.operation(name)
    harness.inside.change(Operation, name, watched_until=after(1))
    soon = harness.inside.operation(name).watched_until
    wake.extend_polling(runtime, [(operation.id, operation.fence - 1)])
    assert soon == harness.inside.operation(name).watched_until
    wake.extend_polling(runtime, [(operation.id, operation.fence), (-1, 0)])
    assert soon < harness.inside.operation(name).watched_until
    wake.leave_to_agent(runtime, operation.id, operation.fence)
    wake.extend_polling(runtime, [(operation.id, operation.fence)])
    assert None is harness.inside.operation(name).watched_until


def test_a_new_command_is_polled_before_thousands_of_old_ones(polled):
    harness, _, name = polled
    operation = harness.inside.operation(name)
    harness.conductor.wait_monitor._rates.update((-number, 1 / 30) for number in range(1, 3001))
    harness.agent.finish_step()
    until(lambda: operation.fence < harness.inside.operation(name).fence, seconds=10)


@pytest.mark.parametrize("error", [aiohttp.ClientConnectionError("gone"), KeyError("a defect")])
def test_a_heartbeat_of_an_agent_that_cannot_be_polled_resumes_the_operation(
    polled, monkeypatch, error
):
    harness, node, name = polled
    operation = harness.inside.operation(name)
    assert operation.watched_until

    async def fail(*_):
        raise error

    with no_database(monkeypatch) as tries:
        monkeypatch.setattr(poller.WaitMonitor, "_commands", fail)
        until(lambda: tries)
    until(lambda: harness.inside.operation(name).watched_until is None)
    assert ("waiting", operation.fence) == (
        harness.inside.operation(name).state, harness.inside.operation(name).fence
    )  # fmt: skip
    assert "manageable" == harness.finish(node)


def test_a_heartbeat_resumes_the_operation_if_the_node_was_locked_at_the_end_of_the_command(polled):
    harness, node, name = polled
    harness.inside.change(Node, node, reservation="c-1", operation_id=None)
    harness.agent.finish_step()
    until(lambda: harness.inside.operation(name).watched_until is None)
    harness.inside.change(Node, node, reservation=None)
    assert "manageable" == harness.call(node)


def test_an_agent_is_polled_no_longer_once_its_node_is_deleted(polled):
    harness, node, _ = polled
    harness.inside.change(Node, node, maintenance=True)
    with harness.inside.runtime.transaction() as session:
        nodes.remove(session, operations.lock(session, node))
    harness.agent.finish_step()
    until(lambda: not harness.conductor.wait_monitor._tasks)


class Counting(poller.WaitMonitor):
    """Wait monitor that counts its polls, each of which shows a running command."""

    looks = 0

    async def _commands(self, url, token, trusted):
        self.looks += 1
        return {"commands": [{"command_name": "execute_clean_step", "command_status": "RUNNING"}]}


def test_an_operation_is_watched_once_and_the_rate_of_polls_is_bounded(inside, monkeypatch):
    monkeypatch.setattr(poller, "POLLS", 200)
    watching = Counting(inside.runtime)
    watching.start()
    for operation in range(100):
        for fence in (1, 2):  # resumed in between
            watching.watch(operation, fence, "http://nowhere", None, None)
    began = time.monotonic()
    until(lambda: watching.looks > 2 * 100)
    assert time.monotonic() - began > 3 * 100 / poller.POLLS - 0.1  # the third round
    assert 100 == len(watching._tasks) == len(watching._watched)
    watching._watched.clear()
    until(lambda: not watching._tasks)
    watching._loop.call_soon_threadsafe(watching._loop.stop)


@pytest.mark.parametrize("recorded", ["{fifo}", "False"])
def test_an_agent_without_a_certificate_is_polled_with_the_trust_of_the_settings(
    band,  # noqa: F811
    tmp_path,
    recorded,
):
    """An earlier release recorded it unchecked; the loop that polls all agents opens no path."""
    os.mkfifo(tmp_path / "fifo")
    watched = []
    band.conductor.wait_monitor = SimpleNamespace(
        running=True, watch=lambda *arguments: watched.append(arguments)
    )
    node = band.with_agent()
    band.do(node, "clean", clean_steps=[BURN])
    with band.inside.runtime.transaction() as session:
        path = recorded.format(fifo=tmp_path / "fifo")
        session.merge(AgentRecord(node_id=node, verify_ca=path))
    band.call(node)
    assert [None] == [ca for *_, ca in watched]


def test_a_loop_that_polls_agents_does_not_wait_for_a_file_of_certificates(band, tmp_path):  # noqa: F811
    os.mkfifo(tmp_path / "fifo")
    watching = poller.WaitMonitor(band.inside.runtime)
    polling = watching._until_ended(1, 1, "https://127.0.0.1:1", None, str(tmp_path / "fifo"))
    assert "agent_verify_ca" in asyncio.run(asyncio.wait_for(polling, 10))
