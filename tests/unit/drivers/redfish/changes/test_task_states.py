"""Documents of tasks and jobs: the tables of their states."""

import pytest

from drivers.redfish.changes import tasks
from drivers.redfish.changes.tasks import ANSWERS, JOBS, STATUSES, TASKS, Content, End, Seen
from tests.unit.drivers.redfish.scripted import MONITOR, TASK


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
    ("status", "content", "observation", "expected"),
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
def test_an_answer_about_a_task_has_one_meaning(status, content, observation, expected):
    assert expected == tasks.end(status, content, observation, lambda: "document")


def test_the_end_time_of_a_running_task_of_an_idrac_is_no_end():
    document = {"TaskState": "Odd", "EndTime": "TIME_NA"}
    assert End.RUNNING is tasks.end_of(document, Content.TASK)
    ended = {"TaskState": "Odd", "EndTime": "2026-01-01T00:00:00Z"}
    assert End.UNCLEAR is tasks.end_of(ended, Content.TASK)


def test_each_row_of_the_table_of_answers_is_reached():
    cells = [
        (status, content, observation)
        for status in range(100, 600)
        for content in Content
        for observation in Seen
    ]
    first_rows = {
        next(
            number
            for number, row in enumerate(ANSWERS)
            if status in row.statuses
            and (row.contents is None or content in row.contents)
            and (row.seen is None or observation in row.seen)
        )
        for status, content, observation in cells
    }
    assert set(range(len(ANSWERS))) == first_rows


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
