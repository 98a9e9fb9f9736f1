"""
WebSockets of graphical consoles: the screen of a machine for a viewer, and its keys and pointer.

Binary messages are RFB, the protocol of VNC, on both sides: the viewer's handshake, without
authentication, is done here, and the conductor has logged in to the VNC server. A client that
offers the protocol `ingot.console` has, beside them, the texts of
`app.api.node.console.console_socket` except `data`. Any other client sees RFB alone, and claims to
type by its first key.
"""

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from redis import RedisError

from app.api.node.console.console_socket import (
    CLAIM_INTERVAL,
    EXPIRED,
    PAUSE,
    RESTARTING,
    SESSION_TIME,
    WRITE,
    Socket,
    Watch,
    seldom,
)
from drivers.net import rfb

#: Code of a closed socket: the connection to the VNC server has ended; another socket may have one.
ENDED = 4001
#: Seconds without a sign of the conductor, which sends some, after which there is none.
ABSENT = 20.0
#: Most bytes of the reason with which a socket is closed (RFC 6455, 5.5).
LONGEST_REASON = 120


@dataclass(slots=True)
class Screen(Watch):
    """A caller who watches a screen. plain: the client sees RFB alone."""

    plain: bool = False
    _socket: Socket | None = None
    _viewer: rfb.Viewer = field(default_factory=rfb.Viewer)
    _position: str = "0"  # in the output of the node
    _screen_position: str = "0"  # in that of this viewer
    _received: int = 0  # pieces
    _confirmed: int = 0  # of them
    _heard_at: float = 0.0  # the conductor was
    _signed_at: float = 0.0

    def serve(self, socket: Socket) -> None:
        """Serve the open socket until it is closed."""
        self._socket = socket
        Watch.serve(self, socket)

    def _finish(self) -> None:
        self._input("close")

    def _take(self, message: str | bytes) -> bool:
        """Handle a message of the client; return whether it is one that is taken."""
        if isinstance(message, str):
            return not self.plain and Watch._take(self, message)
        was_ready = self._viewer.is_ready
        try:
            answer, messages = self._viewer.feed(message)
        except rfb.Malformed as error:
            seldom.warning("console.malformed", node=self.ticket["node"], detail=str(error))
            return False
        if answer and self._socket is not None:
            self._socket.send(answer)
        if self._viewer.is_ready and not was_ready:
            self._heard_at = time.monotonic()
            self._input("open")
        for data, is_input in messages:
            self._pass_on(data, is_input=is_input)
        return True

    def _pass_on(self, data: bytes, *, is_input: bool) -> None:
        """Pass a message of the viewer on to the conductor, unless it may only watch."""
        encoded = base64.b64encode(data).decode()
        if not is_input:
            self._input("see", data=encoded)
        elif self.ticket["write"]:
            if not self._typed:
                self._typed = True
                self._record(WRITE)
            if self.plain and not self._claims:
                self._claims = True
                self._input("claim")
            self._input("type", data=encoded)

    def _follow(self, socket: Socket) -> tuple[int, str]:
        """Send the screen until the socket is closed; return code and reason of the end."""
        end = time.monotonic() + SESSION_TIME
        greeting = {"holder": self.holder, "write": self.ticket["write"], "seconds": SESSION_TIME}
        self._tell(socket, greeting)
        self._position, self._signed_at = self._newest(), time.monotonic()
        socket.send(rfb.VERSION)
        while not self._closed.is_set():
            if reason := self._show_next(socket):
                return ENDED, reason.encode()[:LONGEST_REASON].decode(errors="ignore")
            now = time.monotonic()
            if self._viewer.is_ready and now - self._heard_at >= ABSENT:
                return ENDED, "its conductor does not answer"
            self._give_signs(socket, now)
            if now >= end:
                return EXPIRED, "expired"
            if self.ends():
                return RESTARTING, "the service restarts"
        return EXPIRED, "closed"

    def _show_next(self, socket: Socket) -> str:
        """Send what has come, or wait a little; return why the connection ends, or empty text."""
        node = self.ticket["node"]
        try:
            documents = self.consoles.screen(
                node, self.holder, self._position, self._screen_position
            )
        except RedisError as error:
            seldom.warning("console.no_output", detail=str(error))
            self._closed.wait(PAUSE)
            documents = []
        reason = ""
        for is_screen, position, document in documents:
            if is_screen:
                self._screen_position = position
                reason = reason or self._show(socket, document)
            else:
                self._position = position
                reason = reason or self._note_state(socket, document)
        return reason

    def _give_signs(self, socket: Socket, now: float) -> None:
        """Tell the conductor and the client that this is here; confirm what has come."""
        is_due = now - self._signed_at >= CLAIM_INTERVAL
        if self._viewer.is_ready and (is_due or self._received != self._confirmed):
            self._confirmed = self._received
            self._input("confirm", received=self._received)
        if is_due:
            self._signed_at = now
            self._tell(socket, {})
            if self._claims:
                self._input("claim")

    def _newest(self) -> str:
        """Return the position of the newest document of the node: earlier ones are of the past."""
        try:
            return self.consoles.newest(self.ticket["node"])
        except RedisError as error:
            seldom.warning("console.no_output", detail=str(error))
            return "0"

    def _show(self, socket: Socket, document: Mapping[str, Any]) -> str:
        """Send a piece to the viewer; return why the connection ends, or an empty text."""
        self._heard_at = time.monotonic()
        if "end" in document:
            return str(document["end"]) or "it has ended"
        if "data" in document:
            if document.get("number") != self._received:
                return "some of the picture was lost"
            self._received += 1
            socket.send(base64.b64decode(document["data"]))
        return ""

    def _note_state(self, socket: Socket, document: Mapping[str, Any]) -> str:
        """Tell the client what has changed; return why the connection ends, or an empty text."""
        session = document.get("session")
        if isinstance(session, str) and session != self._session:
            return "the console has moved to another conductor, or was started again"
        self._tell(socket, document)
        return ""

    def _tell(self, socket: Socket, document: Mapping[str, Any]) -> None:
        if not self.plain:
            socket.send(orjson.dumps(document).decode())
