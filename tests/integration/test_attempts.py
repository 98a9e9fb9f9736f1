"""Attempts: messages run each step of an operation once, despite losses, aborts and drains."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest
from sqlalchemy import inspect
from structlog.contextvars import get_contextvars
from structlog.testing import capture_logs

from app.cluster import conductors
from app.db.sealing import MARK
from app.engine import dispatch, operations
from app.models import Node, Operation, OperationStep
from app.text.masking import Unreadable
from drivers.core.errors import LeaseLost
from drivers.core.steps import Done, Failed
from workers.conductor import attempts, claims, drain
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

CLEANING = ["deploy.prepare_cleaning", "vendor.log_passthrough", "deploy.tear_down_cleaning"]


@pytest.fixture
def cleaning(inside):
    """A conductor, and the node and operation of a clean that was just requested."""
    inside.claimant = inside.conductor("c-1")
    node = inside.node("manageable")
    name = inside.request(node, "provide")
    return inside.read(node), name


def run(inside, name):
    inside.deliver(inside.claimant, inside.message(name))


def test_each_link_runs_one_step_and_sends_the_rest_of_its_chain(inside, cleaning):
    node, name = cleaning
    first_message = inside.messages[0]
    assert CLEANING == [link.label for link in first_message.links]
    run(inside, name)
    assert [(label, "done", 1) for label in CLEANING] == [
        (step.label, step.state, step.attempts) for step in inside.steps(name)
    ]
    assert [CLEANING, CLEANING[1:], CLEANING[2:]] == [
        [link.label for link in message.links] for message in inside.messages
    ]
    assert ("available", None) == (
        inside.read(node.id).provision_state,
        inside.read(node.id).reservation,
    )


def test_a_failed_step_ends_the_chain(inside, cleaning, monkeypatch):
    node, _ = cleaning
    broken, real = Failed("no such luck"), attempts.call_of
    monkeypatch.setattr(
        attempts,
        "call_of",
        lambda target, step: (lambda: broken) if step.label == CLEANING[1] else real(target, step),
    )
    assert Done() == attempts.run(inside.claimant, inside.messages[-1])
    second = inside.messages[-1]
    assert broken == attempts.run(inside.claimant, second)
    assert 2 == len(inside.messages)
    assert "clean failed" == inside.read(node.id).provision_state


@pytest.mark.parametrize("end", ["followed", "failed", "repeated"])
def test_the_links_that_a_step_does_not_send_are_withdrawn(inside, cleaning, monkeypatch, end):
    """Monitors would show them as waiting for ever; a repetition says nothing about them."""
    message, withdrawn = inside.messages[0], []
    if end == "failed":
        monkeypatch.setattr(attempts, "call_of", lambda *_: lambda: Failed("no such luck"))
    if end == "repeated":
        attempts.run(inside.claimant, message)
    attempts.run(inside.claimant, message, withdrawn.extend)
    labels = [link.label for link in withdrawn]
    assert (CLEANING[1:] if end == "failed" else []) == labels


@pytest.mark.parametrize(
    ("place", "kind", "words"),
    [
        ("args", "provide", "arguments of step deploy.prepare_cleaning/a_password"),
        ("instance_info", "active", "instance_info/a_password"),
        ("instance_info", "provide", None),  # a clean does not use it
    ],
)
def test_a_step_that_needs_a_secret_that_no_key_opens_fails_with_its_name(
    inside, cleaning, monkeypatch, place, kind, words
):
    real, lost = claims.claim, Unreadable(f"{MARK}2:0123456789abcdef:AAAA")

    def claim(*arguments):
        attempt = real(*arguments)
        changed = attempt.step if place == "args" else attempt.node
        setattr(changed, place, {"a_password": lost})
        attempt.operation.kind = kind
        return attempt

    monkeypatch.setattr(claims, "claim", claim)
    outcome = attempts.run(inside.claimant, inside.messages[0])
    if words is None:
        assert not isinstance(outcome, Failed)
    else:
        assert words in outcome.reason
        assert "data key 0123456789abcdef" in outcome.reason


@pytest.mark.parametrize("stale", ["repeated", "skipped ahead"])
def test_a_link_that_is_not_at_the_cursor_runs_nothing_and_sends_nothing(inside, cleaning, stale):
    _, name = cleaning
    message = inside.messages[0]
    if stale == "repeated":
        attempts.run(inside.claimant, message)
    else:
        message = message.rest
    counts = [step.attempts for step in inside.steps(name)], len(inside.messages)
    assert attempts.run(inside.claimant, message) is None
    assert counts == ([step.attempts for step in inside.steps(name)], len(inside.messages))


def test_a_link_of_an_older_fence_runs_nothing_and_sends_the_operation_once_more(inside, cleaning):
    """The message of the new fence may have been dropped while the old one's lease was held."""
    _, name = cleaning
    link = inside.messages[0]
    inside.change(Operation, name, fence=link.fence + 1)
    assert attempts.run(inside.claimant, link) is None
    assert [0, 0, 0] == [step.attempts for step in inside.steps(name)]
    assert [link.fence, link.fence + 1] == [message.fence for message in inside.messages]
    assert Done() == attempts.run(inside.claimant, inside.messages[-1])
    assert attempts.run(inside.claimant, link) is None
    assert 1 == inside.operation(name).cursor


def test_the_last_link_of_a_truncated_chain_sends_the_following_steps(
    inside, cleaning, monkeypatch
):
    node, name = cleaning
    monkeypatch.setattr(dispatch, "LONGEST_CHAIN", 1)
    run(inside, name)
    assert [[1], [2]] == [
        [link.position for link in message.links] for message in inside.messages[1:]
    ]
    assert "available" == inside.read(node.id).provision_state


def test_the_lease_is_held_for_the_limit_of_each_call(inside, cleaning, monkeypatch):
    _, name = cleaning
    seconds = []
    lease = SimpleNamespace(check=lambda: None, keep=seconds.append, calling=nullcontext)
    monkeypatch.setattr(inside.claimant.leases, "take", lambda *_: lease)
    run(inside, name)
    assert {inside.settings.conductor.step_timeout} == set(seconds)
    assert len(seconds) >= len(CLEANING)


@pytest.mark.parametrize("lost", range(1, 2 * len(CLEANING) + 1))
def test_a_commit_whose_answer_is_lost_is_not_repeated(inside, cleaning, monkeypatch, lost):
    node, name = cleaning
    dialect, commits = inside.runtime.engine.dialect, count(1)
    commit = dialect.do_commit

    def lossy(connection):
        commit(connection)
        if next(commits) == lost:
            connection.dbapi_connection.close()
            error = dialect.dbapi.ProgrammingError
            raise error("Cannot operate on a closed database.")

    monkeypatch.setattr(dialect, "do_commit", lossy)
    assert isinstance(attempts.run(inside.claimant, inside.message(name)), Done)
    inside.deliver(inside.claimant, inside.messages[-1])
    assert [("done", 1)] * 3 == [(step.state, step.attempts) for step in inside.steps(name)]
    operation = inside.operation(name)
    assert ("succeeded", 0) == (operation.state, operation.refused)
    assert "available" == inside.read(node.id).provision_state


def test_a_step_that_lost_its_lease_is_dispatched_again_at_once(inside, cleaning, monkeypatch):
    """Redis was emptied, and another process held the lease briefly: the claim is still ours."""
    node, name = cleaning

    def lost():
        raise LeaseLost("another process has it")

    lease = SimpleNamespace(check=lost, keep=lambda _seconds: None, calling=nullcontext)
    with monkeypatch.context() as patch:
        patch.setattr(inside.claimant.leases, "take", lambda *_: lease)
        patch.setattr(attempts, "call_of", lambda target, _step: target.before_order)
        run(inside, name)
    assert "running" == inside.operation(name).state
    contact = Contact(15.0)
    reconciler.reconcile(inside.runtime, contact, lambda _name: 0)
    operation = inside.operation(name)
    assert ("queued", 0) == (operation.state, operation.cursor)
    run(inside, name)
    assert "available" == inside.read(node.id).provision_state
    assert [2, 1, 1] == [step.attempts for step in inside.steps(name)]


ORDER = {"order": "firmware", "sending": True}


def test_the_next_attempt_has_the_progress_that_a_dead_one_has_kept(inside, cleaning, monkeypatch):
    _, name = cleaning
    progresses = []

    def keep(target, _step):
        progresses.append(target.progress)
        target.keep_progress({"order": "planned"})
        target.keep_progress(ORDER)
        raise LeaseLost("the process dies")

    with monkeypatch.context() as patch:
        patch.setattr(attempts, "call_of", lambda target, step: partial(keep, target, step))
        for _ in range(2):
            run(inside, name)
            reconciler.reconcile(inside.runtime, Contact(15.0), lambda _name: 0)
    assert [{}, ORDER] == progresses
    run(inside, name)
    assert {"done"} == {step.state for step in inside.steps(name)[:1]}


def test_an_attempt_that_was_replaced_keeps_no_progress(inside, cleaning):
    _, name = cleaning
    attempt = claims.claim(inside.claimant, name, 1, 0)
    claims.keep_progress(inside.claimant, attempt, ORDER)
    claims.expire(inside.claimant, attempt)
    reconciler.reconcile(inside.runtime, Contact(15.0), lambda _name: 0)
    with pytest.raises(LeaseLost):
        claims.keep_progress(inside.claimant, attempt, {"order": "another"})
    assert ORDER == inside.steps(name)[0].progress


def test_a_progress_that_is_no_json_is_a_defect_of_the_driver(inside, cleaning, monkeypatch):
    _, name = cleaning
    call = lambda target, _step: partial(target.keep_progress, {"order": object()})  # noqa: E731
    monkeypatch.setattr(attempts, "call_of", call)
    run(inside, name)
    error = inside.operation(name).error
    assert "defect" == error["code"]
    assert "progress" in error["message"]


def test_a_message_with_the_name_of_another_node_claims_nothing(inside, cleaning):
    """The lease is that of the named node, so another conductor could use the machine meanwhile."""
    _, name = cleaning
    other = inside.read(inside.node("manageable"))
    message = inside.message(name)
    attempts.run(inside.claimant, replace(message, node=other.uuid))
    assert ("queued", 0, -1) == (
        inside.operation(name).state,
        inside.operation(name).cursor,
        inside.operation(name).claimed,
    )
    assert [0, 0, 0] == [step.attempts for step in inside.steps(name)]
    attempts.run(inside.claimant, message)
    assert 1 == inside.operation(name).cursor


def test_a_claim_of_another_conductor_is_not_used(inside, cleaning):
    _, name = cleaning
    assert claims.claim(inside.claimant, name, 1, 0)
    assert claims.claim(inside.claimant, name, 1, 0) is None


def leave(inside):
    """Drain the conductor, as a stop signal does."""
    with inside.runtime.transaction() as session:
        conductors.mark_offline(session, inside.claimant.name, inside.claimant.incarnation)
    inside.claimant.draining.set()


def test_a_draining_conductor_completes_its_step_and_redispatches_the_next_at_once(
    inside, cleaning, monkeypatch
):
    node, name = cleaning
    other, real = inside.conductor("c-2"), attempts.call_of

    def drained_meanwhile(target, step):
        leave(inside)
        return real(target, step)

    with monkeypatch.context() as patch:
        patch.setattr(attempts, "call_of", drained_meanwhile)
        attempts.run(inside.claimant, inside.message(name))
    operation = inside.operation(name)
    assert ("queued", 1, 2) == (operation.state, operation.cursor, operation.fence)
    message = inside.messages[-1]
    assert ("c-2", 2, 1) == (message.conductor, message.fence, message.cursor)
    inside.deliver(other, message)
    assert "available" == inside.read(node.id).provision_state
    assert [(1, 0)] * 3 == [(step.attempts, step.deaths) for step in inside.steps(name)]


@pytest.mark.parametrize("way", ["taken from its queue", "still in its queue"])
def test_the_queued_operations_of_a_draining_conductor_go_to_another(inside, cleaning, way):
    _, name = cleaning
    inside.conductor("c-2")
    leave(inside)
    if way == "taken from its queue":
        attempts.run(inside.claimant, inside.message(name))
    else:
        drain.redispatch_all(inside.claimant)
    operation = inside.operation(name)
    assert ("queued", 0, 2) == (operation.state, operation.cursor, operation.fence)
    assert ("c-2", 2) == (inside.messages[-1].conductor, inside.messages[-1].fence)
    drain.redispatch_all(inside.claimant)
    assert 2 == len(inside.messages), "it is redispatched only once"


def test_a_deleted_operation_does_not_end_a_drain(inside, cleaning):
    leave(inside)
    drain.redispatch(inside.claimant, "deleted with its node")
    assert 1 == len(inside.messages)


def test_an_operation_redispatched_while_its_lease_was_held_is_sent_once_more(inside, cleaning):
    _, name = cleaning
    inside.conductor("c-2")
    leave(inside)
    drain.redispatch_all(inside.claimant)
    drain.redispatch(inside.claimant, name)  # by the thread that has released the lease
    assert [2, 2] == [message.fence for message in inside.messages[1:]]
    inside.change(Operation, name, state="running")
    drain.redispatch(inside.claimant, name)
    assert 3 == len(inside.messages)


def test_an_operation_redispatched_right_before_its_claim_is_sent_once_more(
    inside, cleaning, monkeypatch
):
    """The next owner has dropped the message of the drain, as this thread held the lease."""
    node, name = cleaning
    other, real = inside.conductor("c-2"), claims.claim
    sent_before = []

    def drained_meanwhile(*arguments):
        leave(inside)
        drain.redispatch_all(inside.claimant)
        return real(*arguments)

    class Watched(type(inside.claimant.leases)):
        def give_back(self, lease):
            sent_before.append(len(inside.messages))

    inside.claimant.leases = Watched()

    with monkeypatch.context() as patch:
        patch.setattr(claims, "claim", drained_meanwhile)
        assert attempts.run(inside.claimant, inside.message(name)) is None
    assert [("c-1", 1), ("c-2", 2), ("c-2", 2)] == [
        (message.conductor, message.fence) for message in inside.messages
    ]
    assert [2] == sent_before, "the lease is given back before the last message"
    inside.deliver(other, inside.messages[-1])
    assert "available" == inside.read(node.id).provision_state


def test_the_last_draining_conductor_leaves_its_operations_queued(inside, cleaning):
    node, name = cleaning
    leave(inside)
    run(inside, name)
    operation = inside.operation(name)
    assert ("queued", None) == (operation.state, operation.sent_to)
    assert inside.read(node.id).reservation
    assert 1 == len(inside.messages)


def test_an_abort_requested_during_a_step_takes_effect_at_its_end(inside, cleaning):
    _, name = cleaning
    attempt = claims.claim(inside.claimant, name, 1, 0)
    inside.change_step(name, 0, abort_after=True)
    assert not claims.advance(inside.claimant, attempt, {})
    assert "running" == inside.operation(name).state


def test_all_queued_operations_are_sent_again_in_batches(inside, monkeypatch):
    monkeypatch.setattr(reconciler, "BATCH", 2)
    inside.conductor("c-1")
    names = [inside.request(inside.node(), "manage") for _ in range(5)]
    inside.messages.clear()
    assert 5 == reconciler.resend_all(inside.runtime)
    assert names == [message.operation for message in inside.messages]


def test_a_claimed_row_is_an_instance_of_its_model_and_equals_the_row_of_a_session(
    inside, cleaning
):
    _, name = cleaning
    attempt = claims.claim(inside.claimant, name, 1, 0)
    with inside.runtime.reading() as session:
        row = session.query(Operation).filter_by(uuid=name).one()
        step = operations.current_step(session, row)
        for kind, ours, theirs in (
            (Operation, attempt.operation, row),
            (OperationStep, attempt.step, step),
        ):
            assert type(ours) is kind
            assert inspect(ours).transient
            names = kind.__table__.columns.keys()
            assert [getattr(theirs, column) for column in names] == [
                getattr(ours, column) for column in names
            ]
        assert step.label == attempt.step.label


def test_a_failed_operation_is_a_warning_with_node_reason_request_and_user(
    inside, cleaning, monkeypatch
):
    node, name = cleaning
    inside.change(Node, node.id, name="rack1-u04")
    inside.change(Operation, name, requested_by="bob", request_id="req-7")
    monkeypatch.setattr(
        attempts, "call_of", lambda *_: lambda: Failed("the BMC said no", "refused")
    )
    with capture_logs() as logged:
        run(inside, name)
    (event,) = (entry for entry in logged if entry["event"].startswith("operation."))
    assert {
        "event": "operation.failed", "log_level": "warning", "operation": name,
        "node": node.uuid, "name": "rack1-u04", "kind": "provide", "code": "refused",
        "reason": "the BMC said no", "failed_in": CLEANING[0], "request_id": "req-7", "user": "bob",
    } == event  # fmt: skip
    (acted, *_) = (entry for entry in logged if entry["event"] == "step.acted")
    assert ("failed", "refused", "the BMC said no") == (
        acted["outcome"], acted["code"], acted["reason"]
    )  # fmt: skip


def test_a_successful_operation_is_no_warning(inside, cleaning):
    _, name = cleaning
    with capture_logs() as logged:
        run(inside, name)
    assert [("operation.ended", "info")] == [
        (entry["event"], entry["log_level"])
        for entry in logged
        if entry["event"].startswith("operation.")
    ]


def test_the_log_of_a_step_names_its_node_operation_and_request(inside, cleaning, monkeypatch):
    node, name = cleaning
    inside.change(Operation, name, request_id="req-7")
    bound = []
    monkeypatch.setattr(attempts, "call_of", lambda *_: lambda: bound.append(get_contextvars()))
    run(inside, name)
    facts = {"node": node.uuid, "operation": name, "step": CLEANING[0], "request_id": "req-7"}
    assert facts == bound[0]
