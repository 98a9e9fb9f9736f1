"""The reconciler dispatches operations that no conductor drives, and no others."""

import pytest

from app.db.clock import after
from app.errors import Unavailable
from app.models import Conductor, Operation
from drivers.core.steps import Done
from workers.conductor import recording
from workers.periodic import reconciler
from workers.periodic.database_contact import Contact

from .conftest import TRUSTED, claim, reconcile


def test_an_unclaimed_message_is_sent_again_at_growing_intervals(inside, cleaning):
    _, name = cleaning
    interval = inside.settings.conductor.resend_after
    assert {} == reconcile(inside)
    for sends, patience in [(1, interval), (2, 2 * interval), (3, 4 * interval), (9, 60)]:
        inside.change(Operation, name, sends=sends, sent_at=after(-0.6 * patience))
        assert {} == reconcile(inside)
        inside.change(Operation, name, sends=sends, sent_at=after(-1 - patience))
        assert {"resent": 1} == reconcile(inside)
    assert [(name, 1, 0)] * 5 == [(m.operation, m.fence, m.cursor) for m in inside.messages]


def test_no_connection_is_held_while_the_broker_answers(inside, cleaning):
    counts = []

    def backlog(_conductor):
        counts.append(inside.runtime.engine.pool.checkedout())
        return 0

    reconciler.reconcile(inside.runtime, TRUSTED, backlog)
    assert [0] == counts


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
        counters = reconciler.reconcile(inside.runtime, TRUSTED, backlog.__getitem__)
        assert expected == {counter: n for counter, n in counters.items() if n}
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
    assert "c-2" == inside.messages[-1].conductor
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
    assert {"c-2"} == {message.conductor for message in inside.messages[-2:]}
    assert {name, later} == {message.operation for message in inside.messages[-2:]}


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
        inside.messages[-1].conductor, *[getattr(inside.messages[-1], field) for field in ("operation", "fence", "cursor")]
    )  # fmt: skip
    assert "c-2" == inside.read(node).reservation


def test_a_reconciler_that_lost_contact_declares_no_conductor_dead(inside, cleaning):
    claim(inside, inside.claimant, cleaning[1])
    inside.conductor("c-2")
    inside.change(Conductor, "c-1", heartbeat_at=after(-16))
    clock = iter([100, 100, 114, 116, 136]).__next__  # values at the start and at each pass
    contact = Contact(15, clock)
    assert [{}, {}, {"taken_over": 1}] == [reconcile(inside, contact) for _ in range(3)]
    claim(inside, inside.claimant, cleaning[1])
    assert {} == reconcile(
        inside, contact
    )  # a gap of a whole timeout: the heartbeats prove nothing


def test_a_new_registration_of_a_name_orphans_the_old_claims_at_once(inside, cleaning):
    claim(inside, inside.claimant, cleaning[1])
    inside.conductor("c-1")
    assert {"taken_over": 1} == reconcile(inside, Contact(15))


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
    row = inside.read(node)
    assert ("clean failed", True, cause) == (
        row.provision_state, row.maintenance, row.last_error
    )  # fmt: skip
    assert row.reservation is None


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
    assert ("queued", 4) == (inside.operation(name).state, inside.messages[-1].fence)


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
