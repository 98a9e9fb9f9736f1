"""
WebSockets of consoles: output of a machine to a watcher, and what the watcher types.

Messages to the client are JSON texts: the documents of `app.broker.consoles`, each with its
`position`, after one of its own at the beginning: {"holder", "write", "seconds"}. Messages of the
client are bytes, which are typed, or JSON texts: {"act": "claim" | "steal" | "release"}.

The socket is closed after `SESSION_TIME`: its client asks for another ticket, which needs
its rights again, and goes on at the last position.
"""

import base64
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

import orjson
from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.audit import audit_records
from app.broker.consoles import ConsoleChannel
from app.observe import log
from app.runtime import Runtime

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: Seconds after which a connection must be authorized again, by another ticket.
SESSION_TIME = 600.0
#: Codes of a closed socket: the time is over, the process ends, the client sent what is not taken.
EXPIRED, RESTARTING, WRONG = 4000, 1012, 1008
#: Most bytes of a message of the client.
LONGEST = 16 << 10
#: Seconds between two claims of a writer: less than after which it is none any more.
CLAIM_INTERVAL = 5.0
#: Seconds without output until a message keeps proxies from closing the connection.
SILENCE = 30.0
#: Seconds between reads while Redis is out of reach.
PAUSE = 1.0
#: Actions in the audit: the first input of a caller, and the end of its socket.
WRITE, CLOSE = "update/node/console", "delete/node/console"


class Socket(Protocol):
    """An open WebSocket (`app.server.gateway`)."""

    def receive(self) -> str | bytes | None:
        """Return the next message; None: the socket is closed."""

    def send(self, message: str | bytes) -> None:
        """Send a message. Raises Exception: the client is gone."""

    def close(self, code: int, reason: str = "") -> None:
        """Close the socket."""


@dataclass(slots=True)
class Watch:
    """A caller who watches a console. ticket: document of the caller's ticket."""

    runtime: Runtime
    consoles: ConsoleChannel
    ticket: Mapping[str, Any]
    ends: Callable[[], bool]  # whether the process is about to end
    leave: Callable[[], object]  # gives the place of the request back
    holder: str = field(default_factory=lambda: str(uuid4()))
    _session: str = ""  # id of the console's present session
    _claims: bool = False  # whether the caller is, or waits to be, the writer
    _typed: bool = False
    _claimed_at: float = 0.0
    _closed: threading.Event = field(default_factory=threading.Event)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _sending: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, socket: Socket) -> None:
        """Serve the open socket until it is closed."""
        self._session = self.ticket["session"]
        sender = threading.Thread(target=self._send, args=(socket,), name="console", daemon=True)
        sender.start()
        try:
            while (message := socket.receive()) is not None:
                if not self._take(message):
                    socket.close(WRONG, "not taken")
                    break
        except Exception as error:  # granian's own, when the connection breaks
            logger.debug("console.socket_broken", detail=str(error))
        finally:
            self._closed.set()
            sender.join()
            self.leave()
            self._finish()
            self._record(CLOSE)

    def _finish(self) -> None:
        """Tell the conductor that the client is gone."""
        if self._claims:
            self._input("release")

    def _take(self, message: str | bytes) -> bool:
        """Handle a message of the client; return whether it is one that is taken."""
        if len(message) > LONGEST:
            return False
        if not self.ticket["write"]:
            return True  # of a watcher: ignored
        if isinstance(message, bytes):
            if not self._typed:
                self._typed = True
                self._record(WRITE)
            self._input("type", data=base64.b64encode(message).decode())
            return True
        try:
            document = orjson.loads(message)
            act = document["act"]
        except (orjson.JSONDecodeError, TypeError, KeyError):
            return False
        if act not in ("claim", "steal", "release"):
            return False
        self._claims = act != "release"
        self._claimed_at = time.monotonic()
        self._input(act)
        return True

    def _input(self, act: str, **fields: str | int) -> None:
        with self._sending:  # so that the numbers arrive in order
            document = {
                "session": self._session,
                "holder": self.holder,
                "number": next(self._numbers),
                "act": act,
                "name": self.ticket["name"],
                **fields,
            }
            try:
                self.consoles.send(self.ticket["node"], document)
            except RedisError as error:  # as if it had not been typed
                seldom.warning("console.no_input", detail=str(error))

    def _send(self, socket: Socket) -> None:
        try:
            code, words = self._follow(socket)
            socket.close(code, words)
        except Exception as error:  # granian's own: the client is gone
            logger.debug("console.socket_broken", detail=str(error))
        finally:
            self._closed.set()

    def _follow(self, socket: Socket) -> tuple[int, str]:
        """Send output until the socket is closed; return code and reason of the end."""
        end = time.monotonic() + SESSION_TIME
        position, sent_at = self.ticket["after"], time.monotonic()
        greeting = {"holder": self.holder, "write": self.ticket["write"], "seconds": SESSION_TIME}
        socket.send(orjson.dumps(greeting).decode())
        while not self._closed.is_set():
            try:
                documents = self.consoles.output(self.ticket["node"], position)
            except RedisError as error:
                seldom.warning("console.no_output", detail=str(error))
                self._closed.wait(PAUSE)
                documents = []
            for position, document in documents:
                self._note(document)
                socket.send(orjson.dumps({"position": position, **document}).decode())
            now = time.monotonic()
            if documents:
                sent_at = now
            elif now - sent_at >= SILENCE:
                socket.send("{}")
                sent_at = now
            if self._claims and now - self._claimed_at >= CLAIM_INTERVAL:
                self._claimed_at = now
                self._input("claim")
            if now >= end:
                return EXPIRED, "expired"
            if self.ends():
                return RESTARTING, "the service restarts"
        return EXPIRED, "closed"

    def _note(self, document: Mapping[str, object]) -> None:
        """Follow the console to another session, as after the death of its conductor."""
        session = document.get("session")
        if isinstance(session, str) and session != self._session:
            self._session = session
            self._claimed_at = 0.0

    def _record(self, action: str) -> None:
        """Add a record to the audit."""
        row = self.ticket.get("audit")
        if row is None:
            return
        try:
            with self.runtime.write_connection() as connection:
                audit_records.add(connection, {**row, "action": action, "status": None})
        except SQLAlchemyError as error:
            logger.warning("audit.failed", error=str(error))
