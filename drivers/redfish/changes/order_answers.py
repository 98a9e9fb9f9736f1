"""Answers to orders: accepted, as a task or at once; refused, for good or for now; or not known."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urljoin, urlsplit

from drivers.redfish.changes import tasks
from drivers.redfish.changes.tasks import Content
from drivers.redfish.transport.client import Reply
from drivers.redfish.transport.conversions import entry, text
from drivers.redfish.transport.errors import is_busy
from drivers.redfish.transport.messages import messages, words

#: Conflict and Locked: states of a resource that pass, which only an order can meet.
_IN_USE = (409, 423)
#: Statuses above 499 that prove that nothing was done.
_REFUSALS = (501, 503, 505)
#: Parts of paths of tasks and jobs, which an answer without 202 may name, too.
_TASK_FOLDERS = ("/TaskService/", "/JobService/", "/Jobs/")
_LONGEST_PATH = 2000  # characters


class Result(StrEnum):
    """Result of an order."""

    TASK = "task"  # accepted: a task, a monitor or both tell the end
    DONE = "done"  # accepted, and carried out at once
    REFUSED = "refused"
    BUSY = "busy"  # refused for now
    UNKNOWN = "unknown"  # sent; whether it was accepted is not known


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to an order."""

    result: Result
    paths: tuple[str, ...] = ()  # of the task, then of its monitor
    words: str = ""  # the BMC's
    status: int | None = None  # of HTTP; None: no answer


def answer_of(reply: Reply, path: str) -> Answer:
    """Return the meaning of a reply; path: of the request."""
    status, bmc_messages = reply.status, messages(reply.document)
    refusal = f"{status}: {words(bmc_messages) or 'no message'}"
    if status >= 400:
        is_passing = status in _IN_USE or is_busy(status, bmc_messages)
        # another error of the server may have come after the order's effect
        is_refusal = status < 500 or status in _REFUSALS
        result = Result.REFUSED if is_refusal else Result.UNKNOWN
        return Answer(Result.BUSY if is_passing else result, words=refusal, status=status)
    paths = _task_paths(reply, path)
    if status == 202 or (paths and status in (200, 201)):
        result = Result.TASK if paths else Result.UNKNOWN
        return Answer(result, paths, "" if paths else "the BMC named no task", status)
    if not 200 <= status < 300:
        return Answer(Result.UNKNOWN, words=refusal, status=status)
    if status == 200 and any(message.is_error for message in bmc_messages):
        return Answer(Result.REFUSED, words=refusal, status=status)
    return Answer(Result.DONE, status=status)


def _task_paths(reply: Reply, path: str) -> tuple[str, ...]:
    """Return the paths of the task and of the monitor that a reply names."""
    document = reply.document
    own_path = text(entry(document, "@odata.id"), _LONGEST_PATH)
    content = tasks.content_of(document, path="")
    is_task = content in (Content.TASK, Content.JOB)
    paths = [own_path if is_task or (reply.status == 202 and not reply.location) else None]
    if reply.status == 202 or is_task or any(w in (reply.location or "") for w in _TASK_FOLDERS):
        paths.append(reply.location)
    if is_task:
        paths.append(text(entry(document, "TaskMonitor"), _LONGEST_PATH))
    return tuple(dict.fromkeys(filter(None, (_path(link, path) for link in paths))))


def _path(link: str | None, base: str) -> str | None:
    """Return the path of a link, which may be absolute, with any name of the BMC, or relative."""
    if not link:
        return None
    try:
        url = urlsplit(urljoin(base, link))
    except ValueError:
        return None
    path = f"{url.path}?{url.query}" if url.query else url.path
    return path if path.startswith("/") else None
