"""The reconciler dispatches operations that no conductor drives, and no others."""

from contextlib import nullcontext

import pytest
from sqlalchemy import event, update
from sqlalchemy.exc import OperationalError

from app.db.clock import after
from app.engine import dispatch, operations
from app.errors import Unavailable
from app.models import AgentRecord, Conductor, Node, Operation, Watermark
from drivers.core.steps import Done, Wait
from tests.support.redis import breakers
from workers.conductor import claims, recording
from workers.periodic import reconciler, schedule
from workers.restoration import restore

#: Contact with the database long enough to declare conductors dead.
TRUSTED = reconciler.Contact(timeout=0)


def reconcile(inside, contact=TRUSTED):
    """Run one pass; return its counters that are not zero."""
    inside.runtime.cache.clear()
    return {what: n for what, n in reconciler.reconcile(inside.runtime, contact).items() if n}


def claim(inside, claimant, name):
    operation = inside.operation(name)
    attempt = claims.claim(claimant, name, operation.fence, operation.cursor)
    assert attempt
    return attempt


@pytest.fixture
def cleaning(inside):
    """A conductor, c-1, and a node with a newly requested clean: (node, operation)"""
    inside.claimant = inside.conductor("c-1")
    node = inside.node("manageable")
    return node, inside.request(node, "provide")


def test_an_unclaimed_message_is_sent_again_at_growing_intervals(inside, cleaning):
    _, name = cleaning
    first = inside.settings.conductor.resend_after
    assert {} == reconcile(inside)
    for sends, patience in [(1, first), (2, 2 * first), (3, 4 * first), (9, 60)]:
        inside.change(Operation, name, sends=sends, sent_at=after(-0.6 * patience))
        assert {} == reconcile(inside)
        inside.change(Operation, name, sends=sends, sent_at=after(-1 - patience))
        assert {"resent": 1} == reconcile(inside)
    assert [(name, 1, 0)] * 5 == [(m.operation, m.fence, m.cursor) for m in inside.sent]


def test_no_connection_is_held_while_the_broker_answers(inside, cleaning):
    held = []

    def backlog(_conductor):
        held.append(inside.runtime.engine.pool.checkedout())
        return 0

    reconciler.reconcile(inside.runtime, TRUSTED, backlog)
    assert [0] == held


def test_the_message_of_a_next_step_is_sent_again_when_it_is_old(inside, cleaning):
    _, name = cleaning
    recording._record(inside.claimant, claim(inside, inside.claimant, name), Done())
    assert ("queued", 1) == (inside.operation(name).state, inside.operation(name).cursor)
    assert inside.steps(name)[0].finished_at
    assert {} == reconcile(inside)
    inside.change(Operation, name, sent_at=after(-1 - inside.settings.conductor.resend_after))
    assert {"resent": 1} == reconcile(inside)


def test_a_message_in_the_queue_of_a_busy_conductor_is_not_sent_again(inside, cleaning):
    inside.change(Operation, cleaning[1], sent_at=after(-30))
    for backlog, expected in [({"c-1": 1}, {}), ({"c-1": 0}, {"resent": 1})]:
        done = reconciler.reconcile(inside.runtime, TRUSTED, backlog.__getitem__)
        assert expected == {what: n for what, n in done.items() if n}
    inside.change(Operation, cleaning[1], sent_at=after(-61))
    assert 1 == reconciler.reconcile(inside.runtime, TRUSTED, lambda _: 1)["resent"]


def test_a_message_to_an_earlier_incarnation_is_sent_again_at_once(inside, cleaning):
    reborn = inside.conductor("c-1")
    assert {"resent": 1} == reconcile(inside)
    assert reborn.incarnation == inside.operation(cleaning[1]).sent_to
    assert {} == reconcile(inside)


def test_a_message_to_a_draining_conductor_goes_to_another(inside, cleaning):
    inside.conductor("c-2")
    inside.change(Conductor, "c-1", online=False)
    assert {"resent": 1} == reconcile(inside)
    assert "c-2" == inside.sent[-1].conductor
    assert "c-2" == inside.read(cleaning[0]).reservation


def test_an_operation_without_a_suitable_conductor_waits_for_one(inside, cleaning):
    node, name = cleaning
    inside.change(Conductor, "c-1", online=False)
    reconcile(inside)
    assert inside.operation(name).sent_at is None
    assert inside.read(node).reservation
    later = inside.request(inside.node(), "manage")
    assert "queued" == inside.operation(later).state
    with pytest.raises(Unavailable):
        inside.request(inside.node(conductor_group="nobody's"), "manage")
    inside.conductor("c-2")
    reconcile(inside)
    assert {"c-2"} == {message.conductor for message in inside.sent[-2:]}
    assert {name, later} == {message.operation for message in inside.sent[-2:]}


def test_a_claim_of_a_live_conductor_is_left_alone(inside, cleaning):
    claim(inside, inside.claimant, cleaning[1])
    assert {} == reconcile(inside)


def test_a_claim_of_a_silent_conductor_is_taken_over(inside, cleaning):
    node, name = cleaning
    claim(inside, inside.claimant, name)
    inside.conductor("c-2")
    inside.change(Conductor, "c-1", heartbeat_at=after(-16))
    assert {"taken_over": 1} == reconcile(inside)
    operation, step = inside.operation(name), inside.steps(name)[0]
    assert ("queued", 2, 0) == (operation.state, operation.fence, operation.cursor)
    assert 1 == step.deaths
    assert ("c-2", name, 2, 0) == (
        inside.sent[-1].conductor, *[getattr(inside.sent[-1], each) for each in ("operation", "fence", "cursor")]
    )  # fmt: skip
    assert "c-2" == inside.read(node).reservation


def test_a_reconciler_that_lost_contact_declares_no_conductor_dead(inside, cleaning):
    claim(inside, inside.claimant, cleaning[1])
    inside.conductor("c-2")
    inside.change(Conductor, "c-1", heartbeat_at=after(-16))
    clock = iter([100, 100, 114, 116, 136]).__next__  # values at the start and at each pass
    contact = reconciler.Contact(15, clock)
    assert [{}, {}, {"taken_over": 1}] == [reconcile(inside, contact) for _ in range(3)]
    claim(inside, inside.claimant, cleaning[1])
    assert {} == reconcile(
        inside, contact
    )  # a gap of a whole timeout: the heartbeats prove nothing


def test_a_new_registration_of_a_name_orphans_the_old_claims_at_once(inside, cleaning):
    claim(inside, inside.claimant, cleaning[1])
    inside.conductor("c-1")
    assert {"taken_over": 1} == reconcile(inside, reconciler.Contact(15))


def test_a_claim_of_a_new_conductor_is_not_an_orphan(inside, cleaning):
    _, name = cleaning
    act = reconciler._take_over(reconciler.conductors.registered_incarnations)
    reborn = inside.conductor("c-1")
    attempt = claim(inside, reborn, name)
    assert not reconciler._each(inside.runtime, act, attempt.operation.id)
    assert 1 == inside.operation(name).fence


def test_a_call_beyond_its_limit_is_taken_over_from_a_live_conductor(inside, cleaning):
    _, name = cleaning
    attempt = claim(inside, inside.claimant, name)
    inside.change(Operation, name, deadline_at=after(-1))
    assert {"taken_over": 1} == reconcile(inside)
    assert recording._record(inside.claimant, attempt, Done()) is None
    assert 1 == inside.operation(name).refused


def test_a_step_that_kills_three_conductors_fails_with_that_reason(inside, cleaning):
    node, name = cleaning
    for _ in range(3):
        claim(inside, inside.claimant, name)
        inside.claimant = inside.conductor("c-1")
        assert {"taken_over": 1} == reconcile(inside)
    operation = inside.operation(name)
    assert ("failed", "conductor_died") == (operation.state, operation.error["code"])
    cause = "deploy.prepare_cleaning: the conductor died 3 times while it ran"
    found = inside.read(node)
    assert ("clean failed", True, cause) == (
        found.provision_state, found.maintenance, found.last_error
    )  # fmt: skip
    assert found.reservation is None


def test_a_step_that_hangs_three_times_fails_and_is_cleaned_up_after(inside):
    claimant = inside.conductor("c-1")
    node = inside.node("manageable", deploy_interface="direct", boot_interface="fake")
    name = inside.request(node, "provide")
    for _ in range(3):
        claim(inside, claimant, name)
        inside.change(Operation, name, deadline_at=after(-1))
        assert {"taken_over": 1} == reconcile(inside)
    hung, cleanup = inside.steps(name)[0], inside.steps(name)[inside.operation(name).cursor]
    assert (hung.error, "tidy") == (
        f"{hung.label}: its deadline passed 3 times while it ran", cleanup.source
    )  # fmt: skip
    assert ("queued", 4) == (inside.operation(name).state, inside.sent[-1].fence)


def test_a_step_that_needs_a_new_agent_resumes_at_the_boot(inside):
    claimant = inside.conductor("c-1")
    node = inside.node("manageable", deploy_interface="direct", boot_interface="fake")
    name = inside.request(node, "provide")
    steps = inside.steps(name)
    boot = next(row.position for row in steps if row.label == "boot.prepare_ramdisk")
    for position in range(boot + 3):
        inside.change_step(name, position, state="done")
    inside.change_step(name, boot + 2, state="running", resume="restart", progress={"booted": 1})
    inside.change(Operation, name, cursor=boot + 2, claimed=boot + 1)
    claim(inside, claimant, name)
    inside.conductor("c-1")
    assert {"taken_over": 1} == reconcile(inside)
    assert boot == inside.operation(name).cursor
    assert ["pending"] * 3 == [row.state for row in inside.steps(name)[boot : boot + 3]]
    assert {} == inside.steps(name)[boot + 2].progress


def test_a_step_that_needs_a_new_agent_resumes_at_the_first_step_if_none_boots_it(inside):
    claimant = inside.conductor("c-1")
    node = inside.node("manageable")
    name = inside.request(node, "provide")
    assert "boot.prepare_ramdisk" not in [row.label for row in inside.steps(name)]
    inside.change_step(name, 0, state="done")
    inside.change_step(name, 1, state="running", resume="restart")
    inside.change(Operation, name, cursor=1, claimed=0)
    claim(inside, claimant, name)
    inside.conductor("c-1")
    assert {"taken_over": 1} == reconcile(inside)
    assert 0 == inside.operation(name).cursor
    assert {"pending"} == {row.state for row in inside.steps(name)}


@pytest.fixture
def orphans(inside):
    """UUIDs of five operations with a dead conductor, the oldest claim first."""
    dead = inside.conductor("c-1")
    names = [inside.request(inside.node("manageable"), "provide") for _ in range(5)]
    for age, name in enumerate(names):  # in the order of their due times, not of their ids
        claim(inside, dead, name)
        inside.change(Operation, name, deadline_at=after(600 - age))
    inside.conductor("c-2")
    inside.change(Conductor, "c-1", heartbeat_at=after(-16))
    inside.sent.clear()
    return names[::-1]


def test_a_pass_takes_operations_over_in_batches(inside, orphans, monkeypatch):
    monkeypatch.setattr(reconciler, "TOGETHER", 2)
    assert {"taken_over": 5} == reconcile(inside)
    assert sorted(orphans) == sorted(message.operation for message in inside.sent)
    assert [2] * 5 == [inside.operation(name).fence for name in orphans]
    assert {} == reconcile(inside)


def test_a_limited_pass_takes_over_the_oldest(inside, orphans, monkeypatch):
    monkeypatch.setattr(reconciler, "BATCH", 2)
    assert {"taken_over": 2} == reconcile(inside)
    assert orphans[:2] == [message.operation for message in inside.sent]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)  # PostgreSQL's are concurrent
def test_the_batches_of_all_actions_are_interleaved(inside, monkeypatch):
    begun = []
    monkeypatch.setattr(reconciler, "TOGETHER", 1)
    monkeypatch.setattr(
        reconciler, "_each", lambda _runtime, act, *ids: begun.append((act, *ids)) or 1
    )
    todo = [("woken", "wake", [1, 2]), ("expired", "expire", [3, 4])]
    assert {"woken": 2, "expired": 2} == reconciler._do(inside.runtime, todo)
    assert [{1, 3}, {2, 4}] == [{number for _, number in begun[at : at + 2]} for at in (0, 2)]


def test_an_operation_that_cannot_be_driven_delays_no_other(inside, orphans, monkeypatch):
    monkeypatch.setattr(reconciler, "TOGETHER", 2)
    inside.change(Operation, orphans[1], cursor=99)  # there is no such step
    assert {"taken_over": 4} == reconcile(inside)
    assert ("running", 1) == (
        inside.operation(orphans[1]).state, inside.operation(orphans[1]).fence
    )  # fmt: skip


def test_a_node_locked_by_another_transaction_is_left_to_the_next_pass(inside, orphans):
    if inside.runtime.engine.dialect.name == "sqlite":
        return  # SQLite has one writer, and no row locks
    other = inside.another()
    with other.runtime.transaction() as session:
        operations.lock(session, inside.operation(orphans[0]).node_id)
        assert {"taken_over": 4} == reconcile(inside)
    other.close()
    assert {"taken_over": 1} == reconcile(inside)


@pytest.mark.parametrize(
    ("orig", "whole"), [("57014", False), ("40P01", False), ("25006", True), ("53100", True)]
)
def test_a_pass_ends_when_the_database_is_unreachable_and_not_when_one_statement_fails(
    inside, orphans, monkeypatch, orig, whole
):
    error = Exception("no")
    error.sqlstate = orig
    failed = []
    real = dispatch.dispatch

    def hand_out(session, node, operation, event):
        if operation.uuid == orphans[0]:
            failed.append(1)
            raise OperationalError("UPDATE", None, error)
        real(session, node, operation, event)

    monkeypatch.setattr(dispatch, "dispatch", hand_out)
    with pytest.raises(OperationalError) if whole else nullcontext():
        assert {"taken_over": 4} == reconcile(inside)
    assert failed


def wait(inside, name, outcome):
    attempt = claim(inside, inside.claimant, name)
    recording._record(inside.claimant, attempt, outcome)
    assert "waiting" == inside.operation(name).state


def test_a_missed_poll_is_made_up_for(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait({"asked": True}, poll_after=0))
    assert ("clean wait", None) == (
        inside.read(node).provision_state,
        inside.read(node).reservation,
    )
    inside.change(Operation, name, wake_at=after(-1))
    assert {} == reconcile(inside)  # its conductor's wait monitor comes first
    inside.change(Operation, name, wake_at=after(-3))
    assert {"woken": 1} == reconcile(inside)
    assert ("cleaning", "c-1") == (
        inside.read(node).provision_state, inside.read(node).reservation
    )  # fmt: skip
    assert {"asked": True} == claim(inside, inside.claimant, name).step.progress


def test_a_poll_of_a_stopped_conductor_is_made_up_for_when_it_is_due(inside, cleaning):
    _, name = cleaning
    wait(inside, name, Wait({"asked": True}, poll_after=0))
    inside.conductor("c-2")
    inside.change(Operation, name, wake_at=after(-0.1))
    assert {} == reconcile(inside)
    inside.change(Conductor, "c-1", online=False)
    assert {"woken": 1} == reconcile(inside)


def test_a_heartbeat_that_resumed_no_operation_is_made_up_for(inside, cleaning):
    node, name = cleaning
    inside.agent(node)
    wait(inside, name, Wait())
    wait(inside, inside.request(inside.node("manageable"), "provide"), Wait())  # has no agent yet
    assert {} == reconcile(inside)
    for age, made_up_for in [(-30, {}), (3, {"called": 1})]:  # the heartbeat itself comes first
        with inside.runtime.transaction() as session:
            agent = session.get_one(AgentRecord, node)
            agent.heartbeats, agent.last_heartbeat_at = 2, after(-age)
        assert made_up_for == reconcile(inside)


def test_a_wait_of_a_flow_without_a_wait_state_ends_at_its_deadline(inside):
    inside.claimant = inside.conductor("c-1")
    node = inside.node("active")
    name = inside.request(node, "deleted")
    wait(inside, name, Wait())
    assert "deleting" == inside.read(node).provision_state
    inside.change(Operation, name, deadline_at=after(-1))
    assert {"expired": 1} == reconcile(inside)
    assert ("error", "timeout") == (
        inside.read(node).provision_state,
        inside.operation(name).error["code"],
    )


def look(inside, name, seconds=0.0):
    """Poll a machine that is still working, in so many seconds; return the operation."""
    inside.change(Operation, name, wake_at=after(-1000), deadline_at=after(-900))
    assert {"woken": 1} == reconcile(inside)
    attempt = claim(inside, inside.claimant, name)
    attempt.seconds = seconds
    recording._record(inside.claimant, attempt, Wait(poll_after=10, timeout=25))
    return inside.operation(name)


def test_time_without_polls_does_not_count_towards_the_timeout(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait(poll_after=10, timeout=25))
    operation = inside.operation(name)
    left = operation.deadline_at - operation.wake_at
    assert abs(left.total_seconds() - inside.steps(name)[0].remaining) < 1
    for _ in range(2):
        assert "waiting" == look(inside, name).state
    # the third poll was at the end of 10 + 10 + 5 seconds: it was the last
    assert "timeout" == look(inside, name).error["code"]
    assert "the machine did not get there in time" in inside.read(node).last_error


def test_the_duration_of_a_poll_counts_towards_the_timeout(inside, cleaning):
    _, name = cleaning
    wait(inside, name, Wait(poll_after=10, timeout=25))
    assert "waiting" == look(inside, name, seconds=14).state
    assert 1 > inside.steps(name)[0].remaining  # the last poll is in a second
    assert "timeout" == look(inside, name).error["code"]


@pytest.mark.parametrize(("away", "more"), [(600, 600), (14, 0)])
def test_time_without_conductors_does_not_count_towards_the_timeout_of_agents(
    inside, cleaning, away, more
):
    _, name = cleaning
    wait(inside, name, Wait(timeout=40))
    assert {} == reconcile(inside)
    with inside.runtime.transaction() as session:
        restore.advance(session, 0)
    before = inside.operation(name).deadline_at, inside.steps(name)[0].deadline_at
    with inside.runtime.transaction() as session:
        session.execute(update(Watermark).values(raised_at=after(-away)))
        restore.advance(session, 0)
    later = inside.operation(name).deadline_at, inside.steps(name)[0].deadline_at
    for old, new in zip(before, later, strict=True):
        assert abs(more - (new - old).total_seconds()) < 2


def test_an_agent_without_a_heartbeat_fails_the_node_at_its_deadline(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait())
    assert {} == reconcile(inside)
    inside.change(Operation, name, deadline_at=after(-1))
    assert {"expired": 1} == reconcile(inside)
    found = inside.read(node)
    assert ("clean failed", True, "clean failure") == (
        found.provision_state, found.maintenance, found.fault
    )  # fmt: skip
    assert "Timeout reached" in found.last_error
    assert "timeout" == inside.operation(name).error["code"]


def test_a_heartbeat_of_the_agent_extends_the_deadline(inside, cleaning):
    node, name = cleaning
    inside.agent(node)
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    with inside.runtime.transaction() as session:
        session.get_one(AgentRecord, node).last_heartbeat_at = after(-100)
    assert {"expired": 1} == reconcile(inside)
    assert "waiting" == inside.operation(name).state
    with inside.runtime.reading() as session:
        heartbeat = session.get_one(AgentRecord, node).last_heartbeat_at
    waits = inside.operation(name).deadline_at - heartbeat
    assert abs(waits.total_seconds() - inside.settings.conductor.clean_callback_timeout) < 2
    assert {} == reconcile(inside)


def test_the_agent_of_a_node_in_maintenance_has_no_deadline(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    inside.change(Node, node, maintenance=True)
    assert {} == reconcile(inside)


def test_a_clean_of_a_node_whose_clean_has_failed_has_a_deadline(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    inside.change(Node, node, maintenance=True, fault="clean failure")
    assert {"expired": 1} == reconcile(inside)


@pytest.mark.parametrize("changed", [{"maintenance": True}, {"reservation": "c-2"}])
def test_a_wait_that_must_not_expire_has_no_part_in_a_limited_pass(
    inside, cleaning, monkeypatch, changed
):
    monkeypatch.setattr(reconciler, "BATCH", 1)
    node = inside.node("manageable")
    for age, name in enumerate([inside.request(node, "provide"), cleaning[1]]):
        wait(inside, name, Wait())
        inside.change(Operation, name, deadline_at=after(-1 - age))
    inside.change(Node, cleaning[0], **changed)
    assert {"expired": 1} == reconcile(inside)
    assert "clean failed" == inside.read(node).provision_state


@pytest.fixture
def meanwhile(inside, monkeypatch):
    """Function that sets a change of a row, made between the search of a pass and its actions."""
    changes = []

    def reach(point, *_):
        if point == "decided":
            kind, which, columns = changes.pop()
            inside.change(kind, which, **columns)

    monkeypatch.setattr(reconciler.kill_points, "reach", reach)
    return lambda kind, which, **columns: changes.append((kind, which, columns))


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        (Operation, {"state": "queued"}),
        (Operation, {"wake_at": after(60)}),
        (Operation, {"deadline_at": None}),
        (Operation, {"deadline_at": after(60)}),
        (Node, {"reservation": "c-2"}),
        (Node, {"maintenance": True}),
    ],
)
def test_a_wait_that_was_changed_since_it_was_found_does_not_expire(
    inside, cleaning, meanwhile, kind, changed
):
    node, name = cleaning
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    meanwhile(kind, name if kind is Operation else node, **changed)
    assert {} == reconcile(inside)
    assert inside.operation(name).error is None


def test_a_wait_that_keeps_its_node_reserved_expires(inside, cleaning):
    node, name = cleaning
    wait(inside, name, Wait())
    inside.change(Operation, name, deadline_at=after(-1))
    inside.change(Node, node, reservation="c-1", operation_id=inside.operation(name).id)
    assert {"expired": 1} == reconcile(inside)


@pytest.mark.parametrize("changed", [{"state": "waiting"}, {"queue": "clean", "admitted_at": None}])
def test_an_operation_that_was_changed_since_it_was_found_is_not_sent(
    inside, cleaning, meanwhile, changed
):
    inside.change(Operation, cleaning[1], sent_at=None)
    meanwhile(Operation, cleaning[1], **changed)
    assert "resent" not in reconcile(inside)


@pytest.mark.parametrize("changed", [{"state": "waiting"}, {"claimed_by": "live"}])
def test_a_claim_that_was_changed_since_it_was_found_is_not_taken_over(
    inside, orphans, meanwhile, changed
):
    if "claimed_by" in changed:
        changed = {"claimed_by": inside.conductor("c-3").incarnation}
    meanwhile(Operation, orphans[0], **changed)
    assert {"taken_over": 4} == reconcile(inside)
    assert 1 == inside.operation(orphans[0]).fence


def test_the_broker_has_held_no_message_before_the_first_operation(inside):
    node = inside.node("manageable")
    assert not reconciler.has_had_work(inside.runtime)
    inside.conductor("c-1")
    inside.request(node, "provide")
    assert reconciler.has_had_work(inside.runtime)


def test_all_queued_operations_are_sent_again_once_after_redis_was_emptied(
    inside, cleaning, redis_client, redis_url, monkeypatch
):
    from celery import Celery

    monkeypatch.setattr(schedule, "_spaced", lambda _seconds, work: work)
    application = Celery(set_as_current=False)
    application.breakers = breakers(redis_url)
    schedule.register_tasks(application, inside.runtime, "c-1", redis_client)
    reconcile_task = application.tasks[schedule.RECONCILE]
    for sent in (2, 2):
        reconcile_task()
        assert sent == len(inside.sent)
    redis_client.flushall()
    reconcile_task()
    assert 3 == len(inside.sent)


def test_a_pass_without_unfinished_operations_makes_no_further_reads(inside):
    inside.conductor()
    inside.node()
    statements = []

    def note(_connection, _cursor, statement, *_rest):
        statements.append(statement)

    event.listen(inside.runtime.engine, "before_cursor_execute", note)
    try:
        assert {0} == set(reconciler.reconcile(inside.runtime, TRUSTED).values())
        idle = len([each for each in statements if "SELECT" in each])
        inside.request(inside.node("manageable"), "provide")
        statements.clear()
        reconciler.reconcile(inside.runtime, TRUSTED)
    finally:
        event.remove(inside.runtime.engine, "before_cursor_execute", note)
    assert idle <= 2 < len([each for each in statements if "SELECT" in each])
