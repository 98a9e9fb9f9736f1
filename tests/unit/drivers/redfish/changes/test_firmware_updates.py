"""Ends of firmware updates, as the BMC and the machine's state say."""

import re

import pytest

from app.reports.wait_causes import _awaited
from drivers.core.errors import Unreachable
from drivers.core.steps import Done, Failed
from drivers.redfish import software
from drivers.simulator.redfish_bmc.documents import MANAGER, ROOT
from tests.unit.drivers.redfish.scripted import (
    ACCEPTED,
    LOST,
    MISSING,
    MONITOR,
    TASK,
    UPDATE,
    error,
    run,
    task,
)

from .conftest import BIOS, NEW, resets, then, update, updated

RUNNING = (202, {"Location": MONITOR}, None)
#: answers of the followed path in turn -> whether the update succeeds, with the version changed at
#: the last answer
SUCCESSES = {
    "completed": [task(), task("Completed")],
    "with a warning": [task(), task("Completed", "Warning")],
    "monitor 204": [RUNNING, (204, {}, None)],
    "monitor 201": [RUNNING, (201, {}, {"@odata.id": "/redfish/v1/x"})],
    "monitor 200 message": [
        RUNNING,
        (200, {}, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success"}]}),
    ],
    "monitor with a document": [(202, {}, task()[2]), task("Completed")],
    "late job": [MISSING, MISSING, task("Starting"), task("Completed")],
    "lost and found": [task(), MISSING, task(), task("Completed")],
    "deleted at its end": [task(), MISSING],
    "never seen": [MISSING],
    "without a status, and a new version": [task(), task("Completed", None)],
    "unknown state, complete": [task("Resting", None, PercentComplete=100)],
    "a bad read": [task(), error(500), task(), (200, {}, b"<html>"), task("Completed")],
    "busy reads": [RUNNING, error(503), error(429), (204, {}, None)],
}


@pytest.mark.parametrize("answers", SUCCESSES.values(), ids=SUCCESSES.keys())
def test_an_update_that_has_ended_well_succeeds_and_is_ordered_once(bmc, node, answers):
    *earlier_answers, last_answer = answers
    bmc.scripts = {
        ("POST", UPDATE): [ACCEPTED],
        ("GET", TASK): [*earlier_answers, then(updated(bmc), last_answer)],
    }
    outcome, reports = update(node)
    assert Done({"versions": {"bios": "1.1.0"}}) == outcome
    assert 1 == len(bmc.sent("SimpleUpdate"))
    assert ["On"] == [body["ResetType"] for body in resets(bmc)]
    (bios,) = [entry for entry in reports["firmware"] if entry["component"] == "bios"]
    assert "1.1.0" == bios["last_version_flashed"]


FAILURES = {
    "critical": ([task(), task("Completed", "Critical", "bad package")], "failed: Completed: bad"),
    "exception": ([MISSING] * 3 + [task("Exception", "OK", "wrong machine")], "wrong machine"),
    "killed": ([task("Killed", None)], "failed: Killed"),
    "cancelled": ([task(), task("Cancelled", "OK")], "failed: Cancelled"),
    "monitor 400": ([RUNNING, error(400, "not signed")], "failed: not signed"),
    "monitor 500": ([RUNNING, error(500, "no space")], "failed: no space"),
    "monitor 200 with an error": ([RUNNING, (200, {}, error(400, "no fit")[2])], "failed: no fit"),
    "never seen": ([MISSING], "ordered, not confirmed: .*does not have its task.*still 1.0.0"),
    "deleted in mid-run": ([task(), task(), MISSING], "ordered, not confirmed: .*still 1.0.0"),
    "unreadable": ([task(), (200, {}, b"[")], "ordered, not confirmed: the BMC cannot be read"),
    "server errors of a task": ([task(), error(500)], "not confirmed: the BMC cannot be read"),
    "a lost document": ([task(), (200, {}, {})], "not confirmed: the BMC cannot be read"),
}


@pytest.mark.parametrize(("answers", "reason"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failed_or_unconfirmed_update_resets_no_machine(bmc, node, answers, reason):
    bmc.scripts = {("POST", UPDATE): [ACCEPTED], ("GET", TASK): list(answers)}
    outcome, _ = update(node)
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("the update of bios")
    assert re.search(reason, outcome.reason)
    assert 1 == len(bmc.sent("SimpleUpdate"))
    assert [] == resets(bmc)


@pytest.mark.parametrize("path", [f"{ROOT}/TaskService", f"{ROOT}/TaskService/Tasks"])
@pytest.mark.parametrize("document", [{}, {"Members": None, "Tasks": 5}])
def test_an_incomplete_list_of_tasks_is_not_an_empty_one(bmc, node, path, document):
    """Without its task, an update that was accepted at once would count as ended."""

    def accept():
        bmc.scripts["GET", path] = [(200, {}, document)]
        return 204, {}, None

    bmc.scripts = {("POST", UPDATE): [accept]}
    outcome, _ = update(node)
    assert "was ordered, not confirmed: the BMC cannot be read" in outcome.reason
    assert [] == resets(bmc)


def explained(waits):
    """Return what `why` shows of polls: the awaited event, and the reason; each pair once."""
    pairs = [
        (_awaited(wait.progress), wait.reason)
        for wait in waits
        if wait.poll_after and wait.progress
    ]
    return list(dict.fromkeys(pairs))


def test_each_poll_of_an_update_says_what_it_waits_for_and_why(bmc, node):
    busy, broken = error(503, "not now"), error(500, "out of order")  # a read is repeated once
    bmc.scripts = {
        ("POST", UPDATE): [busy, busy, ACCEPTED],
        ("GET", TASK): [
            task(), broken, broken, task(), MISSING, then(updated(bmc), task("Completed")),
        ],
    }  # fmt: skip
    waits = []
    assert isinstance(update(node, waits=waits)[0], Done)
    pairs = explained(waits)
    subject = "the update of bios"
    assert (f"the BMC to accept {subject}", "503: not now") in pairs
    assert (f"{subject}: task {TASK}", None) in pairs
    assert (f"{subject}: task {TASK}, which the BMC does not show", None) in pairs
    (silent,) = [reason for awaited, reason in pairs if awaited == "the BMC to answer"]
    assert "out of order" in silent
    mute = [wait for wait in waits if (wait.poll_after or 0) >= 1 and not any(*explained([wait]))]
    assert [] == mute


@pytest.mark.parametrize("shows", [True, False])
def test_a_lost_order_and_a_missing_effect_are_explained(bmc, node, shows):
    bmc.scripts = {("POST", UPDATE): [LOST]}
    if shows:
        bmc.scripts = {("POST", UPDATE): [ACCEPTED], ("GET", TASK): [task("Completed")]}
    waits = []
    update(node, version="1.1.0", waits=waits)
    pairs = explained(waits)
    if shows:
        assert any((awaited or "").startswith("the new versions: bios was") for awaited, _ in pairs)
    else:
        (reason,) = [reason for awaited, reason in pairs if reason]
        assert reason.startswith("whether the BMC has taken the update of bios is not known")


def test_a_bmc_that_is_silent_after_its_update_is_explained(bmc, node, monkeypatch):
    bmc.scripts = {("POST", UPDATE): [ACCEPTED], ("GET", TASK): [task("Completed")]}
    monkeypatch.setattr(
        software, "components", lambda _bmc: (_ for _ in ()).throw(Unreachable("it restarts"))
    )
    waits = []
    settings = [{"component": "bmc", "url": NEW}]
    run(node, "firmware", "update", settings=settings, waits=waits)
    assert ("the updated BMC to report its versions", "it restarts") in explained(waits)


def test_an_end_without_a_result_and_without_a_new_version_is_no_success(bmc, node):
    bmc.scripts = {("POST", UPDATE): [ACCEPTED], ("GET", TASK): [task("Completed", None)]}
    outcome, _ = update(node)
    assert "ordered, not confirmed: the BMC does not tell how the update of bios" in outcome.reason
    assert "still 1.0.0" in outcome.reason


@pytest.mark.parametrize(("version", "is_right"), [("1.0.0", True), ("1.1.0", False)])
def test_the_version_of_the_image_decides_where_it_is_given(bmc, node, version, is_right):
    """The BMC says success each time, and the version stays 1.0.0."""
    bmc.scripts = {("POST", UPDATE): [ACCEPTED], ("GET", TASK): [task("Completed")]}
    outcome, _ = update(node, version=version)
    if is_right:
        assert Done({"versions": {"bios": "1.0.0"}}) == outcome
    else:
        reason = "bios was updated to 1.1.0, and its version is 1.0.0"
        assert f"firmware was ordered, not confirmed: {reason}" == outcome.reason


@pytest.mark.parametrize(
    ("version", "answers", "is_good"),
    [
        ("1.0.0", [task(), MISSING], True),
        ("1.0.0", [MISSING], False),
        (None, [task(), MISSING], False),
    ],
)
def test_the_same_version_confirms_a_task_that_has_run_only_if_it_is_expected(
    bmc, node, version, answers, is_good
):
    bmc.scripts = {("POST", UPDATE): [ACCEPTED], ("GET", TASK): answers}
    outcome, _ = update(node, **({"version": version} if version else {}))
    assert is_good == isinstance(outcome, Done)
    assert is_good == bool(resets(bmc))


def test_a_lost_update_to_the_present_version_is_not_confirmed_by_it(bmc, node):
    bmc.scripts = {("POST", UPDATE): [LOST]}
    outcome, _ = update(node, version="1.0.0")
    assert "ordered, not confirmed" in outcome.reason
    assert [] == resets(bmc)


def test_a_job_of_the_same_number_that_is_older_is_another_one(bmc, node):
    queue = f"{ROOT}/JobService/Jobs"
    bmc.changes[ROOT] = lambda root: root | {"JobService": {"@odata.id": f"{ROOT}/JobService"}}
    bmc.more |= {
        f"{ROOT}/JobService": {"Jobs": {"@odata.id": queue}},
        queue: {"Members": [{"@odata.id": f"{queue}/1"}]},
        f"{queue}/1": {"@odata.id": f"{queue}/1", "JobState": "Completed"},
    }
    path = f"{ROOT}/TaskService/Tasks/1"
    bmc.scripts = {("POST", UPDATE): [(202, {"Location": path}, None)], ("GET", path): [MISSING]}
    assert "ordered, not confirmed" in update(node)[0].reason


def test_a_version_that_shows_after_the_restart_is_waited_for(bmc, node):
    bmc.scripts = {("POST", UPDATE): [ACCEPTED], ("GET", TASK): [task("Completed", None)]}
    bmc.machine.at_start.append(updated(bmc))
    assert Done({"versions": {"bios": "1.1.0"}}) == update(node)[0]


@pytest.mark.vendor("Dell", "firmware")
@pytest.mark.parametrize(
    "queue", [f"{ROOT}/JobService/Jobs", f"{MANAGER}/Oem/Dell/Jobs", f"{MANAGER}/Jobs"]
)
@pytest.mark.parametrize(
    ("job", "is_good"),
    [
        ({"JobState": "Completed", "Message": "Job completed successfully."}, True),
        ({"JobState": "CompletedWithErrors", "MessageId": "a.1", "Message": "bad"}, False),
        ({"JobState": "Failed", "MessageId": "a.1", "Message": "bad"}, False),
    ],
)
def test_a_missing_task_is_looked_for_in_the_job_queue(bmc, node, queue, job, is_good):
    if "JobService" in queue:
        bmc.changes[ROOT] = lambda root: root | {"JobService": {"@odata.id": f"{ROOT}/JobService"}}
        bmc.more[f"{ROOT}/JobService"] = {"Jobs": {"@odata.id": queue}}
        bmc.more[queue] = {"Members": []}
    job = {"@odata.id": f"{queue}/JID_1", "Id": "JID_1", **job}
    running = {**job, "JobState": "Running"}
    ended = then(updated(bmc), (200, {}, job)) if is_good else (200, {}, job)
    bmc.scripts = {
        ("POST", UPDATE): [ACCEPTED],
        ("GET", TASK): [MISSING],
        ("GET", f"{queue}/JID_1"): [MISSING, (200, {}, running), (200, {}, running), ended],
    }
    outcome, _ = update(node)
    assert is_good == isinstance(outcome, Done)
    assert is_good or "bad" in outcome.reason
    assert is_good == bool(resets(bmc))


STAGED = [
    task("Starting", "OK", EndTime="TIME_NA", Messages=[{"MessageId": "IDRAC.2.8.JCP001"}]),
    (200, {}, {"@odata.id": TASK, "Id": "JID_1", "JobState": "Scheduled"}),
]


@pytest.mark.parametrize("staged", STAGED, ids=["task", "job"])
@pytest.mark.parametrize("end", [task("Completed"), task("Completed", "Critical", "bad")])
def test_an_update_that_waits_for_a_restart_gets_it_and_is_followed(bmc, node, staged, end):
    def look():
        started = bmc.machine.power == "On"
        if started and end[2]["TaskStatus"] == "OK":
            updated(bmc)()
        return end if started else staged

    bmc.scripts = {("POST", UPDATE): [ACCEPTED], ("GET", TASK): [task(), staged, look]}
    outcome, _ = update(node)
    assert ["On"] == [body["ResetType"] for body in resets(bmc)]
    if end[2]["TaskStatus"] == "OK":
        assert Done({"versions": {"bios": "1.1.0"}}) == outcome
    else:
        assert "the update of bios failed: Completed: bad" == outcome.reason


def test_the_pause_that_a_monitor_asks_for_is_kept(bmc, node):
    bmc.scripts = {
        ("POST", UPDATE): [ACCEPTED], ("GET", TASK): [(202, {"Retry-After": "77"}, None)],
    }  # fmt: skip
    outcome, _ = run(node, "firmware", "update", polls=5, settings=BIOS)
    assert 77 == outcome.poll_after
