"""
The waker: looks after the waits that this conductor has begun.

One thread with an event loop calls a step again when its poll is due, and polls agents for the end
of their command, at intervals that grow with the time that the command has run. It holds no truth:
when it dies, a heartbeat or the reconciler wakes the operation, a little later.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from ssl import SSLContext
from typing import Any

import aiohttp
from sqlalchemy.exc import SQLAlchemyError

from app import killpoints, log
from app.db import reason
from app.runtime import Runtime
from app.services import operations, waking
from drivers.agent.in_band import command_ended
from drivers.core.errors import HardwareError, InvalidDriverInfo
from drivers.tls import context

logger = log.get(__name__)

#: Of the time that a command has run, the part that may pass until the agent is asked again.
SHARE = 0.01
#: Looks in a row without an answer, after which an agent is left to its heartbeats.
ERRORS = 5
#: Looks a second at all agents together. When they would be more, each is asked more seldom, in
#: proportion: beside thousands that have run for long, one that has just begun is still soon asked.
LOOKS = 50


def wake(runtime: Runtime, operation_id: int, fence: int | None = None) -> bool:
    """Wake an operation if it still waits (under this fence); whether this call did."""
    killpoints.reach("waking")
    with runtime.transaction() as session:
        node, operation = operations.lock_operation(session, operation_id)
        if fence is not None and operation.fence != fence:
            return False
        return waking.wake(session, node, operation)


def end_watch(runtime: Runtime, operation_id: int, fence: int) -> None:
    """Wake it; or, if another has its node just now, listen to its agent from now on."""
    if not wake(runtime, operation_id, fence):
        waking.leave_to_agent(runtime, operation_id, fence)


class Waker:
    """`poll` and `watch` return at once and may be called from any thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="wake")
        self._tasks: set[asyncio.Task[object]] = set()
        self._watched: dict[int, int] = {}  # operation -> fence
        self._wishes: dict[int, float] = {}  # operation -> looks a second
        self.running = False
        self._http: aiohttp.ClientSession | None = None

    def start(self) -> None:
        self.running = True
        threading.Thread(target=self._run, name="waker", daemon=True).start()

    def poll(self, operation_id: int, fence: int, delay: float) -> None:
        """Call the step again after `delay` seconds."""
        self._submit(lambda: self._poll(operation_id, fence, delay))

    def watch(
        self, operation_id: int, fence: int, url: str, token: str | None, ca: str | None
    ) -> None:
        """Call the step again when the agent's command has ended."""
        self._watched[operation_id] = fence
        self._submit(lambda: self._watch(operation_id, fence, url, token, ca))

    def hand_over(self) -> None:
        """
        This process ends: wake what waits for its agent, so that another one looks after it.

        A step that is called too early waits again. One that polls is left to its time, as to some
        steps that time is all.
        """
        while self._watched:
            wake(self._runtime, *self._watched.popitem())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_later(waking.WATCHED / 3, self._keep_watch)
        self._loop.run_forever()

    def _keep_watch(self) -> None:
        """As long as this loop runs, what it watches need not listen to its agent."""
        self._submit(lambda: self._do(waking.keep_watch, list(self._watched.items())))
        self._loop.call_later(waking.WATCHED / 3, self._keep_watch)

    def _submit(self, make: Callable[[], Coroutine[Any, Any, object]]) -> None:
        def begin() -> None:
            task = self._loop.create_task(make())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(begin)

    async def _poll(self, operation_id: int, fence: int, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._do(wake, operation_id, fence)

    async def _watch(
        self, operation_id: int, fence: int, url: str, token: str | None, ca: str | None
    ) -> None:
        try:
            if not await self._until_ended(operation_id, fence, url, token, ca):
                await self._leave_to_agent(operation_id, fence)
        except Exception:  # a defect of ours must not leave an operation to nobody
            logger.exception("watch.crashed", operation_id=operation_id)
            await self._leave_to_agent(operation_id, fence)
        finally:
            if self._watched.get(operation_id) == fence:
                del self._watched[operation_id]
                self._wishes.pop(operation_id, None)

    async def _until_ended(
        self, operation_id: int, fence: int, url: str, token: str | None, ca: str | None
    ) -> bool:
        """Look until the command has ended, or somebody else has woken it; False: in vain."""
        settings = self._runtime.settings.agent
        try:
            # made once: connections are kept for as long as it is the same object
            trusted = context(ca if ca is not None else settings.verify_ca)
        except InvalidDriverInfo as error:
            logger.warning("watch.no_certificates", operation_id=operation_id, detail=str(error))
            return False
        started = self._loop.time()
        errors = 0
        while errors < ERRORS:
            ran = self._loop.time() - started
            pause = min(max(settings.poll_interval / 2, ran * SHARE), settings.max_poll_interval)
            self._wishes[operation_id] = 1 / pause
            await asyncio.sleep(pause * max(1, sum(self._wishes.values()) / LOOKS))
            if self._watched.get(operation_id) != fence:
                return True  # it was woken, and is watched anew
            try:
                document = await self._commands(url, token, trusted)
                errors = 0
                if command_ended(document) and await self._do(end_watch, operation_id, fence):
                    return True  # else the database is away: nobody else listens to this agent
            except (HardwareError, aiohttp.ClientError, TimeoutError, ValueError):
                errors += 1  # it restarts, or is gone: then its heartbeat tells, or the deadline
        return False

    async def _leave_to_agent(self, operation_id: int, fence: int) -> None:
        while not await self._do(waking.leave_to_agent, operation_id, fence):  # noqa: ASYNC110
            await asyncio.sleep(self._runtime.settings.agent.poll_interval)

    async def _commands(
        self, url: str, token: str | None, trusted: bool | SSLContext
    ) -> dict[str, Any]:
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))
        params = {"agent_token": token} if token else {}
        async with self._http.get(f"{url}/v1/commands/", params=params, ssl=trusted) as answer:
            answer.raise_for_status()
            document: dict[str, Any] = await answer.json()
            return document

    async def _do(self, work: Callable[..., Any], *arguments: Any) -> bool:
        """Whether the database took it; a poll that it did not is found overdue."""
        try:
            await self._loop.run_in_executor(self._threads, work, self._runtime, *arguments)
        except SQLAlchemyError as error:
            logger.warning("wake.failed", work=work.__name__, detail=reason(error))
            return False
        return True
