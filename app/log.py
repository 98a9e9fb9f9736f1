"""
Logs: one line per event on standard error, JSON for machines, key=value for a terminal.

`log = app.log.get(__name__)`, then `log.info("step.finished", node=uuid)`: an event is named in the
past tense, facts are keywords. `bound(node=uuid)` adds facts to all lines within. What libraries
log through `logging` comes out in the same form.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import structlog

#: Libraries whose chatter begins at WARNING whatever we log.
QUIET = ("alembic", "asyncio", "celery", "kombu", "sqlalchemy", "sushy", "urllib3")

SHARED: list[structlog.typing.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.StackInfoRenderer(),
]


def set_up(level: str = "info", form: str = "auto", **facts: Any) -> None:
    """
    Log to standard error from now on, in this process and those that it forks.

    form: json, text or auto: text where standard error is a terminal. facts: on every line, such
    as role="conductor".
    """
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    last: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_json)]
        if as_json
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                # never with local variables: they hold passwords
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    )

    def add_facts(
        _logger: Any, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        """Facts of the process; not a context variable, which new threads would lose."""
        return {**event, **facts}

    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=SHARED, processors=[remove, add_facts, *last]
        )
    )
    handler.addFilter(_sparingly())
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


def debugging() -> bool:
    """Whether lines for debugging are wanted: what is asked before facts are gathered for one."""
    return logging.root.isEnabledFor(logging.DEBUG)


def get(name: str) -> structlog.stdlib.BoundLogger:
    return structlog.stdlib.get_logger(name)


class Seldom:
    """
    Says a thing at most every `seconds`, and then how often it was left out: what goes wrong for
    every request or every second must not fill a disk.
    """

    def __init__(self, logger: structlog.stdlib.BoundLogger, seconds: float = 10.0) -> None:
        self._logger, self._seconds = logger, seconds
        self._lock = threading.Lock()
        self._said: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warning(self, event: str, **facts: Any) -> None:
        """A line, unless there was one of this event just now."""
        now = time.monotonic()
        with self._lock:
            if now < self._said.get(event, float("-inf")) + self._seconds:
                self._left_out[event] = self._left_out.get(event, 0) + 1
                return
            self._said[event] = now
            left_out = self._left_out.pop(event, 0)
        self._logger.warning(event, **facts, **({"left_out": left_out} if left_out else {}))


def _sparingly(seconds: float = 5.0) -> Callable[[logging.LogRecord], bool]:
    """
    Lets a line of Celery's or kombu's pass, but the same one only every so many seconds: they tell
    of a broker out of reach as often as they try. What they were told stays; where in them, goes.
    """
    passed: dict[tuple[str, int], float] = {}

    def passes(record: logging.LogRecord) -> bool:
        if record.name == "py.warnings" and "CPendingDeprecationWarning" in record.getMessage():
            return False  # of what we rely on, each time
        if not record.name.startswith(("celery", "kombu")):
            return True
        place = (record.pathname, record.lineno)
        if record.created < passed.get(place, 0.0) + seconds:
            return False
        passed[place] = record.created
        if record.exc_info and record.name.startswith(("celery.worker.consumer", "kombu")):
            record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
            record.exc_info = None
        return True

    return passes


def _json(line: Any, default: Any = None, **_: Any) -> str:
    return orjson.dumps(line, default=default).decode()


@contextmanager
def bound(**facts: Any) -> Iterator[None]:
    """Add facts to every line logged within, in this thread."""
    with structlog.contextvars.bound_contextvars(**facts):
        yield
