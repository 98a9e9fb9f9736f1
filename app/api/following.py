"""Requests that stay open and follow the change events: long polls (`?wait=`) and streams."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

from flask import current_app, request
from sqlalchemy import Row

from app.api import event_frames
from app.api.answers import runtime
from app.api.auth import caller
from app.api.limits import Limits
from app.api.silent_clients import limit_silence
from app.errors import Invalid, TooMany, Unavailable
from app.kit import long_poll
from app.kit.change_tail import Follower, Tail
from app.kit.concurrency import Busy, Places
from app.runtime import Runtime

FOLLOWING = "following"
#: Seconds after which a caller with too many long polls should retry.
RETRY_OF_MANY = 2.0
T = TypeVar("T")


class Following:
    """Tail and places of the requests of one application that follow events."""

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        api = runtime.settings.api
        self.tail = Tail(runtime, event_frames.WITH_PROJECTS, event_frames.frame)
        self.parts = event_frames.Parts()
        self.polls = Places(api.polling_threads, api.polling_threads_per_caller)
        self.streams = Places(api.event_streams, api.event_streams_per_caller)
        console = runtime.settings.console
        self.consoles = Places(console.streams, console.streams_per_caller)
        self._limits = limits
        self._silence_is_limited = False

    def limit_silence(self) -> None:
        """See `silent_clients`; once per process."""
        if not self._silence_is_limited:
            self._silence_is_limited = True
            limit_silence(int(request.environ["SERVER_PORT"]))

    @contextmanager
    def place(
        self,
        places: Places,
        kind: str,
        retry: float,
        holder: tuple[str | None, str | None] | None = None,
    ) -> Iterator[None]:
        """
        Hold one of the `places` for the request. kind: its name in errors; retry: Retry-After.

        holder: user and project that hold it; None: the request's caller and its project.

        Raises Unavailable: all are taken.
        Raises TooMany: the caller or its project has its share; without a user, the requests of its
        address have.
        """
        address = self._limits.clients.key_of(request.environ)
        with ExitStack() as held:
            try:
                user, project = holder or (caller().user_id, caller().project_id)
                held.enter_context(places.hold(user or address, project))
            except Busy:
                self._limits.refused_followers.take(address)
                if places.is_full:
                    raise Unavailable(f"Too many {kind} are open, please retry later.") from None
                raise TooMany(
                    retry,
                    f"Too many {kind} of this caller or its project are open: close one of them.",
                ) from None
            yield


def following() -> Following:
    found: Following = current_app.extensions[FOLLOWING]
    return found


class LongPoll:
    """A request that waits. follower: of the change events; None: it waits for no time."""

    def __init__(self, seconds: float, follower: Follower | None) -> None:
        self._seconds, self._follower = seconds, follower

    def wait_until(self, condition: Callable[[], T], concerns: Callable[[Row[Any]], bool]) -> T:
        """
        Return the value of a condition when it is true, or when the time is over.

        concerns: whether an event may change the condition.
        """
        if self._follower is None:
            return condition()
        sleep = partial(self._follower.wait, concerns=concerns)
        return long_poll.wait_until(condition, self._seconds, sleep=sleep)


@contextmanager
def long_polling(seconds: float) -> Iterator[LongPoll]:
    """
    Hold a place for a request with `?wait=`; 0: it needs none.

    Enter it before any query for the request: those without a place must cost none.

    Raises Invalid: longer than `[api]max_wait`.
    Raises Unavailable, TooMany: see `Following.place`.
    """
    longest = runtime().settings.api.max_wait
    if seconds > longest:
        raise Invalid(f"wait: at most {longest:g} seconds")
    if not seconds:
        yield LongPoll(0, None)
        return
    shared = following()
    with (
        shared.place(shared.polls, "requests with `wait`", RETRY_OF_MANY),
        shared.tail.followed() as follower,
    ):
        yield LongPoll(seconds, follower)
