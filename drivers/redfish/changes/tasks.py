"""
Redfish: the ends of tasks, task monitors and jobs.

The rules are DSP0266's ("Asynchronous operations") and the Task schema's, as the tables of this
module: `ANSWERS` has the meaning of an HTTP answer, `TASKS` and `JOBS` that of a document. A task
that has *ended* has not always succeeded, and one that the BMC does not know may run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from drivers.core.errors import Unexpected
from drivers.redfish.transport import navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import (
    entry,
    last_part,
    link_path,
    link_paths,
    number,
    text,
)
from drivers.redfish.transport.messages import messages, words


class End(StrEnum):
    """Meaning of a look at a task."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STAGED = "staged"  # it begins at the next restart of the machine
    UNCLEAR = "unclear"  # it has ended; the BMC does not say how
    MISSING = "missing"  # the BMC does not have it: not yet, or no longer
    UNREADABLE = "unreadable"  # this look failed; the next one may not


class Content(StrEnum):
    """Kinds of the content of an answer."""

    TASK = "a task"
    JOB = "a job"
    MESSAGES = "messages"
    RESOURCE = "another resource"
    NOTHING = "nothing"
    OTHER = "other"


class Seen(StrEnum):
    """Results of earlier looks."""

    NOTHING = ""
    RUNNING = "running"  # a monitor: 202
    TASK = "task"  # the task's own resource
    ERROR = "error"  # an answer of the last look, which may be the task's end


#: TaskStatus, and JobStatus; "": missing, null, or another word
STATUSES = ("OK", "Warning", "Critical", "")
_R, _S, _F, _U = End.RUNNING, End.SUCCEEDED, End.FAILED, End.UNCLEAR
_T = End.STAGED
#: Words for a state that is missing or that Redfish lacks.
OTHER, OTHER_COMPLETE = "(other)", "(other, with EndTime or 100 percent)"
#: TaskState -> the end by each of `STATUSES`
TASKS: Mapping[str, tuple[End, End, End, End]] = {
    "New": (_R, _R, _R, _R),
    "Starting": (_R, _R, _R, _R),
    "Running": (_R, _R, _R, _R),
    "Suspended": (_R, _R, _R, _R),
    "Interrupted": (_R, _R, _R, _R),
    "Pending": (_R, _R, _R, _R),
    "Stopping": (_R, _R, _R, _R),
    "Service": (_R, _R, _R, _R),
    "Cancelling": (_R, _R, _R, _R),
    "Completed": (_S, _S, _F, _U),
    "Killed": (_F, _F, _F, _F),
    "Exception": (_F, _F, _F, _F),
    "Cancelled": (_F, _F, _F, _F),
    OTHER: (_R, _R, _R, _R),
    OTHER_COMPLETE: (_U, _U, _F, _U),
}
#: JobState -> the end by each of `STATUSES`. Dell's jobs have no JobStatus, but states of failures.
JOBS: Mapping[str, tuple[End, End, End, End]] = {
    "Completed": (_S, _S, _F, _S),
    "CompletedWithErrors": (_F, _F, _F, _F),
    "Failed": (_F, _F, _F, _F),
    "Scheduled": (_T, _T, _T, _T),
    "RebootFailed": (_F, _F, _F, _F),
    "Exception": (_F, _F, _F, _F),
    "Cancelled": (_F, _F, _F, _F),
    "Invalid": (_F, _F, _F, _F),
    OTHER: (_R, _R, _R, _R),
    OTHER_COMPLETE: (_U, _U, _F, _U),
}


#: TaskStates whose messages may say that the task is staged; iDRAC's "Task successfully scheduled"
WAITING = ("New", "Starting", "Suspended", "Pending")
STAGED_MESSAGES = ("JCP001",)


class Row(NamedTuple):
    """Rule of `ANSWERS`; the first that matches applies."""

    statuses: Sequence[int]  # of HTTP
    contents: tuple[Content, ...] | None  # None: any
    seen: tuple[Seen, ...] | None  # None: any
    end: End | None  # None: the table of the document has it
    reason: str = ""


_DOCUMENT = (Content.TASK, Content.JOB)
_GONE = (404, 410)
_PASSING = (401, 403, 408, 425, 429, 502, 503, 504)
ANSWERS: tuple[Row, ...] = (
    Row((202,), _DOCUMENT, None, None),
    Row((202,), None, None, _R, "a monitor of a running task"),
    Row((200,), _DOCUMENT, None, None),
    Row((200,), (Content.MESSAGES,), None, None, "by their severities; without them: unclear"),
    Row((200,), (Content.RESOURCE, Content.NOTHING), (Seen.NOTHING, Seen.RUNNING, Seen.ERROR), _S,
        "the answer of the operation itself"),
    Row((200,), None, None, End.UNREADABLE),
    Row((201, 204), None, None, _S, "the answer of the operation itself"),
    Row(_GONE, None, (Seen.ERROR,), _F, "a monitor is deleted once its end was read"),
    Row(_GONE, None, None, End.MISSING),
    Row(_PASSING, None, None, End.UNREADABLE, "an obstacle to this look, not an end"),
    Row(range(400, 600), None, (Seen.TASK,), End.UNREADABLE, "the document tells a task's end"),
    Row(range(400, 500), None, None, _F, "the answer of the operation itself"),
    Row(range(500, 600), (Content.MESSAGES,), (Seen.ERROR,), _F, "repeated: the answer itself"),
    Row(range(100, 600), None, None, End.UNREADABLE),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """Result of a look at a task."""

    end: End
    words: str = ""  # the BMC's
    seen: Seen = Seen.NOTHING
    pause: float = 0.0  # seconds until the next look, as the BMC asks; 0: it does not


def end(
    status: int,
    content: Content,
    seen_state: Seen,
    document: Callable[[], End] = lambda: End.UNCLEAR,
) -> End:
    """Return the meaning of an answer by `ANSWERS`; document: returns that of its content."""
    for row in ANSWERS:
        if (
            status in row.statuses
            and (row.contents is None or content in row.contents)
            and (row.seen is None or seen_state in row.seen)
        ):
            return document() if row.end is None else row.end
    return End.UNREADABLE


def look(bmc: Connection, path: str, seen_state: Seen) -> Look:
    """
    Look at a task or a monitor.

    Raises HardwareError: no answer.
    """
    answer = bmc.get(path)
    content = content_of(answer.document, path, is_empty=answer.is_empty)
    result = end(answer.status, content, seen_state, lambda: end_of(answer.document, content))
    outcome_text = words(messages(answer.document))
    state = text(entry(answer.document, "TaskState")) or text(entry(answer.document, "JobState"))
    if content in _DOCUMENT and result is End.FAILED:
        outcome_text = (
            f"{state or 'ended'}: {outcome_text}" if outcome_text else f"{state or 'ended'}"
        )
    elif result is End.FAILED and answer.status in _GONE:
        outcome_text = ""  # the error was read before
    elif result is End.FAILED and not outcome_text:
        outcome_text = f"HTTP {answer.status}"
    if result in (End.RUNNING, End.STAGED):
        seen_state = Seen.TASK if answer.status == 200 else Seen.RUNNING
    elif result is End.UNREADABLE and answer.status not in _PASSING and seen_state is not Seen.TASK:
        seen_state = Seen.ERROR if content is Content.MESSAGES else seen_state
    return Look(result, outcome_text, seen_state, answer.retry_after)


def content_of(document: object, path: str, *, is_empty: bool = False) -> Content:
    """Return the kind of an answer's content; path: that was read."""
    if is_empty:
        return Content.NOTHING
    if not isinstance(document, Mapping):
        return Content.OTHER
    kind = str(document.get("@odata.type", "")).lstrip("#").partition(".")[0]
    if "TaskState" in document or "TaskStatus" in document or kind == "Task":
        return Content.TASK
    if "JobState" in document or kind in ("Job", "DellJob"):
        return Content.JOB
    own_path = document.get("@odata.id")
    if own_path == path:
        return Content.TASK  # one that has lost its state
    if "@odata.id" in document:
        return Content.RESOURCE if isinstance(own_path, str) else Content.OTHER
    return Content.MESSAGES if messages(document) else Content.OTHER


def end_of(document: object, content: Content) -> End:
    """Return the meaning of a document: by `TASKS`, `JOBS`, or the severities of messages."""
    bmc_messages = messages(document)
    if content is Content.MESSAGES:
        if any(message.is_error for message in bmc_messages):
            return End.FAILED
        return End.SUCCEEDED if all(message.is_good for message in bmc_messages) else End.UNCLEAR
    table, kind = (TASKS, "Task") if content is Content.TASK else (JOBS, "Job")
    state = text(entry(document, f"{kind}State")) or ""
    status = text(entry(document, f"{kind}Status")) or ""
    if state not in table:
        # iDRAC's EndTime of a running task is TIME_NA
        has_ended = (text(entry(document, "EndTime")) or "")[:1].isdecimal()
        is_whole = number(entry(document, "PercentComplete")) == 100
        state = OTHER_COMPLETE if has_ended or is_whole else OTHER
    result = table[state][STATUSES.index(status if status in STATUSES else "")]
    if state in WAITING and any(message.name in STAGED_MESSAGES for message in bmc_messages):
        return End.STAGED
    # a task that is complete, without a TaskStatus, and with an error among its messages
    if result is End.UNCLEAR and any(message.is_error for message in bmc_messages):
        return End.FAILED
    return result


def listed(bmc: Connection, *, is_whole: bool = False) -> list[str]:
    """
    Return the paths of the BMC's tasks and jobs; empty without a task service and job queues.

    is_whole: a task service without a list, and a list without members, are not empty: some BMCs
    send incomplete documents while they work.

    Raises HardwareError.
    """
    service = navigation.link(bmc.open(), "tasks")
    tasks = bmc.find(service) if service else None
    own_list = link_path(tasks, "Tasks")
    if is_whole and tasks is not None and own_list is None:
        raise Unexpected(f"BMC {bmc.access.address} sent a malformed document: {service}")
    task_paths: list[str] = []
    for path in filter(None, (own_list, *_queues(bmc))):
        document = bmc.find(path)
        is_malformed = document is not None and not isinstance(document.get("Members"), list)
        if is_whole and is_malformed:
            raise Unexpected(f"BMC {bmc.access.address} sent a malformed document: {path}")
        task_paths += link_paths(document, "Members")
    return task_paths


def in_queue(bmc: Connection, task: str) -> str | None:
    """
    Return the path of the job with a task's id, if a job queue has it.

    Dell's BMCs create the job some time after they have named its task, and keep it longer.
    """
    name = last_part(task)
    managers = [
        manager.path.rstrip("/") for manager in navigation.managers(bmc, bmc.system(fresh=False))
    ]
    usual = [f"{path}/{queue}" for path in managers for queue in ("Oem/Dell/Jobs", "Jobs")]
    for queue in dict.fromkeys((*_queues(bmc), *(usual if name.startswith("JID_") else ()))):
        path = f"{queue.rstrip('/')}/{name}"
        if path == task:
            continue
        answer = bmc.get(path)
        if answer.status == 200 and isinstance(answer.document, Mapping):
            return path
    return None


def is_of(document: object, order_path: str) -> bool:
    """Whether a task may be of an order to this path: it says so, or does not say."""
    target = text(entry(document, "Payload", "TargetUri"))
    return target is None or target.rstrip("/") == order_path.rstrip("/")


def _queues(bmc: Connection) -> list[str]:
    """Return the paths of the job queues that the BMC names: Redfish's own, and Dell's."""
    service = navigation.link(bmc.open(), "job_service")
    paths = [link_path(bmc.find(service), "Jobs")] if service else []
    managers = navigation.managers(bmc, bmc.system(fresh=False))
    paths += [link_path(manager.json, "Links", "Oem", "Dell", "Jobs") for manager in managers]
    return [path for path in paths if path]
