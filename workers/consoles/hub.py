"""
The consoles of a conductor: which nodes have one here, and a session for each.

The row of a node is authoritative: its console is enabled, and this incarnation of the conductor
has started it (`app.engine.records.driver_reports`). A thread of the control process compares the
rows with its sessions, starts and ends sessions, and gives those whose settings have changed a new
program.
"""

import asyncio
import base64
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import redis
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.broker.consoles import BLOCK, ConsoleChannel
from app.db.diagnosis import reason
from app.db.prepared import Prepared
from app.db.transactions import connection_of
from app.engine.records.driver_reports import CONSOLE_CONDUCTOR, VNC
from app.errors import Unavailable
from app.hardware import targets
from app.models import Node
from app.observe import log
from app.runtime import Runtime
from drivers.core.consoles import GraphicalConsole, Program, ProgramConsole, Screen
from drivers.core.driver import interfaces_of
from drivers.core.interface_kinds import Console
from drivers.core.target import Target
from drivers.net import service_addresses
from workers.consoles import history
from workers.consoles.screens import ScreenSession
from workers.consoles.serial import SerialSession
from workers.consoles.session import Gone, Session, Surroundings

T = TypeVar("T")
logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds between comparisons of the rows with the sessions.
PERIOD = 2.0
#: Seconds between removals of old histories.
REMOVAL = 3600.0
#: Programs that start at once.
STARTS = 8
#: Documents of output that wait for Redis; further ones are dropped.
QUEUED = 10_000
#: Documents that are sent at once.
SENT = 200
#: Seconds for the end of each thread.
STOP_TIME = 3.0
#: Seconds that a call waits for the start of a session, and between two looks.
START_TIME, GLANCE = 5.0, 0.1
#: Seconds for an answer of the thread.
ANSWER_TIME = 10.0
#: Addresses that are no place to connect to.
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - only compared
#: Kind of console -> its sessions.
SESSIONS: Mapping[type[Console], type[Session]] = {
    ProgramConsole: SerialSession,
    GraphicalConsole: ScreenSession,
}
_ROWS = select(
    Node.uuid, Node.updated_at, Node.driver, Node.console_interface, Node.driver_internal_info
).where(Node.console_enabled)
_ENABLED = Prepared(select(Node.id).where(Node.console_enabled).limit(1))


def history_folder(runtime: Runtime) -> Path:
    """Return the directory of the histories of consoles."""
    settings = runtime.settings
    return Path(settings.console.history_path or Path(settings.default.data_dir, "consoles"))


class Starting(Unavailable):
    """The console of this node is about to start, please retry."""

    retry_after = 2


class Row(NamedTuple):
    """Columns of a node that decide about its console."""

    updated_at: datetime
    driver: str
    interface: str | None
    kind: type[Session]  # of its sessions


@dataclass(slots=True)
class _Running:
    """A session, its task, and the columns that its program was made from."""

    session: Session
    task: asyncio.Task[None]
    row: Row
    driver_info: Mapping[str, Any]


@dataclass(slots=True)
class Hub:
    """The consoles of one incarnation of a conductor; its methods are called by other threads."""

    runtime: Runtime
    incarnation: str
    channel: ConsoleChannel
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _sessions: dict[str, _Running] = field(default_factory=dict)  # by UUID of the node
    _output: queue.Queue[tuple[str, Mapping[str, object]]] = field(
        default_factory=lambda: queue.Queue(QUEUED)
    )
    _stopped: threading.Event = field(default_factory=threading.Event)
    _reading: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="console")
    )
    _comparing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _around: Surroundings = field(init=False)

    def __post_init__(self) -> None:
        self._around = Surroundings(
            self.runtime.settings.console,
            self.runtime.settings.vnc.read_only,
            history_folder(self.runtime),
            self._publish,
            self._program_of,
            self._screen_of,
            self._record_port,
            asyncio.Semaphore(STARTS),
        )

    def start(self) -> None:
        for work in (self._run, self._send_output, self._receive_input):
            thread = threading.Thread(target=work, name="consoles", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End all programs, at the end of the conductor: another one starts these consoles."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        for running in tuple(self._sessions.values()):
            running.session.kill()
        self._loop.call_soon_threadsafe(self._ending.set)
        for thread in self._threads:
            thread.join(STOP_TIME)

    def facts(self, node: str) -> dict[str, Any]:
        """
        Return the facts of the session of an enabled console; wait a little for the session.

        The port of a graphical one is recorded then (`VNC`). Raises Starting: the session is not
        there yet, as while the console moves to another conductor.
        """
        return self._awaited(node, lambda facts: bool(facts.get("is_recorded", True)))

    def address(self, node: str) -> dict[str, Any]:
        """
        Return the address of a console for programs of other services: {type, url}.

        url: None: `[console]socat_address` is empty.

        Raises Starting: see `facts`. Raises Unavailable: no port is free.
        """
        listened = self.runtime.settings.console.socat_address
        if not listened:
            return {"type": "socat", "url": None}
        facts = self._awaited(node, lambda facts: bool(facts["port"] or facts["no_port"]))
        if facts["port"] is None:
            raise Unavailable(f"[console]port_range: {facts['no_port']}")
        host = service_addresses.in_url(self._host())
        return {"type": "socat", "url": f"tcp://{host}:{facts['port']}"}

    def _host(self) -> str:
        """Return the address of the TCP ports, for other hosts."""
        listened = self.runtime.settings.console.socat_address
        if listened in _EVERYWHERE:
            return service_addresses.of_host(self.runtime.settings.options())
        return listened

    def _awaited(
        self, node: str, is_complete: Callable[[Mapping[str, object]], bool]
    ) -> dict[str, object]:
        """Return the facts of a node when they are complete. Raises Starting: too late."""
        end = time.monotonic() + START_TIME
        while True:
            asyncio.run_coroutine_threadsafe(self._compare(), self._loop).result(ANSWER_TIME)
            running = self._sessions.get(node)
            if running is not None and is_complete(facts := running.session.facts):
                return facts
            if time.monotonic() >= end:
                raise Starting
            time.sleep(GLANCE)

    # the thread of the sessions

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._keep_comparing())
        self._reading.shutdown(wait=False, cancel_futures=True)
        self._loop.close()

    async def _keep_comparing(self) -> None:
        removed_at = -REMOVAL
        while not self._ending.is_set():
            try:
                await self._compare()
                if self._loop.time() - removed_at >= REMOVAL:
                    removed_at = self._loop.time()
                    await self._in_thread(self._remove_old)
            except SQLAlchemyError as error:  # sessions go on
                seldom.warning("console.no_database", detail=reason(error))
            except Exception:  # a defect must not end the consoles of other nodes
                logger.exception("consoles.crashed")
            for _ in range(round(PERIOD)):
                for running in tuple(self._sessions.values()):
                    running.session.tick()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), 1.0)
        async with self._comparing:
            tasks = [running.task for running in self._sessions.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _compare(self) -> None:
        """Compare the rows with the sessions. Raises SQLAlchemyError."""
        async with self._comparing:
            rows = await self._in_thread(self._rows)
            for node in self._sessions.keys() - rows.keys():
                await self._end(node)
            for node, row in rows.items():
                running = self._sessions.get(node)
                if running is not None and running.row == row and not running.task.done():
                    continue
                driver_info = await self._in_thread(self._driver_info, node)
                if running is not None and running.row.kind is not row.kind:
                    await self._end(node)
                    running = None
                if running is None or running.task.done():
                    session = row.kind(node, self._around)
                    # not in the context of the call that was first, which is in lines of the log
                    task = self._loop.create_task(session.run(), context=Context())
                    self._sessions[node] = _Running(session, task, row, driver_info)
                    continue
                if (running.row[1:], running.driver_info) != (row[1:], driver_info):
                    running.session.renew()
                running.row, running.driver_info = row, driver_info

    async def _end(self, node: str) -> None:
        """End a session; free the BMC's, unless another conductor has it."""
        running = self._sessions.pop(node)
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)
        if await self._in_thread(self._is_disabled, node):
            await running.session.free()

    def _rows(self) -> dict[str, Row]:
        """Return the rows of the nodes whose consoles run here, by UUID."""
        with self.runtime.reading() as session:
            connection = connection_of(session)
            if not _ENABLED.first(connection, {}):
                return {}
            return {
                uuid: Row(updated_at, driver, interface, kind)
                for uuid, updated_at, driver, interface, internal in connection.execute(_ROWS)
                if internal.get(CONSOLE_CONDUCTOR) == self.incarnation
                and (kind := self._kind(driver, interface)) is not None
            }

    def _kind(self, driver: str, interface: str | None) -> type[Session] | None:
        """Return the kind of sessions of a console interface; None: it has none."""
        by_name = self.runtime.drivers.types.get(driver, {}).get("console", {})
        console = by_name.get(interface or next(iter(by_name), ""))
        kinds = (session for kind, session in SESSIONS.items() if isinstance(console, kind))
        return next(kinds, None)

    def _driver_info(self, node: str) -> Mapping[str, object]:
        with self.runtime.reading() as session:
            return session.scalar(select(Node.driver_info).where(Node.uuid == node)) or {}

    def _is_disabled(self, node: str) -> bool:
        with self.runtime.reading() as session:
            enabled = session.scalar(select(Node.console_enabled).where(Node.uuid == node))
            return enabled is False

    async def _program_of(self, node: str) -> Program:
        return await self._in_thread(self._read_program, node)

    async def _screen_of(self, node: str) -> Screen:
        return await self._in_thread(self._read_screen, node)

    def _read_program(self, node: str) -> Program:
        """Raises Gone, HardwareError, SQLAlchemyError."""
        target, console = self._console_of(node)
        if not isinstance(console, ProgramConsole):
            raise Gone
        return console.program(target)

    def _read_screen(self, node: str) -> Screen:
        """Raises Gone, HardwareError, SQLAlchemyError."""
        target, console = self._console_of(node)
        if not isinstance(console, GraphicalConsole):
            raise Gone
        return console.screen(target)

    def _console_of(self, uuid: str) -> tuple[Target, Console]:
        """Return the console of a node, if it is this conductor's. Raises Gone, SQLAlchemyError."""
        with self.runtime.reading() as session:
            node = session.scalar(select(Node).where(Node.uuid == uuid, Node.console_enabled))
            internal = node.driver_internal_info if node else {}
            if node is None or internal.get(CONSOLE_CONDUCTOR) != self.incarnation:
                raise Gone
            target = targets.of_node(session, node)
            session.expunge_all()
        target = targets.with_secrets(self.runtime, target)
        return target, interfaces_of(target).console

    async def _record_port(self, node: str, port: int) -> None:
        await self._in_thread(self._write_port, node, port)

    def _write_port(self, uuid: str, port: int) -> None:
        """Raises Gone, SQLAlchemyError."""
        with self.runtime.transaction() as session:
            query = select(Node).where(Node.uuid == uuid, Node.console_enabled)
            node = session.scalar(query.with_for_update())
            internal = node.driver_internal_info if node else {}
            if node is None or internal.get(CONSOLE_CONDUCTOR) != self.incarnation:
                raise Gone
            place = dict(zip(VNC, (self._host(), port), strict=True))
            node.driver_internal_info = {**internal, **place}

    def _remove_old(self) -> None:
        days = self.runtime.settings.console.history_days
        history.remove_old(history_folder(self.runtime), days)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await self._loop.run_in_executor(self._reading, work, *arguments)

    # the threads of Redis

    def _publish(self, node: str, document: Mapping[str, object]) -> None:
        try:
            self._output.put_nowait((node, document))
        except queue.Full:
            seldom.warning("console.output_dropped", node=node)

    def _send_output(self) -> None:
        while not self._stopped.is_set():
            try:
                documents = [self._output.get(timeout=BLOCK)]
            except queue.Empty:
                continue
            while len(documents) < SENT and not self._output.empty():
                documents.append(self._output.get_nowait())
            try:
                self.channel.publish(documents)
            except redis.RedisError as error:
                seldom.warning("console.output_dropped", detail=str(error))
            except Exception:
                logger.exception("consoles.crashed")

    def _receive_input(self) -> None:
        while not self._stopped.is_set():
            try:
                for received in self.channel.input():
                    if self._stopped.is_set():
                        return
                    if received is not None:
                        self._loop.call_soon_threadsafe(self._accept, *received)
            except (redis.RedisError, OSError) as error:
                seldom.warning("console.no_input", detail=str(error))
            except Exception:
                logger.exception("consoles.crashed")
            self._stopped.wait(BLOCK)

    def _accept(self, node: str, document: Mapping[str, Any]) -> None:
        running = self._sessions.get(node)
        if running is None:
            return
        try:
            data = base64.b64decode(document.get("data") or "", validate=True)
        except (ValueError, TypeError):
            return
        running.session.accept(document, data)
