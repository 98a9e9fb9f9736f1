"""
Wait monitor: resumes the waiting operations that this conductor has run.

One thread with an event loop resumes an operation when its poll is due, and polls agents for the
end of their command, at intervals that grow with the run time of the command. Its state is only in
memory: after a crash, a heartbeat or the reconciler resumes the operations, a little later.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from ssl import SSLContext
from typing import Any

import aiohttp
from sqlalchemy.exc import NoResultFound, SQLAlchemyError

from app.db.diagnosis import reason
from app.engine import operations, wake
from app.lifecycle.operation_states import Actor
from app.observe import log
from app.process import kill_points
from app.runtime import Runtime
from drivers.builtin import command_ended
from drivers.core.errors import HardwareError, InvalidDriverInfo
from drivers.net import answers, networks
from drivers.net.connections import AsyncResponse, async_connector
from drivers.net.fetch import cause
from drivers.net.tls import context, of_node

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Poll interval of an agent, as a share of the time that its command has run, and at most so many
#: seconds: the end of an hour's erasure is seen a half minute late.
SHARE, MAX_POLL_INTERVAL = 0.01, 30.0
#: Failed polls in a row after which the monitor waits for the agent's heartbeat instead.
ERRORS = 5
#: Most polls of all agents together, per second. Above it, all intervals grow in proportion, so a
#: command that has just started is still polled soon, even with thousands of long ones.
POLLS = 50


def resume_operation(runtime: Runtime, operation_id: int, fence: int | None = None) -> bool:
    """Resume an operation if it still waits (under this fence); whether this call did."""
    kill_points.reach("waking")
    with runtime.transaction(Actor.CONDUCTOR) as session:
        try:
            node, operation = operations.lock_operation(session, operation_id)
        except NoResultFound:
            return False
        if fence is not None and operation.fence != fence:
            return False
        return wake.resume_operation(session, node, operation)


def resume_or_unwatch(runtime: Runtime, operation_id: int, fence: int) -> None:
    """Resume an operation; if its node is locked just now, resume it by heartbeats from now on."""
    if not resume_operation(runtime, operation_id, fence):
        wake.leave_to_agent(runtime, operation_id, fence)


class WaitMonitor:
    """Wait monitor. `poll` and `watch` return at once and may be called from any thread."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="wake")
        self._tasks: set[asyncio.Task[object]] = set()
        self._watched: dict[int, int] = {}  # operation id -> fence
        self._rates: dict[int, float] = {}  # operation id -> wanted polls per second
        self.running = False
        self._http: aiohttp.ClientSession | None = None

    def start(self) -> None:
        self.running = True
        threading.Thread(target=self._run, name="wait-monitor", daemon=True).start()

    def poll(self, operation_id: int, fence: int, delay: float) -> None:
        """Resume the operation after `delay` seconds."""
        self._submit(lambda: self._poll(operation_id, fence, delay))

    def watch(
        self, operation_id: int, fence: int, url: str, token: str | None, ca: str | None
    ) -> None:
        """Resume the operation when the agent's command has ended."""
        self._watched[operation_id] = fence
        self._submit(lambda: self._watch(operation_id, fence, url, token, ca))

    def watches(self, operation_id: int, fence: int) -> bool:
        """Whether an agent is polled for the operation under this fence."""
        return self._watched.get(operation_id) == fence

    def resume_all(self) -> None:
        """
        Resume the operations that wait for an agent, so that another conductor monitors them.

        A step that is resumed too early waits again. Polled steps are left to the reconciler, as
        some steps only wait for a fixed time.
        """
        while self._watched:
            resume_operation(self._runtime, *self._watched.popitem())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_later(wake.POLLING_PERIOD / 3, self._keep_watch)
        self._loop.run_forever()

    def _keep_watch(self) -> None:
        """Renew the mark on watched operations, which keeps heartbeats from resuming them."""
        self._submit(lambda: self._do(wake.extend_polling, list(self._watched.items())))
        self._loop.call_later(wake.POLLING_PERIOD / 3, self._keep_watch)

    def _submit(self, make: Callable[[], Coroutine[Any, Any, object]]) -> None:
        def start() -> None:
            task = self._loop.create_task(make())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(start)

    async def _poll(self, operation_id: int, fence: int, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._do(resume_operation, operation_id, fence)

    async def _watch(
        self, operation_id: int, fence: int, url: str, token: str | None, ca: str | None
    ) -> None:
        try:
            error = await self._until_ended(operation_id, fence, url, token, ca)
            if error is not None:
                logger.warning("watch.ended", operation_id=operation_id, reason=error)
                await self._leave_to_agent(operation_id, fence, error)
        except Exception:  # after a defect here, heartbeats must still resume the operation
            logger.exception("watch.crashed", operation_id=operation_id)
            await self._leave_to_agent(operation_id, fence)
        finally:
            if self._watched.get(operation_id) == fence:
                del self._watched[operation_id]
                self._rates.pop(operation_id, None)

    async def _until_ended(
        self, operation_id: int, fence: int, url: str, token: str | None, ca: str | None
    ) -> str | None:
        """
        Poll until the command has ended or the operation was resumed.

        Returns None, or the error for which polling was given up.
        """
        settings = self._runtime.settings.agent
        try:
            # created once: aiohttp reuses connections only for the same SSL context
            if ca is not None:  # certificates of the agent, or the value of its node
                setting = "driver_info/agent_verify_ca"
                trusted = context(of_node(self._runtime.settings.options(), ca, setting))
            else:
                trusted = context(settings.verify_ca)
        except InvalidDriverInfo as error:
            logger.warning("watch.no_certificates", operation_id=operation_id, detail=str(error))
            return str(error)
        started = self._loop.time()
        errors, last_error = 0, ""
        while errors < ERRORS:
            ran = self._loop.time() - started
            pause = min(max(settings.poll_interval / 2, ran * SHARE), MAX_POLL_INTERVAL)
            self._rates[operation_id] = 1 / pause
            await asyncio.sleep(pause * max(1, sum(self._rates.values()) / POLLS))
            if self._watched.get(operation_id) != fence:
                return None  # it was resumed, and has a new watch
            try:
                document = await self._commands(url, token, trusted)
                errors = 0
                if command_ended(document) and await self._do(
                    resume_or_unwatch, operation_id, fence
                ):
                    return None  # else the database is away: poll again, as no heartbeat resumes it
            except (HardwareError, aiohttp.ClientError, TimeoutError, ValueError) as error:
                errors += 1  # the agent restarts or is gone: a heartbeat or the deadline decides
                last_error = _text(error)
        return f"the agent at {url} did not answer {ERRORS} polls ({last_error})"

    async def _leave_to_agent(
        self, operation_id: int, fence: int, reason: str | None = None
    ) -> None:
        while not await self._do(wake.leave_to_agent, operation_id, fence, reason):  # noqa: ASYNC110
            await asyncio.sleep(self._runtime.settings.agent.poll_interval)

    async def _commands(
        self, url: str, token: str | None, trusted: bool | SSLContext
    ) -> dict[str, Any]:
        if self._http is None:
            reach = networks.of_agents(self._runtime.settings.options())
            self._http = aiohttp.ClientSession(
                connector=async_connector(reach.check),
                timeout=aiohttp.ClientTimeout(total=10),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=answers.UNCOMPRESSED,
                auto_decompress=False,
                response_class=AsyncResponse,
            )
        params = {"agent_token": token} if token else {}
        async with self._http.get(
            f"{url}/v1/commands/", params=params, ssl=trusted, allow_redirects=False
        ) as answer:
            answer.raise_for_status()
            document: dict[str, Any] = await answers.document(answer, "the agent")
            return document

    async def _do(self, work: Callable[..., Any], *arguments: object) -> bool:
        """Run `work` in a thread; False: the database failed (the reconciler finds lost polls)."""
        try:
            await self._loop.run_in_executor(self._threads, work, self._runtime, *arguments)
        except SQLAlchemyError as error:
            seldom.warning("wake.failed", work=work.__name__, detail=reason(error))
            return False
        return True


def _text(error: Exception) -> str:
    """Return the text of a poll's error; that of aiohttp may contain the URL with the token."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"status {error.status}"
    return str(error) if isinstance(error, HardwareError) else cause(error)
