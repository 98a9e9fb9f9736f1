"""Requests that stay open and follow the change events: long polls (`?wait=`) and streams."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from app.api.feed import event_frames
from app.api.feed.slow_clients import limit_silence
from app.api.transport.limits import Limits
from app.errors import TooMany, Unavailable
from app.events.event_feed import EventFeed
from app.identity.caller import Caller
from app.requests.request_slots import Busy, Places
from app.runtime import Runtime

#: Long polls, streams or connections to consoles of a caller in a process: a browser and some
#: scripts need fewer.
MAX_PER_CALLER = 16


class Followers:
    """Tail and places of the requests of one application that follow events."""

    def __init__(self, runtime: Runtime, request_limits: Limits) -> None:
        api = runtime.settings.api
        self.tail = EventFeed(runtime, event_frames.WITH_PROJECTS, event_frames.frame)
        self.parts = event_frames.Parts()
        self.polls = _places(api.polling_threads)
        self.streams = _places(api.event_streams)
        self.consoles = _places(runtime.settings.console.streams)
        self._request_limits = request_limits
        self._silence_is_limited = False

    def limit_silence(self, environ: Mapping[str, Any]) -> None:
        """See `slow_clients`; once per process. environ: of a request."""
        if not self._silence_is_limited:
            self._silence_is_limited = True
            limit_silence(int(environ["SERVER_PORT"]))

    @contextmanager
    def place(
        self, caller: Caller, environ: Mapping[str, Any], places: Places, kind: str, retry: float
    ) -> Iterator[None]:
        """
        Hold one of the `places` for a request. kind: its name in errors; retry: Retry-After.

        Raises Unavailable: all are taken.
        Raises TooMany: the caller or its project has its share; without a user, the requests of its
        address have.
        """
        address = self._request_limits.clients.key_of(environ)
        with ExitStack() as stack:
            try:
                stack.enter_context(places.hold(caller.user_id or address, caller.project_id))
            except Busy:
                self._request_limits.note_refused_follower(environ)
                if places.is_full:
                    raise Unavailable(f"Too many {kind} are open, please retry later.") from None
                raise TooMany(
                    retry,
                    f"Too many {kind} of this caller or its project are open: close one of them.",
                ) from None
            yield


def _places(capacity: int) -> Places:
    """Return places of which a caller takes a quarter at most, so that others find some."""
    return Places(capacity, min(MAX_PER_CALLER, -(-capacity // 4)))
