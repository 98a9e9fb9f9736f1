"""Examinations of the whole service by its supervisor, for the watchdog of systemd."""

import os
import select
import time
from collections.abc import Callable, Sequence

from app.config.settings import Settings
from app.observe import log
from app.process import own_server, vital_signs
from workers.supervisor import roles
from workers.supervisor.children import result_of
from workers.supervisor.location import StartError

logger = log.get(__name__)


class Examinations:
    """
    Examinations, each in a child process. One that finds the service at work is a vital sign of
    the supervisor.

    examine: raises StartError if a part does not work. An examination that never ends has no
    successor, so the supervisor goes silent.
    """

    def __init__(self, examine: Callable[[], None]) -> None:
        self._examine = examine
        self._result: int | None = None  # pipe, while one is going on
        signs = vital_signs.current()
        patience = signs.patience if signs else None
        self._interval = patience and patience / 3
        self._due_at = time.monotonic() + (self._interval or 0.0)

    def go_on(self) -> float | None:
        """
        Begin an examination that is due, or end one that has a result.

        Returns the seconds until the next is due, unless one is going on.
        """
        if self._interval is None:
            return None
        if self._result is not None:
            if not select.select([self._result], [], [], 0)[0]:
                return None  # the end of its process is a signal
            with os.fdopen(self._result) as pipe:
                answer = pipe.read()
            self._result = None
            if answer == "\n":
                vital_signs.work("all roles work")
            else:
                vital_signs.report(answer or "its examination failed; see the log")
                logger.warning("up.impaired", reason=answer.strip() or "examination failed")
        seconds = self._due_at - time.monotonic()
        if seconds > 0:
            return seconds
        self._due_at = time.monotonic() + self._interval
        self._result = result_of(self._examine)
        return None


def examine(settings: Settings, names: Sequence[str]) -> None:
    """
    Examine the service as a client does.

    names: of the conductors. Raises StartError: the API does not answer, or a conductor is silent.
    """
    api = settings.api
    if own_server.status(api.host_ip, api.port, tls=api.enable_ssl_api) is None:
        raise StartError("the API does not answer")
    if silent := roles.ROLES["silent"](settings, names):
        raise StartError(f"no heartbeat from {', '.join(silent)}")
