"""Requests that stay open and follow the change events: `?wait=` and streams."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from flask import current_app, request
from sqlalchemy import Row

from app.api import event_frames
from app.api.addresses import Clients
from app.api.answers import runtime
from app.api.auth import caller
from app.api.silent_clients import limit_silence
from app.errors import Invalid
from app.kit import long_poll
from app.kit.change_tail import Tail
from app.kit.concurrency import Places
from app.runtime import Runtime

FOLLOWING = "following"
T = TypeVar("T")


class Following:
    """Tail and places of the requests of one application that follow events."""

    def __init__(self, runtime: Runtime, clients: Clients) -> None:
        api = runtime.settings.api
        self.tail = Tail(runtime, event_frames.WITH_PROJECTS, event_frames.frame)
        self.polls = Places(api.polling_threads, api.polling_threads_per_caller)
        self.streams = Places(api.event_streams, api.event_streams_per_caller)
        self._clients = clients
        self._silence_is_limited = False

    def limit_silence(self) -> None:
        """See `silent_clients`; once per process."""
        if not self._silence_is_limited:
            self._silence_is_limited = True
            limit_silence(int(request.environ["SERVER_PORT"]))

    def user(self) -> str:
        """Return the key of the limits per caller: the user, or the address if there is none."""
        return caller().user_id or self._clients.key_of(request.environ)


def following() -> Following:
    found: Following = current_app.extensions[FOLLOWING]
    return found


def wait_until(
    condition: Callable[[], T], seconds: float, concerns: Callable[[Row[Any]], bool]
) -> T:
    """
    Return the value of a condition when it is true, or after the `seconds` of `?wait=`.

    Return at once if too many requests of the caller, or of all callers, wait already. concerns:
    whether an event may change the condition.

    Raises Invalid: longer than `[api]max_wait`.
    """
    longest = runtime().settings.api.max_wait
    if seconds > longest:
        raise Invalid(f"wait: at most {longest:g} seconds")
    if not seconds:
        return condition()
    shared = following()
    with shared.tail.followed() as follower:
        return long_poll.wait_until(
            condition,
            seconds,
            sleep=partial(follower.wait, concerns=concerns),
            places=shared.polls,
            caller=shared.user(),
        )
