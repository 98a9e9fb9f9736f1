"""Orders to a BMC: each is sent once, and ends as the BMC and the machine's state say."""

import re
from dataclasses import replace

import pytest

from app.reports.why import _awaited
from drivers.core.errors import Busy, HardwareError, Unreachable
from drivers.core.steps import Done, Failed
from drivers.redfish import client, errors, orders, software, tasks
from drivers.redfish.client import Reply
from drivers.redfish.orders import Result
from drivers.redfish.tasks import ANSWERS, JOBS, STATUSES, TASKS, Content, End, Seen
from drivers.simulator.documents import INVENTORY, MANAGER, ROOT, SYSTEM
from tests.unit.drivers.documents import sweep_of
from tests.unit.drivers.redfish.scripted import (
    ACCEPTED,
    LOST,
    MISSING,
    MONITOR,
    TASK,
    UPDATE,
    Died,
    ScriptedBmc,
    error,
    run,
    task,
)

NEW = "http://images/1.1.0.bin"
BIOS = [{"component": "bios", "url": NEW}]
RUNNING = (202, {"Location": MONITOR}, None)


@pytest.fixture
def bmc(monkeypatch):
    return ScriptedBmc().install(monkeypatch)


@pytest.fixture
def node(bmc):
    return bmc.node(uuid=bmc.machine.uuid)


# The tables


def test_the_table_of_task_states_has_all_states_of_redfish():
    under_way = {
        "New", "Starting", "Running", "Suspended", "Interrupted", "Pending", "Stopping", "Service",
        "Cancelling",
    }  # fmt: skip
    failed = {"Killed", "Exception", "Cancelled"}
    assert {*under_way, *failed, "Completed", tasks.OTHER, tasks.OTHER_COMPLETE} == set(TASKS)
    assert {(End.RUNNING,) * 4} == {TASKS[state] for state in under_way}
    assert {(End.FAILED,) * 4} == {TASKS[state] for state in failed}
    assert (End.SUCCEEDED, End.SUCCEEDED, End.FAILED, End.UNCLEAR) == TASKS["Completed"]


def document_of(state, status, kind):
    document = {f"{kind}State": state, f"{kind}Status": status}
    if state == tasks.OTHER:
        document[f"{kind}State"] = "Resting"
    elif state == tasks.OTHER_COMPLETE:
        document |= {f"{kind}State": None, "PercentComplete": 100}
    return document


@pytest.mark.parametrize(
    ("kind", "table", "content"),
    [("Task", TASKS, Content.TASK), ("Job", JOBS, Content.JOB)],
)
def test_each_cell_of_a_table_of_states_is_the_end_of_such_a_document(kind, table, content):
    for state, ends in table.items():
        for status, expected in zip(STATUSES, ends, strict=True):
            document = document_of(state, status or None, kind)
            assert expected is tasks.end_of(document, content), (state, status)
            assert content is tasks.content_of(document, TASK)


@pytest.mark.parametrize(
    ("status", "content", "seen", "expected"),
    [
        (202, Content.NOTHING, Seen.NOTHING, End.RUNNING),
        (202, Content.MESSAGES, Seen.ERROR, End.RUNNING),
        (202, Content.TASK, Seen.RUNNING, "document"),
        (200, Content.TASK, Seen.NOTHING, "document"),
        (200, Content.JOB, Seen.TASK, "document"),
        (200, Content.MESSAGES, Seen.RUNNING, "document"),
        (200, Content.RESOURCE, Seen.RUNNING, End.SUCCEEDED),
        (200, Content.NOTHING, Seen.NOTHING, End.SUCCEEDED),
        (200, Content.RESOURCE, Seen.TASK, End.UNREADABLE),
        (200, Content.OTHER, Seen.RUNNING, End.UNREADABLE),
        (201, Content.RESOURCE, Seen.TASK, End.SUCCEEDED),
        (204, Content.NOTHING, Seen.NOTHING, End.SUCCEEDED),
        (404, Content.MESSAGES, Seen.NOTHING, End.MISSING),
        (410, Content.NOTHING, Seen.TASK, End.MISSING),
        (404, Content.MESSAGES, Seen.ERROR, End.FAILED),
        (401, Content.MESSAGES, Seen.RUNNING, End.UNREADABLE),
        (503, Content.MESSAGES, Seen.ERROR, End.UNREADABLE),
        (400, Content.MESSAGES, Seen.RUNNING, End.FAILED),
        (409, Content.NOTHING, Seen.NOTHING, End.FAILED),
        (400, Content.MESSAGES, Seen.TASK, End.UNREADABLE),
        (500, Content.MESSAGES, Seen.RUNNING, End.UNREADABLE),
        (500, Content.MESSAGES, Seen.ERROR, End.FAILED),
        (500, Content.MESSAGES, Seen.TASK, End.UNREADABLE),
        (500, Content.NOTHING, Seen.ERROR, End.UNREADABLE),
        (302, Content.NOTHING, Seen.NOTHING, End.UNREADABLE),
    ],
)
def test_an_answer_about_a_task_has_one_meaning(status, content, seen, expected):
    assert expected == tasks.end(status, content, seen, lambda: "document")


def test_the_end_time_of_a_running_task_of_an_idrac_is_no_end():
    document = {"TaskState": "Odd", "EndTime": "TIME_NA"}
    assert End.RUNNING is tasks.end_of(document, Content.TASK)
    ended = {"TaskState": "Odd", "EndTime": "2026-01-01T00:00:00Z"}
    assert End.UNCLEAR is tasks.end_of(ended, Content.TASK)


def test_each_row_of_the_table_of_answers_is_reached():
    cells = [
        (status, content, seen)
        for status in range(100, 600)
        for content in Content
        for seen in Seen
    ]
    first = {
        next(
            number
            for number, row in enumerate(ANSWERS)
            if status in row.statuses
            and (row.contents is None or content in row.contents)
            and (row.seen is None or seen in row.seen)
        )
        for status, content, seen in cells
    }
    assert set(range(len(ANSWERS))) == first


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"error": {"code": "Base.1.8.Success", "message": "Done"}}, End.SUCCEEDED),
        ({"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success"}]}, End.SUCCEEDED),
        ({"@Message.ExtendedInfo": [{"MessageId": "a.b", "Severity": "Warning"}]}, End.SUCCEEDED),
        ({"@Message.ExtendedInfo": [{"MessageId": "a.b", "MessageSeverity": "Critical"}]}, End.FAILED),
        ({"error": {"code": "Base.1.8.GeneralError", "message": "No"}}, End.FAILED),
        ({"@Message.ExtendedInfo": [{"MessageId": "a.b", "Message": "Hm"}]}, End.UNCLEAR),
    ],
)  # fmt: skip
def test_a_monitor_that_ends_with_messages_is_judged_by_them(document, expected):
    assert Content.MESSAGES is tasks.content_of(document, MONITOR)
    assert expected is tasks.end_of(document, Content.MESSAGES)


# Answers to orders


@pytest.mark.parametrize(
    ("reply", "result", "paths"),
    [
        (Reply(202, None, MONITOR), Result.TASK, (MONITOR,)),
        (Reply(202, None, f"https://10.0.0.1:8443{MONITOR}"), Result.TASK, (MONITOR,)),
        (Reply(202, None, "../../TaskService/TaskMonitors/JID_1"), Result.TASK, (MONITOR,)),
        (Reply(202, {"@odata.id": TASK, "TaskState": "New"}, None), Result.TASK, (TASK,)),
        (Reply(202, {"@odata.id": TASK, "TaskState": "New"}, MONITOR), Result.TASK, (TASK, MONITOR)),
        (
            Reply(202, {"@odata.id": TASK, "TaskState": "New", "TaskMonitor": MONITOR}, None),
            Result.TASK, (TASK, MONITOR),
        ),
        (Reply(202, {"@odata.id": TASK}, None), Result.TASK, (TASK,)),
        (Reply(200, {"@odata.id": TASK, "TaskState": "Running"}, None), Result.TASK, (TASK,)),
        (Reply(200, None, TASK), Result.TASK, (TASK,)),
        (Reply(202, None, None), Result.UNKNOWN, ()),
        (Reply(202, [], "http://[bad"), Result.UNKNOWN, ()),
        (Reply(200, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success"}]}), Result.DONE, ()),
        (Reply(201, {"@odata.id": "/redfish/v1/x"}, "/redfish/v1/x"), Result.DONE, ()),
        (Reply(204, None), Result.DONE, ()),
        (Reply(200, error(400)[2]), Result.REFUSED, ()),
        (Reply(400, error(400)[2]), Result.REFUSED, ()),
        (Reply(404, "x"), Result.REFUSED, ()),
        (Reply(501, None), Result.REFUSED, ()),
        (Reply(409, None), Result.BUSY, ()),
        (Reply(503, None), Result.BUSY, ()),
        (Reply(400, error(400, name="iLO.2.14.UnableToModifyDuringSystemPOST")[2]), Result.BUSY, ()),
        (Reply(500, error(500)[2]), Result.UNKNOWN, ()),
        (Reply(504, None), Result.UNKNOWN, ()),
        (Reply(302, None), Result.UNKNOWN, ()),
    ],
)  # fmt: skip
def test_an_answer_to_an_order_has_a_type(reply, result, paths):
    answer = orders.answer_of(reply, UPDATE)
    assert (result, paths) == (answer.result, answer.paths)


@pytest.mark.parametrize("name", errors._BUSY_MESSAGES)
@pytest.mark.parametrize(
    "said",
    [{"MessageId": "Vendor.1.0.{}"}, {"MessageId": "Vendor.1.0.Error", "Message": "{}: not now"}],
)
def test_a_message_of_a_busy_bmc_has_one_meaning_for_reads_and_orders(name, said):
    message = {key: text.format(name) for key, text in said.items()}
    document = {"error": {"code": "x", "message": "no", "@Message.ExtendedInfo": [message]}}
    assert Result.BUSY == orders.answer_of(Reply(400, document), UPDATE).result
    with pytest.MonkeyPatch.context() as patch:
        bmc = ScriptedBmc(scripts={("GET", SYSTEM): [(400, {}, document)]}).install(patch)
        with pytest.raises(Busy):
            bmc.node().driver.power.get_power_state(bmc.node())
        assert Busy is type(sweep_of(bmc.node()))


# Ends of firmware updates


def updated(bmc, version="1.1.0"):
    """Return a turn of a script in which the version changes."""

    def change():
        bmc.machine.firmware["BIOS"] = version

    return change


def then(effect, answer):
    """Return a turn that has an effect before its answer."""

    def turn():
        effect()
        return answer

    return turn


def update(node, waits=None, **more):
    return run(node, "firmware", "update", settings=[{**BIOS[0], **more}], waits=waits)


def resets(bmc):
    return bmc.sent("ComputerSystem.Reset")


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
    *before, last = answers
    bmc.scripts = {
        ("POST", UPDATE): [ACCEPTED],
        ("GET", TASK): [*before, then(updated(bmc), last)],
    }
    outcome, reports = update(node)
    assert Done({"versions": {"bios": "1.1.0"}}) == outcome
    assert 1 == len(bmc.sent("SimpleUpdate"))
    assert ["On"] == [body["ResetType"] for body in resets(bmc)]
    (bios,) = [each for each in reports["firmware"] if each["component"] == "bios"]
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
    shown = [
        (_awaited(wait.progress), wait.reason)
        for wait in waits
        if wait.poll_after and wait.progress
    ]
    return list(dict.fromkeys(shown))


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
    shown = explained(waits)
    subject = "the update of bios"
    assert (f"the BMC to accept {subject}", "503: not now") in shown
    assert (f"{subject}: task {TASK}", None) in shown
    assert (f"{subject}: task {TASK}, which the BMC does not show", None) in shown
    (silent,) = [reason for awaited, reason in shown if awaited == "the BMC to answer"]
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
    shown = explained(waits)
    if shows:
        assert any((awaited or "").startswith("the new versions: bios was") for awaited, _ in shown)
    else:
        (reason,) = [reason for awaited, reason in shown if reason]
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


# Each order is sent once


#: answer to the order -> (whether the step succeeds, words of its failure); the version changes
ANSWERED = {
    "200 message": ((200, {}, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success"}]}), ""),
    "204": ((204, {}, None), ""),
    "200 garbage": ((200, {}, b"<html>"), ""),
    "202 without a task": ((202, {}, None), ""),
    "lost": (LOST, ""),
    "500": (error(500, "oops"), ""),
    "502": ((502, {}, b"<html>"), ""),
    "400": (error(400, "no"), "was not ordered: 400: no"),
    "403": (error(403, "no"), "was not ordered"),
    "501": ((501, {}, None), "was not ordered: 501"),
}


@pytest.mark.parametrize(("answer", "reason"), ANSWERED.values(), ids=ANSWERED.keys())
def test_an_order_is_sent_once_whatever_its_answer(bmc, node, answer, reason):
    effect = (lambda: None) if reason else updated(bmc)
    bmc.scripts = {("POST", UPDATE): [then(effect, answer)]}
    outcome, _ = update(node)
    if reason:
        assert f"the update of bios {reason}" in outcome.reason
        assert [] == resets(bmc)
    else:
        assert isinstance(outcome, Done)
    assert 1 == len(bmc.sent("SimpleUpdate"))


@pytest.mark.parametrize("answer", [LOST, error(500, "oops"), (202, {}, None)])
def test_an_order_without_an_answer_or_an_effect_is_not_confirmed(bmc, node, answer):
    bmc.scripts = {("POST", UPDATE): [answer]}
    outcome, _ = update(node)
    assert outcome.reason.startswith("the update of bios was ordered, not confirmed: ")
    assert "unconfirmed" == outcome.code
    assert (1, []) == (len(bmc.sent("SimpleUpdate")), resets(bmc))


@pytest.mark.parametrize("busy", [error(503), error(409), error(429), Unreachable("no route")])
def test_an_order_that_was_not_sent_or_is_refused_for_now_is_sent_later(bmc, node, busy):
    def raising():
        raise busy

    turn = raising if isinstance(busy, Exception) else busy
    bmc.scripts = {
        ("POST", UPDATE): [turn, turn, ACCEPTED],
        ("GET", TASK): [then(updated(bmc), task("Completed"))],
    }
    assert isinstance(update(node)[0], Done)
    assert 3 == len(bmc.sent("SimpleUpdate"))


def test_an_order_that_is_always_refused_for_now_was_not_ordered(bmc, node):
    bmc.scripts = {("POST", UPDATE): [error(503, "later")]}
    outcome, _ = update(node)
    assert ("the update of bios was not ordered: 503: later", "busy", True) == (
        outcome.reason, outcome.code, outcome.retryable,
    )  # fmt: skip


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_failed_read_before_an_order_says_that_it_was_not_ordered(bmc, node, status):
    bmc.scripts = {("GET", f"{ROOT}/UpdateService"): [error(status)]}
    raised, _ = update(node)
    assert isinstance(raised, HardwareError)
    assert str(raised).startswith("the update of bios was not ordered: ")
    assert [] == bmc.orders


def new_task(bmc, state="Completed", uri=UPDATE, name="JID_9"):
    """Return an effect: the BMC has a new task for an order to this path."""
    path = f"{ROOT}/TaskService/Tasks/{name}"

    def create():
        bmc.more.setdefault(f"{ROOT}/TaskService/Tasks", {"Members": []})["Members"].append(
            {"@odata.id": path}
        )
        bmc.more[path] = task(state, "OK", path=path, Payload={"TargetUri": uri})[2]

    return create


def test_a_lost_order_is_recognised_by_its_task(bmc, node):
    others = new_task(bmc, "Exception", f"{ROOT}/Other", "JID_8")
    bmc.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
    bmc.scripts = {("POST", UPDATE): [then(lambda: (others(), new_task(bmc)()), LOST)]}
    assert isinstance(update(node)[0], Done)
    assert 1 == len(bmc.sent("SimpleUpdate"))


@pytest.mark.parametrize(
    ("state", "is_good"), [("Running", False), ("Completed", True), ("Exception", False)]
)
def test_a_task_that_the_answer_does_not_name_is_followed(bmc, node, state, is_good):
    bmc.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
    bmc.scripts = {("POST", UPDATE): [then(new_task(bmc, state), (204, {}, None))]}
    outcome, _ = run(node, "firmware", "update", polls=100, settings=BIOS)
    assert is_good == isinstance(outcome, Done)
    assert is_good == bool(resets(bmc))


def test_two_new_tasks_that_may_be_the_orders_confirm_nothing(bmc, node):
    bmc.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
    first, second = (new_task(bmc, "Completed", None, name) for name in ("JID_8", "JID_9"))
    bmc.scripts = {("POST", UPDATE): [then(lambda: (first(), second()), LOST)]}
    assert "not confirmed" in update(node)[0].reason


# Deaths of the conductor


KILLED_UPDATE = {"firmware": ("update", {"settings": BIOS}, "SimpleUpdate")}


@pytest.mark.parametrize("number", range(12))
def test_a_death_at_any_call_of_an_update_orders_it_once(bmc, node, number):
    """The outcome of the call is lost after its effect; the BMC lists its tasks."""
    bmc.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
    path = f"{ROOT}/TaskService/Tasks/JID_9"
    accepted = (202, {"Location": path}, None)
    bmc.scripts = {("POST", UPDATE): [then(new_task(bmc), accepted)]}
    outcome, _ = run(node, "firmware", "update", crash=lambda call: call == number, settings=BIOS)
    assert isinstance(outcome, Done)
    assert 1 == len(bmc.sent("SimpleUpdate"))


@pytest.mark.parametrize("sent", [False, True])
def test_a_death_around_an_order_that_leaves_no_trace_is_not_confirmed(bmc, node, sent):
    """Before the request the fence is checked: there, or in the answer, the conductor dies."""
    deaths = iter([True])

    def die(*_):
        if next(deaths, False):
            raise Died

    node = replace(node, before_order=(lambda: None) if sent else die)
    bmc.scripts = {("POST", UPDATE): [then(die if sent else (lambda: None), (204, {}, None))]}
    outcome, _ = update(node)
    assert "was ordered, not confirmed: its answer was not recorded" in outcome.reason
    assert (int(sent), []) == (len(bmc.sent("SimpleUpdate")), resets(bmc))


def test_a_crash_before_the_record_of_an_order_does_not_concern_it(bmc, node):
    bmc.scripts = {
        ("POST", UPDATE): [ACCEPTED], ("GET", TASK): [then(updated(bmc), task("Completed"))],
    }  # fmt: skip
    outcome, _ = run(replace(node, crashes=2, resumed=True), "firmware", "update", settings=BIOS)
    assert isinstance(outcome, Done)


# Targets


def systems(bmc, *names):
    bmc.more[f"{ROOT}/Systems"] = {
        "Members": [{"@odata.id": f"{ROOT}/Systems/{name}"} for name in (bmc.machine.uuid, *names)]
    }


def entries(bmc, **items):
    bmc.more[INVENTORY] = {
        "@odata.id": INVENTORY, "Name": "c",
        "Members": [{"@odata.id": f"{INVENTORY}/{name}"} for name in items],
    }  # fmt: skip
    for name, links in items.items():
        bmc.more[f"{INVENTORY}/{name}"] = {
            "@odata.id": f"{INVENTORY}/{name}", "Id": name, "Name": name.replace("_", " "),
            "Version": "1", "RelatedItem": [{"@odata.id": link} for link in links],
        }  # fmt: skip


def own(bmc):
    return SYSTEM.replace("{id}", bmc.machine.uuid)


def request_of(node, component="bios", **more):
    with client.turn(node, node.driver.power.bmcs) as connection:
        order = software.Update(component, NEW, **more)
        return order.request(connection).body.get("Targets")


OTHER = f"{ROOT}/Systems/Node1"


def test_a_bmc_of_several_systems_gets_the_target_of_this_system(bmc, node):
    systems(bmc, "Node1")
    mine = own(bmc)
    entries(bmc, Node0_BIOS=[mine], Node1_BIOS=[OTHER], BMC=[])
    assert [f"{INVENTORY}/Node0_BIOS"] == request_of(node)
    entries(bmc, BIOS_0=[f"{mine}/Bios"], BIOS_1=[f"{OTHER}/Bios"])
    assert [f"{INVENTORY}/BIOS_0"] == request_of(node)
    entries(bmc, BIOS=[], BIOS_2=[])
    assert [mine] == request_of(node)
    bmc.more[INVENTORY] = {"Members": []}
    assert [mine] == request_of(node)
    bmc.changes[f"{ROOT}/Systems"] = None
    assert [mine] == request_of(node)


def test_the_target_of_a_shared_bmc_is_its_own_entry(bmc, node):
    systems(bmc, "Node1")
    entries(bmc, BIOS=[OTHER], BMC=[MANAGER])
    assert [f"{INVENTORY}/BMC"] == request_of(node, "bmc")


@pytest.mark.parametrize("shared", [False, True])
def test_two_matching_targets_are_refused_with_both_names(bmc, node, shared):
    if shared:
        systems(bmc, "Node1")
    mine = own(bmc)
    entries(bmc, BIOS_A=[mine], BIOS_B=[mine])
    raised, _ = update(node)
    assert f"{INVENTORY}/BIOS_A, {INVENTORY}/BIOS_B" in str(raised)
    assert "`target`" in str(raised)
    assert [] == bmc.orders
    for choice in ("BIOS_B", f"{INVENTORY}/BIOS_B"):
        assert [f"{INVENTORY}/BIOS_B"] == request_of(node, target=choice)
    assert [mine] == request_of(node, target=mine)
    with pytest.raises(HardwareError, match="target 'x' is none of"):
        request_of(node, target="x")


@pytest.mark.parametrize(
    ("shared", "message", "times"),
    [
        (False, "The action SimpleUpdate has no parameter Targets", 2),
        (False, "The value of Targets is not in the list", 1),
        (False, "The image is not for this target", 1),
        (True, "The action SimpleUpdate has no parameter Targets", 1),
    ],
)
def test_targets_are_left_out_only_where_they_are_unknown_and_harmless(
    bmc, node, shared, message, times
):
    if shared:
        systems(bmc, "Node1")
    bmc.scripts = {
        ("POST", UPDATE): [error(400, message), ACCEPTED],
        ("GET", TASK): [then(updated(bmc), task("Completed"))],
    }
    outcome, _ = update(node)
    sent = ["Targets" in body for body in bmc.sent("SimpleUpdate")]
    assert [True, False][:times] == sent
    assert (times == 2) == isinstance(outcome, Done)


def test_a_component_that_the_machine_lacks_is_refused(bmc, node):
    with pytest.raises(HardwareError, match="has no nic:S9"):
        request_of(node, "nic:S9")


def test_an_entry_that_cannot_be_updated_is_no_target(bmc, node):
    entries(bmc, BIOS_A=[], BIOS_B=[])
    bmc.more[f"{INVENTORY}/BIOS_A"]["Updateable"] = False
    assert [f"{INVENTORY}/BIOS_B"] == request_of(node)
