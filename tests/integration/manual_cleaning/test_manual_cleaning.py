"""Manual cleaning (spec manual-cleaning), in one process."""

import pytest

from tests.integration.harness import Acme, requested

from .conftest import HOLD, POLISH

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
SCRUB = requested("management", "scrub", args={"level": "deep"})


def test_steps_run_in_the_order_given_and_the_node_is_manageable_again(harness):
    node = harness.node()
    assert "manageable" == harness.do(node, "clean", clean_steps=[SCRUB, POLISH, SCRUB])
    assert ["scrub deep", "polish", "scrub deep"] == Acme.did
    operation = harness.last(node)
    assert ("clean", "succeeded") == (operation.kind, operation.state)
    assert ["caller"] * 3 == [row.source for row in harness.steps(node)]


def test_an_explicit_order_of_steps_is_respected(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[{**SCRUB, "order": 2}, {**POLISH, "order": 1}])
    assert ["polish", "scrub deep"] == Acme.did


@pytest.mark.parametrize(
    ("name", "label"),
    [("hold", "deploy.hold"), ("wait", "deploy.wait"), ("reboot", "power.reboot")],
)
def test_a_reserved_step_needs_no_interface(harness, name, label):
    node = harness.node()
    harness.ask(node, "clean", clean_steps=[{"step": name}])
    assert [(label, "pending")] == harness.labels(node)


@pytest.mark.parametrize(
    ("steps", "disable_ramdisk", "complaint"),
    [
        ([POLISH, requested("management", "scrub")], False, "'level' is required and missing"),
        ([POLISH, requested("management", "scrub", args={"level": 1, "x": 1})], False, "no argument 'x'"),
        ([POLISH, requested("management", "nonsense")], False, "no clean step of that name"),
        ([POLISH, requested("vendor", "log_passthrough")], True, "needs the ramdisk"),
        ([POLISH, requested("deploy", "wait", args={"hours": 1})], False, "no argument 'hours'"),
    ],
)  # fmt: skip
def test_an_invalid_step_fails_the_clean_before_any_step(
    harness, steps, disable_ramdisk, complaint
):
    node = harness.node()
    harness.do(node, "clean", clean_steps=steps, disable_ramdisk=disable_ramdisk)
    row = harness.inside.read(node)
    assert ("clean failed", "manageable") == (row.provision_state, row.target_provision_state)
    assert complaint in row.last_error
    assert (True, "clean failure", None) == (row.maintenance, row.fault, row.reservation)
    assert ("failed", "invalid_steps") == (
        harness.last(node).state,
        harness.last(node).error["code"],
    )
    assert [] == Acme.did


def test_a_step_that_refuses_its_argument_keeps_earlier_steps_done(harness):
    node = harness.node()
    wrong = requested("management", "scrub", args={"level": "wrong"})
    assert "clean failed" == harness.do(node, "clean", clean_steps=[POLISH, wrong, POLISH])
    assert ["polish"] == Acme.did
    assert [("management.polish", "done"), ("management.scrub", "failed"),
            ("management.polish", "skipped")] == harness.labels(node)  # fmt: skip
    error = harness.last(node).error
    assert ("bad_argument", "management.scrub", 1) == (
        error["code"], error["step"], error["attempt"]
    )  # fmt: skip
    assert error["cause"]
    assert error["hint"]
    last_error = harness.inside.read(node).last_error
    assert "management.scrub: level 'wrong' is none" == last_error == error["message"]


@pytest.mark.parametrize("verbs", [(), ("manage",)])
def test_clean_failed_is_cleaned_again_in_maintenance_and_success_ends_maintenance(harness, verbs):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "nonsense")])
    for verb in verbs:
        harness.ask(node, verb)
    assert harness.inside.read(node).maintenance
    assert "manageable" == harness.do(node, "clean", clean_steps=[POLISH])
    assert (False, None) == (harness.inside.read(node).maintenance, harness.inside.read(node).fault)


def test_hold_keeps_the_target_manageable_and_unhold_resumes_at_once(harness):
    other, node = harness.node(), harness.node()
    assert "clean hold" == harness.do(other, "clean", clean_steps=[HOLD])
    assert "clean hold" == harness.do(node, "clean", clean_steps=[POLISH, HOLD, SCRUB])
    row = harness.inside.read(node)
    assert ("manageable", None) == (row.target_provision_state, row.reservation)
    assert ("held", None) == (harness.last(node).state, harness.last(node).deadline_at)
    assert "manageable" == harness.do(node, "unhold")
    assert ["polish", "scrub deep"] == Acme.did
    assert "clean hold" == harness.state(other)


def test_a_held_clean_can_be_aborted(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[HOLD, POLISH])
    assert "clean failed" == harness.do(node, "abort")
    row = harness.inside.read(node)
    assert (False, "manageable", None) == (
        row.maintenance, row.target_provision_state, row.reservation
    )  # fmt: skip
    assert "By request" in row.last_error
    assert "aborted" == harness.last(node).state
    assert [] == Acme.did
    assert "manageable" == harness.do(node, "manage")


def test_power_steps_run_in_position(harness):
    node = harness.node(power_state="power on")
    steps = [POLISH, requested("power", "power_off"), SCRUB, requested("power", "reboot"), POLISH]
    assert "manageable" == harness.do(node, "clean", clean_steps=steps)
    assert ["polish", "power off", "scrub deep", "power on", "polish"] == Acme.did


@pytest.mark.parametrize(
    ("args", "seconds"), [({"seconds": 10}, 10), ({"seconds": 3600}, 30), ({}, 30)]
)
def test_the_step_wait_lasts_for_its_time(harness, args, seconds):
    node = harness.node()
    wait = requested("power", "wait", args=args)
    assert "clean wait" == harness.do(node, "clean", clean_steps=[wait, POLISH])
    waits = harness.last(node).wake_at - harness.steps(node)[0].started_at
    assert seconds - 1 < waits.total_seconds() < seconds + 9
    assert "manageable" == harness.poll(node)
    assert ["polish"] == Acme.did


def test_a_running_abortable_step_is_aborted_at_once(harness):
    node = harness.node()
    assert "clean wait" == harness.do(
        node, "clean", clean_steps=[requested("management", "stroll"), POLISH]
    )
    assert "clean failed" == harness.do(node, "abort")
    assert [("management.stroll", "aborted"), ("management.polish", "skipped")] == harness.labels(
        node
    )


def test_a_running_step_that_cannot_be_aborted_ends_first(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "crawl"), POLISH])
    assert "clean wait" == harness.do(node, "abort")
    assert harness.steps(node)[0].abort_after
    assert "clean failed" == harness.poll(node)
    assert ["crawl"] == Acme.did
    assert [("management.crawl", "done"), ("management.polish", "skipped")] == harness.labels(node)
    assert (False, "aborted") == (harness.inside.read(node).maintenance, harness.last(node).state)


def test_a_transient_error_is_retried_and_shown(harness):
    node = harness.node()
    Acme.unreachable = 2
    flicker = requested("management", "flicker")
    assert "clean wait" == harness.do(node, "clean", clean_steps=[flicker, POLISH])
    assert "clean wait" == harness.poll(node)
    assert "manageable" == harness.poll(node)
    row = harness.steps(node)[0]
    assert (3, 2, "no answer", "done") == (row.attempts, row.faults, row.error, row.state)
    assert 3 == row.attempt


def test_a_wait_is_part_of_the_attempt_that_waits(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "crawl"), POLISH])
    assert "manageable" == harness.poll(node)
    crawl, polish = harness.steps(node)
    assert [(2, 1), (1, 1)] == [(step.attempts, step.attempt) for step in (crawl, polish)]


def test_a_persistent_error_fails_the_step_after_its_retries(harness):
    node = harness.node()
    Acme.unreachable = 9
    harness.do(node, "clean", clean_steps=[requested("management", "flicker")])
    assert ["clean wait", "clean failed"] == [harness.poll(node), harness.poll(node)]
    assert (3, "unreachable") == (
        harness.last(node).error["attempt"],
        harness.last(node).error["code"],
    )


def test_a_step_may_have_a_deadline_of_its_own(harness):
    node = harness.node()
    harness.do(node, "clean", clean_steps=[requested("management", "stroll")])
    row, operation = harness.steps(node)[0], harness.last(node)
    assert row.deadline_at == operation.deadline_at
    assert 0 < (row.deadline_at - row.started_at).total_seconds() < 9
