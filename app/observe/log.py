"""
Logging: one line per event on standard error or in a file, as JSON or, on a terminal, as key=value.

`log = app.observe.log.get(__name__)`, then `log.info("step.finished", node=uuid)`: events are named
`subject.past_participle`, facts are keywords. `bound(node=uuid)` adds facts to all lines within.
Records that libraries write through `logging` have the same form.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from logging.handlers import WatchedFileHandler
from pathlib import Path
from textwrap import shorten
from typing import Any, TextIO

import orjson
import structlog

from app.observe import request_ids

#: Name of the handler of standard error.
ERROR_OUTPUT = "stderr"
#: Libraries that log at WARNING and above, at any level of this service.
QUIET = ("alembic", "asyncio", "celery", "kombu", "sqlalchemy", "sushy", "urllib3")

#: Characters of a library's message about the broker.
LONGEST_MESSAGE = 500


def add_trace(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add the trace of the request that a line names, if the request is traced."""
    if trace := request_ids.trace_of(event.get("request_id")):
        event["trace_id"] = trace
    return event


SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    add_trace,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.StackInfoRenderer(),
]


#: Most characters of a text in a line, and items of a list: both may come from a machine.
LONGEST, MOST_ITEMS = 4000, 50
_TRACEBACK = ("exception", "exc_info", "stack")


def _cut(value: object) -> object:
    """Shorten long texts and lists."""
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]}... ({len(value)} characters)"
    if isinstance(value, list | tuple):
        cut = [_cut(item) for item in value[:MOST_ITEMS]]
        return [*cut, f"... ({len(value)} items)"] if len(value) > MOST_ITEMS else cut
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in list(value.items())[:MOST_ITEMS]}
    return value


def bounded(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Shorten long values of a line, except a traceback."""
    return {name: item if name in _TRACEBACK else _cut(item) for name, item in event.items()}


@dataclass(frozen=True, slots=True)
class _Quoted:
    """A text that is printed as a literal."""

    text: str

    def __repr__(self) -> str:
        return repr(self.text)


def printable(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Quote texts with control characters: an untrusted text must not control a terminal."""
    return {
        name: _Quoted(item)
        if isinstance(item, str) and not item.isprintable() and name not in _TRACEBACK
        else item
        for name, item in event.items()
    }


def _plain_traceback(out: TextIO, error: Any) -> None:
    """Write a traceback without local variables, which may hold passwords."""
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    lines = text.getvalue().split("\n")
    out.write("\n".join(line if line.isprintable() else repr(line) for line in lines))


#: Facts of this process in every line, such as its role. Threads share them, which a context
#: variable would not allow.
_facts: dict[str, str] = {}


def name_process(role: str) -> None:
    """Add the role of this process to every line."""
    _facts["role"] = role


def _add_facts(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add the facts of the process to a line."""
    return {**event, **_facts}


_extra = structlog.stdlib.ExtraAdder()


def _facts_of_drivers(
    logger: Any, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add the facts that drivers pass as `extra`, as they know no structlog."""
    record = event.get("_record")
    ours = isinstance(record, logging.LogRecord) and record.name.startswith("drivers.")
    return _extra(logger, method, event) if ours else event


def set_up(level: str = "info", form: str = "auto") -> None:
    """
    Configure logging to standard error, for this process and those that it forks.

    form: `json`, `text`, or `auto` for text where standard error is a terminal.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.name = ERROR_OUTPUT
    _format(handler, form, is_terminal=sys.stderr.isatty())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def write_to(path: Path, form: str = "auto", *, on_error_output: bool = False) -> None:
    """
    Log to a file from now on, in this process and those that it forks, instead of standard error.

    form: as for `set_up`. on_error_output: whether to log to standard error, too.

    Raises OSError: the file cannot be opened.
    """
    error_output = next(item for item in logging.root.handlers if item.name == ERROR_OUTPUT)
    handler = LogFile(path, fallback=error_output)
    _format(handler, form, is_terminal=False)
    if not on_error_output:
        logging.root.removeHandler(error_output)
    logging.root.addHandler(handler)


class LogFile(WatchedFileHandler):
    """
    A log file, which is opened again when another program has moved or removed it, as logrotate
    does: each process notices that by itself, at its next line.

    fallback: handler of the lines that cannot be written: a full disk, or a folder that is gone,
    must neither stop the work that is logged nor hide it. The next line is tried again.
    """

    def __init__(self, path: Path, fallback: logging.Handler) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self._fallback = fallback

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # it could not be opened again
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Write a line that could not be written."""
        stream, self.stream = self.stream, None
        if stream is not None:
            with suppress(OSError):
                stream.close()
        self._fallback.handle(record)


def _format(handler: logging.Handler, form: str, *, is_terminal: bool) -> None:
    """Let a handler write lines of a form, and fewer of chatty libraries."""
    as_json = form == "json" or (form == "auto" and not is_terminal)
    renderers: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_json)]
        if as_json
        else [
            printable,
            structlog.dev.ConsoleRenderer(colors=is_terminal, exception_formatter=_plain_traceback),
        ]
    )
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*SHARED, _facts_of_drivers],
            processors=[remove, bounded, _add_facts, *renderers],
        )
    )
    handler.addFilter(_rate_limit())


def debugging() -> bool:
    """Return whether debug lines are logged; call it before gathering facts that cost time."""
    return logging.root.isEnabledFor(logging.DEBUG)


def get(name: str) -> structlog.stdlib.BoundLogger:
    return structlog.stdlib.get_logger(name)


class RateLimited:
    """
    Rate-limited logger: one line per event name in each interval.

    The next line has the number of suppressed ones as `left_out`. For errors that occur at every
    request or every second, and would fill a disk.
    """

    def __init__(self, logger: structlog.stdlib.BoundLogger, seconds: float = 10.0) -> None:
        self._logger, self._seconds = logger, seconds
        self._lock = threading.Lock()
        self._logged_at: dict[str, float] = {}  # event -> monotonic time
        self._suppressed: dict[str, int] = {}  # event -> lines since

    def warning(self, event: str, **facts: object) -> None:
        """Log a warning, unless one with this event name was logged in the interval."""
        now = time.monotonic()
        with self._lock:
            if now < self._logged_at.get(event, float("-inf")) + self._seconds:
                self._suppressed[event] = self._suppressed.get(event, 0) + 1
                return
            self._logged_at[event] = now
            suppressed = self._suppressed.pop(event, 0)
        self._logger.warning(event, **facts, **({"left_out": suppressed} if suppressed else {}))


def _rate_limit(seconds: float = 5.0) -> Callable[[logging.LogRecord], bool]:
    """
    Build a filter that limits the records of some libraries to one per source line and interval.

    While the broker or the collector of traces is unreachable, they log at every try, and aiohttp
    logs every malformed request to the file server. Messages are cut to `LONGEST_MESSAGE`, as an
    error of Sentinel quotes the objects of its client; the traceback of an exception is replaced by
    its text.
    """
    last_times: dict[tuple[str, int], float] = {}

    def passes(record: logging.LogRecord) -> bool:
        if record.name == "py.warnings" and "CPendingDeprecationWarning" in record.getMessage():
            return False  # it repeats for a behaviour that this service relies on
        error = record.exc_info[1] if record.exc_info else None
        by_client = type(error).__module__ == "aiohttp.http_exceptions"
        if not by_client and not record.name.startswith(("celery", "kombu", "opentelemetry")):
            return True
        place = (record.pathname, record.lineno)
        if record.created < last_times.get(place, 0.0) + seconds:
            return False
        last_times[place] = record.created
        if by_client or record.name.startswith(("celery.worker.consumer", "kombu")):
            message = record.getMessage() + (f": {error}" if error else "")
            record.msg, record.args = shorten(message, LONGEST_MESSAGE, placeholder=" ..."), ()
            record.exc_info = None
        return True

    return passes


def _json(line: object, default: Any = None, **_: object) -> str:
    return orjson.dumps(line, default=default).decode()


@contextmanager
def bound(**facts: object) -> Iterator[None]:
    """Add facts to every line logged within, in this thread."""
    with structlog.contextvars.bound_contextvars(**facts):
        yield


def bind(**facts: object) -> None:
    """Add facts to every line that this thread logs, until `unbind`."""
    structlog.contextvars.bind_contextvars(**facts)


def unbind(*names: str) -> None:
    """Remove facts that `bind` has added."""
    structlog.contextvars.unbind_contextvars(*names)


def fact(name: str) -> object:
    """Return a fact that the lines of this thread have, if they have it."""
    return structlog.contextvars.get_contextvars().get(name)
