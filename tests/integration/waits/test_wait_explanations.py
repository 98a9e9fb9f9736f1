"""Every wait state: its explanation by `why`."""

import pytest
from sqlalchemy import select

from app.engine import operations
from app.lifecycle.provision_states import Kind, State, of_kind
from app.models import AgentRecord, Node, NodeHistory, Operation
from tests.integration.harness import Acme, requested
from workers.conductor import claims

from .conftest import ALL, BURN, CRAWL, HOLD

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def unsent(harness, node):
    harness.ask(node, "manage")
    harness.inside.change(Operation, harness.last(node).uuid, sent_to=None)


def sent(harness, node):
    harness.ask(node, "manage")


def claimed(harness, node):
    harness.ask(node, "manage")
    operation = harness.last(node)
    claims.claim(harness.conductor, operation.uuid, operation.fence, 0)


def not_admitted(harness, node):
    harness.do(harness.node(), "clean", clean_steps=[CRAWL])
    works(CRAWL)(harness, node)


def child_is_busy(harness, node):
    harness.node(parent_node=harness.inside.read(node).uuid, reservation="c-9")
    harness.inside.change(Node, node, provision_state="manageable")
    step = requested("power", "power_on", execute_on_child_nodes=True)
    harness.do(node, "clean", clean_steps=[step])


def backs_off(harness, node):
    Acme.unreachable = 9
    harness.inside.change(Node, node, provision_state="manageable")
    harness.do(node, "clean", clean_steps=[requested("management", "flicker")])


def works(*steps):
    def begin(harness, node):
        harness.inside.change(Node, node, provision_state="manageable")
        harness.do(node, "clean", clean_steps=list(steps))

    return begin


def in_maintenance(harness, node):
    works(BURN)(harness, node)
    harness.inside.change(Node, node, maintenance=True)


@pytest.mark.parametrize(
    ("begin", "waits_for", "because", "has_time"),
    [
        (lambda *_: None, None, "nothing is under way", False),
        (not_admitted, "turn", "one of 1 slots ([conductor]max_concurrent_clean)", False),
        (unsent, "conductor", "no live conductor serves it", False),
        (sent, "conductor", "a message to its conductor is on its way", False),
        (claimed, "conductor", "conductor c-1 runs it", True),
        (works(BURN), "agent", "it fails at the deadline", True),
        (in_maintenance, "agent", "no deadline ends that while the node is in maintenance", True),
        (works(CRAWL), "machine", "the machine works", True),
        (works(requested("power", "wait", args={"seconds": 9})), "timer", "it waits for the requested time", True),
        (backs_off, "timer", "try 1 of 3 failed (no answer); it is retried", True),
        (child_is_busy, "child", "is reserved by c-9", True),
        (works(HOLD), "operator", "until unhold or abort is requested", False),
        (works(requested("management", "none")), "operator", "no clean step of that name", False),
    ],
)  # fmt: skip
def test_why_names_the_awaited_actor_and_the_deadline_of_every_wait(
    make, begin, waits_for, because, has_time
):
    harness = make(MAX_CONCURRENT_CLEAN="1")
    node = harness.with_agent("enroll") if "agent" == waits_for else harness.node("enroll")
    begin(harness, node)
    explained = harness.why(node)
    assert (waits_for, has_time) == (explained.waiting_for, explained.next_at is not None)
    assert because in explained.summary
    assert explained.next
    assert explained.since is not None or waits_for is None


@pytest.mark.parametrize("state", ALL)
def test_why_names_the_step_and_the_next_event_in_every_wait(make, state):
    harness = make()
    node = harness.arrive(state)
    explained = harness.why(node)
    with harness.inside.runtime.reading() as session:
        operation = operations.of_node(session, node)[0]
        step = operations.current_step(session, operation)
    assert (step.label, operation.uuid) == (explained.step, explained.operation)
    assert ("operator" if "hold" in state else "agent") == explained.waiting_for
    assert f"is {state} on its way to" in explained.summary
    assert State(state) in of_kind(Kind.WAIT, Kind.HOLD)
    assert "abort" in explained.verbs
    assert ("hold" in state) == ("unhold" in explained.verbs)
    assert (state in ("wait call-back", "rescue wait", "service wait")) == (
        "deleted" in explained.verbs
    )


def test_why_reports_the_retry_of_a_command_to_a_busy_agent(make):
    harness = make()
    node = harness.arrive("clean wait")
    harness.agent.refusal = (409, "Agent is busy")
    harness.call(node)
    explained = harness.why(node)
    assert ("agent", True) == (explained.waiting_for, explained.next_at is not None)
    assert "busy or unreachable" in explained.summary
    with harness.inside.runtime.reading() as session:
        assert session.get(AgentRecord, node).url
    step = next(row for row in harness.steps(node) if row.collects)
    operation = harness.last(node).uuid
    harness.inside.change_step(operation, step.position, progress={"power": {"ordered": True}})
    assert "machine" == harness.why(node).waiting_for
    harness.inside.change_step(operation, step.position, progress={}, remaining=0.0)
    assert "clean failed" == harness.poll(node)
    late = "in step deploy.await_clean_agent: its agent was busy, or did not answer"
    busy = "; the last error: the agent of node {} answered 409: Agent is busy"
    failed = harness.inside.read(node)
    assert f"Timeout reached {late}{busy.format(failed.uuid)}" == failed.last_error
    assert "Agent is busy" in explained.summary
    with harness.inside.runtime.reading() as session:
        entries = session.scalars(
            select(NodeHistory.event).where(NodeHistory.node_id == node)
        ).all()
    waits = [event for event in entries if event.startswith("Step deploy.await_clean_agent waits")]
    assert [True] == ["Agent is busy" in event for event in waits]
