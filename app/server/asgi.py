"""ASGI as granian speaks it: scopes, events, and futures, which threads wait for without a loop."""

import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import NotRequired, Protocol, TypedDict, TypeGuard, TypeVar

T = TypeVar("T")


class Event(TypedDict, total=False):
    """Event from a client, with the members that the gateway reads."""

    type: str
    body: bytes
    more_body: bool
    bytes: bytes | None
    text: str | None


Receive = Callable[[], Awaitable[Event]]


class Scope(TypedDict):
    """Scope of a request, with the members that the gateway reads."""

    type: str
    scheme: str
    http_version: str
    method: NotRequired[str]  # a WebSocket has none
    raw_path: bytes
    query_string: bytes
    headers: Iterable[tuple[bytes, bytes]]
    server: tuple[str, str]
    client: tuple[str, object]
    subprotocols: NotRequired[Sequence[str]]  # of a WebSocket


class Pending(Protocol[T]):
    """Future of granian."""

    def __await__(self) -> Generator[object, None, T]: ...
    def done(self) -> bool: ...
    def result(self) -> T: ...
    def cancel(self) -> bool: ...
    def add_done_callback(self, act: "Callable[[Pending[T]], object]") -> None: ...


class Exchange(Protocol):
    """Request of granian: the events from its client, and those to it."""

    def receive(self) -> Awaitable[Event]: ...
    def send(self, event: Mapping[str, object]) -> Awaitable[None]: ...


class Watcher(Protocol):
    """Call of granian: a request, and whether it is answered."""

    scope: Scope
    proto: Exchange

    def done(self) -> None: ...
    def err(self, error: BaseException) -> None: ...


def _is_pending(awaitable: Awaitable[T]) -> TypeGuard[Pending[T]]:
    """Whether granian may complete an awaitable later, in another thread."""
    return hasattr(awaitable, "done")


def result(awaitable: Awaitable[T], end: float | None = None) -> T:
    """
    Return the result of an awaitable of granian; wait for it in this thread.

    Raises TimeoutError: it is not there at `end`, a time of the monotonic clock. It is cancelled.
    """
    if not _is_pending(awaitable):
        return _result_at_once(awaitable)
    if not awaitable.done():
        waiting = threading.Lock()
        waiting.acquire()
        awaitable.add_done_callback(lambda _: waiting.release())
        seconds = -1 if end is None else max(0.0, end - time.monotonic())
        if not waiting.acquire(timeout=seconds) and awaitable.cancel():
            raise TimeoutError
    return awaitable.result()


def cancel(awaitable: Awaitable[Event] | None) -> None:
    """Let an awaitable end now, if it has not ended."""
    if awaitable is not None and _is_pending(awaitable):
        awaitable.cancel()


def when_done(awaitable: Awaitable[T], act: Callable[[T], None]) -> None:
    """Call `act` with the result of an awaitable, now or in another thread."""
    if _is_pending(awaitable):
        awaitable.add_done_callback(lambda future: act(future.result()))
    else:
        act(_result_at_once(awaitable))


def _result_at_once(awaitable: Awaitable[T]) -> T:
    """Return the result of an awaitable that is complete when it is made."""
    try:
        next(awaitable.__await__())
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError(f"{awaitable!r} is not complete")
